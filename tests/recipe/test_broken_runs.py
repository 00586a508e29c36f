"""A finished run, one file of it broken or lost: what the next start says, and that following it mends the run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.recipe.kills import End, results, start, write_config

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that has ended."""
    config = write_config(tmp_path_factory.mktemp("finished") / "run")
    end = start(config)
    assert end.code == 0, end.said[-3000:]
    return config.parent


def copied(finished: Path, folder: Path) -> Path:
    """A copy of the run whose configuration names the copy; returns that configuration."""
    shutil.copytree(finished, folder)
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "output_dir": str(folder / "out")}))
    return path


def refused(config: Path, *named: str) -> End:
    """A start that ends with one sentence that holds all of ``named``."""
    end = start(config)
    assert end.code == 2, end.said[-3000:]
    said = [line for line in end.said.splitlines() if line.startswith("error: ")]
    assert len(said) == 1, end.said
    assert "Traceback" not in end.said
    for name in named:
        assert name in said[0]
    return end


BROKEN = [
    pytest.param("eval/after-self_summary-130.json", b'{"key": "after/self_', "delete it", id="a cell cut off"),
    pytest.param("eval/after-self_summary-130.json", b"[]", "delete it", id="a cell of another form"),
    pytest.param("eval/after-self_summary-130.json", b'{"key": 1, "cell": {"outcomes": [{}]}}', "delete it", id="old"),
    pytest.param("eval/after-self_summary-130.json", b"\xff\xfe", "delete it", id="a cell of other bytes"),
    pytest.param("midtrain/skills.json", b'{"copying": 0.', "delete it", id="skills cut off"),
    pytest.param("midtrain/skills.json", b'{"copying": "high"}', "delete it", id="skills of another form"),
    pytest.param("seconds.json", b"{", "delete it", id="times cut off"),
    pytest.param("seconds.json", b"[3]", "delete it", id="times of another form"),
]


@pytest.mark.parametrize(("file", "content", "remedy"), BROKEN)
def test_a_broken_record_is_named_and_can_be_deleted(
    finished: Path, tmp_path: Path, file: str, content: bytes, remedy: str
) -> None:
    config = copied(finished, tmp_path / "run")
    path = config.parent / "out" / file
    path.write_bytes(content)
    refused(config, str(path), remedy)
    path.unlink()
    assert start(config).code == 0
    assert results(config.parent / "out") == results(finished / "out")


@pytest.mark.parametrize("content", [b"", b"window: [", b"- a\n", b"3\n"])
def test_broken_arguments_are_named(finished: Path, tmp_path: Path, content: bytes) -> None:
    config = copied(finished, tmp_path / "run")
    (config.parent / "out" / "arguments.yaml").write_bytes(content)
    refused(config, str(config.parent / "out" / "arguments.yaml"), "delete the folder", "name another output_dir")


@pytest.mark.parametrize(
    ("folder", "file", "share"),
    [
        ("midtrain", "model.safetensors", 0.5),
        ("policy", "model.safetensors", 0.0),
        ("policy", "config.json", 0.5),
        ("midtrain", "tokenizer.json", 0.5),
    ],
)
def test_cut_weights_are_named_and_their_folder_can_be_deleted(
    finished: Path, tmp_path: Path, folder: str, file: str, share: float
) -> None:
    config = copied(finished, tmp_path / "run")
    out = config.parent / "out"
    path = out / folder / file
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    (out / "eval" / "before-self_summary-130.json").unlink()
    refused(config, str(out / folder), "delete that folder")
    shutil.rmtree(out / folder)
    assert start(config).code == 0
    assert results(out) == results(finished / "out")


@pytest.mark.parametrize(
    "lost",
    [
        ["policy", "eval"],  # as a kill after the last checkpoint and before the end of the stage leaves it
        ["midtrain/skills.json"],
        ["midtrain", "grpo", "policy", "eval", "history.jsonl"],
        ["report.json", "report.md", "report.png", "seconds.json"],
        ["eval/after-self_summary-130.json"],
    ],
    ids=" ".join,
)
def test_what_is_lost_is_made_again(finished: Path, tmp_path: Path, lost: list[str]) -> None:
    config = copied(finished, tmp_path / "run")
    out = config.parent / "out"
    for name in lost:
        shutil.rmtree(out / name) if (out / name).is_dir() else (out / name).unlink()
    end = start(config)
    assert end.code == 0, end.said[-3000:]
    assert "missing keys" not in end.said
    assert results(out) == results(finished / "out")


def test_a_checkpoint_that_is_cut_is_passed_over(finished: Path, tmp_path: Path) -> None:
    """Here it is the only one, so the stage begins anew and ends the same."""
    for file in ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth"):
        config = copied(finished, tmp_path / file)
        out = config.parent / "out"
        shutil.rmtree(out / "policy")
        path = out / "grpo" / "checkpoint-6" / file
        path.write_bytes(path.read_bytes()[:-9])
        end = start(config)
        assert end.code == 0, end.said[-3000:]
        assert f"was cut off while it was written ({file})" in end.said
        assert results(out) == results(finished / "out")


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"eval_baseline_factor": 40}, "eval_baseline_factor is 40"),
    ({"frozen_policy": "{here}"}, "frozen_policy is '"),
    ({"credit": "tests.recipe.kills:ROOT"}, "credit is 'tests.recipe.kills:ROOT': must name a function"),
    ({"credit": "tests.recipe.kills:start"}, "fails on a group of two"),
    ({"credit": "builtins:list"}, "must name a function"),
    ({"strategy": "tests.recipe.kills:ROOT"}, "strategy is 'tests.recipe.kills:ROOT': must name a dataclass"),
    ({"strategy": "summarization.strategies:ContextState"}, "lacks due"),
    ({"strategy": "summarization.strategies:over_budget"}, "is a function"),
]


@pytest.mark.parametrize(("fields", "said"), REFUSED)
def test_what_shows_late_is_refused_before_training(tmp_path: Path, fields: dict[str, Any], said: str) -> None:
    config = write_config(tmp_path / "run")
    given = {name: str(tmp_path) if value == "{here}" else value for name, value in fields.items()}
    config.write_text(yaml.safe_dump({**yaml.safe_load(config.read_text()), **given}))
    refused(config, said)
    assert not (config.parent / "out").exists()


def test_a_row_that_the_environment_refuses_is_named(tmp_path: Path) -> None:
    config = write_config(tmp_path / "run")
    rows = tmp_path / "rows.jsonl"
    good = '{"seed": 1, "split": "train", "kind": "find", "words": 100}\n'
    rows.write_text(good * 4999 + good.replace("find", "fnd"))
    config.write_text(yaml.safe_dump({**yaml.safe_load(config.read_text()), "train_file": str(rows)}))
    refused(config, f"{rows}, task 5000", "'kind' is 'fnd'", "did you mean 'find'?")
