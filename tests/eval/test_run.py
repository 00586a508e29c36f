"""The evaluation command, with the tiny policy and random weights: whole runs, resumed, rescored, compared."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from eval.run import main

PLAN: dict[str, Any] = {
    "policy": "tiny",
    "tasks": ["recall", "chain"],
    "lengths": [300, 600],
    "samples": [2],
    "strategies": ["self_summary", "sliding_window", "oracle_summary", "full_context", "no_context"],
    "window": 128,
    "full_window": 512,
    "act_tokens": 4,
    "summary_tokens": 4,
    "prompt_style": "tiny",
    "page_tokens": 32,
    "sessions": 4,
}


def config(folder: Path, **changes: Any) -> str:
    """A YAML in ``folder``."""
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump({**PLAN, "output_dir": str(folder / "run"), **changes}))
    return str(path)


def report(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run" / "report.json").read_text())


def lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def test_a_run_from_nothing_to_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--config", config(tmp_path)]) == 0
    found = report(tmp_path)
    # full_context leaves out what does not fit into its window.
    assert len(found["cells"]) == 2 * 2 * 5 - 2
    assert {cell["n"] for cell in found["cells"]} == {2}
    by_strategy = found["success_by_length"]
    assert by_strategy["oracle_summary"].keys() == {"300", "600"}
    assert by_strategy["full_context"].keys() == {"300"}
    for cell in found["cells"]:
        assert cell["peak_context"] <= (512 if cell["strategy"] == "full_context" else 128)
        assert (cell["compactions"] > 0) == (cell["strategy"] not in ("full_context", "no_context"))
        assert abs(cell["read_tokens"] - (0 if cell["strategy"] == "no_context" else cell["length"])) <= 0.06 * 600
    assert {pair["strategy"] for pair in found["compaction_error"]} == set(PLAN["strategies"]) - {"full_context"}
    assert found["policy_hash"] is None
    assert found["versions"]["torch"]
    assert (tmp_path / "run" / "report.png").read_bytes().startswith(b"\x89PNG")
    assert "| chain | both | 600 | oracle_summary | 2 |" in (tmp_path / "run" / "report.md").read_text()
    assert "report:" in capsys.readouterr().out


def test_the_same_samples_for_every_strategy_and_a_resumed_run_does_nothing_twice(tmp_path: Path) -> None:
    plan = config(tmp_path, tasks=["recall"], lengths=[300], strategies=["self_summary", "sliding_window"])
    assert main(["--config", plan]) == 0
    first, second = sorted((tmp_path / "run" / "samples").iterdir())
    rows = [[line["task"] for line in lines(path)[1:]] for path in (first, second)]
    assert sorted(rows[0], key=str) == sorted(rows[1], key=str)
    before = first.read_bytes(), second.read_bytes()
    # As a process that was killed leaves it: one episode whole, the next half written.
    whole = lines(first)
    parts = [gzip.compress((json.dumps(line) + "\n").encode()) for line in whole]
    first.write_bytes(parts[0] + parts[1] + parts[2][:20])
    assert main(["--config", plan]) == 0
    assert second.read_bytes() == before[1]
    again = lines(first)
    assert [line["task"] for line in again[1:]] == [line["task"] for line in whole[1:]]
    assert [line["acts"] for line in again[1:]] == [line["acts"] for line in whole[1:]]
    assert report(tmp_path)["cells"][0]["n"] == 2


def test_more_samples_are_added_and_other_settings_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    only = {"tasks": ["recall"], "lengths": [300], "strategies": ["sliding_window"]}
    assert main(["--config", config(tmp_path, **only)]) == 0
    assert main(["--config", config(tmp_path, **{**only, "samples": [3]})]) == 0
    assert report(tmp_path)["cells"][0]["n"] == 3
    assert main(["--config", config(tmp_path, **{**only, "window": 200})]) == 2
    assert "window is 200, but the run in" in capsys.readouterr().err


def test_a_dry_run_plays_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--config", config(tmp_path), "--dry_run"]) == 0
    assert not (tmp_path / "run").exists()
    assert "36 episodes, 12,000 tokens of pages to read" in capsys.readouterr().out


def test_rescoring_gives_the_same_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = config(tmp_path, tasks=["recall", "niah_single_2"], lengths=[300], strategies=["oracle_summary"], window=256)
    assert main(["--config", plan]) == 0
    before = report(tmp_path)["cells"]
    assert main(["rescore", str(tmp_path / "run")]) == 0
    assert report(tmp_path)["cells"] == before
    assert "4 answers scored again, 0 of them otherwise" in capsys.readouterr().out
    assert main(["--config", plan]) == 0


def test_two_runs_are_compared_sample_by_sample(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, strategies in (("a", ["oracle_summary"]), ("b", ["oracle_summary"])):
        (tmp_path / name).mkdir()
        plan = config(tmp_path / name, lengths=[300], strategies=strategies)
        assert main(["--config", plan]) == 0
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "a" / "run"), str(tmp_path / "b" / "run")]) == 0
    out = capsys.readouterr().out
    assert out.count("+0.000") == 2 * 3
    assert main(["compare", str(tmp_path / "a" / "run"), str(tmp_path)]) == 2
    assert "is no folder of an evaluation" in capsys.readouterr().err


def test_a_file_of_a_public_benchmark(tmp_path: Path) -> None:
    file = tmp_path / "niah.jsonl"
    text = "The number of cats is 17. " + "The sea is wide. " * 60 + "\n\nWhat is the number of cats?"
    file.write_text("".join(json.dumps({"index": 0, "input": text, "outputs": ["17"]}) + "\n" for _ in range(3)))
    files = [{"path": str(file), "format": "ruler", "rows": 2, "metric": "string_match_all"}]
    plan = config(tmp_path, tasks=[], files=files, strategies=["sliding_window"], lengths=[], window=256)
    assert main(["--config", plan]) == 0
    (cell,) = report(tmp_path)["cells"]
    # Two questions on one text are one cluster, and one cluster has no interval.
    assert (cell["task"], cell["n"], cell["clusters"], cell["interval_95"]) == ("ruler:niah", 2, 1, None)
    assert len(report(tmp_path)["files"][0]["hash"]) > 8


def test_the_list_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    out = capsys.readouterr().out
    for name in (
        "recall",
        "niah_multikey_3",
        "ledger",
        "longbench_v2",
        "memory_rewrite",
        "full_context",
        "transformers",
    ):
        assert f"  {name} " in out


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": ["recal"]}, "did you mean 'recall'"),
        ({"tasks": []}, "tasks is []"),
        ({"lengths": []}, "lengths is []"),
        ({"lengths": "long"}, "lengths is 'long': must be a list"),
        ({"samples": [1, 2, 3]}, "samples is [1, 2, 3]"),
        ({"strategies": ["self_sumary"]}, "did you mean 'self_summary'"),
        ({"asked": ["middle"]}, "asked is 'middle'"),
        ({"window": 0}, "window is 0"),
        ({"wndow": 100}, "did you mean 'window'"),
        ({"task_options": {"recall": {"kind": "fnd"}}}, "did you mean 'find'"),
        ({"task_options": {"ledger": {}}}, "task_options is 'ledger'"),
        ({"strategy_options": {"self_summary": {"bdget": 3}}}, "has no option 'bdget'"),
        ({"files": [{"path": "x"}]}, "each needs 'format'"),
        ({"files": [{"path": "nowhere.jsonl", "format": "ruler"}]}, "nowhere.jsonl: there is no such file"),
        ({"policy": "/nowhere"}, "policy is '/nowhere': it cannot be loaded"),
        ({"engine": "vlm"}, "engine: 'vlm'"),
        ({"engine_kwargs": {"fast": True}}, "has no 'fast'"),
        ({"window": 30}, "window is 30 tokens, but the opening"),
        ({"full_window": 100000}, "lower window"),
    ],
)
def test_a_mistake_is_one_sentence(
    changes: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = config(tmp_path, **changes)
    assert main(["--config", plan]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith(f"error: {plan}: ")
    assert message in line


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--config", "/nowhere.yaml"], "cannot be read"),
        (["--polcy", "tiny"], "did you mean 'policy'"),
        (["--tasks", "[recall]"], "field 'output_dir' is missing"),
        (["words"], "is no field"),
        (["rescore"], "name a run's folder"),
        (["compare", "a"], "name two runs' folders"),
    ],
)
def test_a_wrong_command_line(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert message in capsys.readouterr().err


def test_the_command_line_wins(tmp_path: Path) -> None:
    plan = config(tmp_path)
    words = ["--config", plan, "--tasks", "chain", "--lengths=300", "--samples", "1", "--strategies", "sliding_window"]
    assert main(words) == 0
    (cell,) = report(tmp_path)["cells"]
    assert (cell["task"], cell["length"], cell["n"]) == ("chain", 300, 1)
