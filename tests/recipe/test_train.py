"""The command: what it refuses, and that a run that was cut goes on where it stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from recipe.train import main
from rollouts.policies.tiny import tiny_model, tiny_tokenizer
from rollouts.storage import read_episodes

ROOT = Path(__file__).parents[2]
QUICKSTART = yaml.safe_load((ROOT / "configs" / "quickstart.yaml").read_text())


def config(folder: Path, **changes: Any) -> Path:
    """The quickstart with some fields changed, as a file."""
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump({**QUICKSTART, "output_dir": str(folder / "out"), "report_to": "none", **changes}))
    return path


COUNTING = "tests.rollouts.worlds:Counting"
REFUSED = [
    pytest.param({"window": 64}, "window", id="a window too small for prompt and reserve"),
    pytest.param({"loss_type": "grpo"}, "loss_type", id="a loss that counts rows"),
    pytest.param({"num_generations": 1}, "num_generations", id="a group of one"),
    pytest.param({"sumary_tokens": 8}, "did you mean 'summary_tokens'", id="an unknown key"),
    pytest.param({"policy": "./missing/"}, "policy", id="a missing model folder"),
    pytest.param({"train_file": "missing.jsonl"}, "train_file", id="a missing task file"),
    pytest.param({"environment": "recal"}, "did you mean 'recall'", id="an unknown environment"),
    pytest.param({"environment_kwargs": {"page_word": 3}}, "environment_kwargs", id="an unknown environment argument"),
    pytest.param({"strategy": "self_sumary"}, "did you mean 'self_summary'", id="an unknown strategy"),
    pytest.param({"credit": "jiont"}, "did you mean 'joint'", id="an unknown credit rule"),
    pytest.param({"stages": ["grpo", "midtrain"]}, "stages", id="stages out of order"),
    pytest.param({"window": "large"}, "window", id="a word for a number"),
    pytest.param({"per_device_train_batch_size": 7}, "num_generations", id="a batch that groups do not divide"),
    pytest.param(
        {"environment": "tests.rollouts.worlds:Counting", "environment_kwargs": {}},
        "train_file is not set",
        id="no tasks",
    ),
    pytest.param({"task_kinds": ["fnd"]}, "did you mean 'find'", id="an unknown kind of task"),
    pytest.param({"window": 5}, "the opening alone takes", id="a window smaller than the opening"),
    pytest.param({"temperature": 0.0}, "temperature is 0.0", id="a temperature that divides by zero"),
    pytest.param({"learning_rate": -1.0}, "learning_rate is -1.0", id="a negative learning rate"),
    pytest.param({"learning_rate": float("nan")}, "learning_rate is nan", id="a learning rate that is no number"),
    pytest.param({"per_device_train_batch_size": 0}, "per_device_train_batch_size is 0", id="an empty batch"),
    pytest.param({"top_k": 5}, "top_k is 5", id="sampling that the loss does not score"),
    pytest.param({"train_tasks": 7}, "takes 8 tasks", id="fewer tasks than a batch takes"),
]


@pytest.mark.parametrize(("changes", "named"), REFUSED)
def test_what_cannot_work_is_refused_in_one_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], changes: dict[str, Any], named: str
) -> None:
    path = config(tmp_path, **changes)
    assert main(["--config", str(path)]) == 2
    complaint = capfd.readouterr().err
    assert named in complaint
    assert str(path) in complaint
    assert "Traceback" not in complaint
    assert complaint.strip().count("\n") == 0
    assert not (tmp_path / "out" / "midtrain").exists()


def test_a_missing_config_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--config", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml" in capfd.readouterr().err


def test_a_task_row_without_its_columns_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "tasks.jsonl"
    rows.write_text('{"seed": 1, "split": "train", "kind": "find", "words": 100}\n{"seed": 1, "split": "train"}\n')
    assert main(["--config", str(config(tmp_path, train_file=str(rows)))]) == 2
    complaint = capfd.readouterr().err
    assert "tasks.jsonl, line 2" in complaint
    assert "kind" in complaint


def test_an_environment_whose_reset_fails_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "tasks.jsonl"
    rows.write_text('{"question": 1}\n' * 16)
    changes = {"environment": "tests.rollouts.worlds:Unopened", "environment_kwargs": {}, "train_file": str(rows)}
    stages = {"stages": ["grpo"], "eval_lengths": [], "eval_tasks": [64], "eval_every": 0}
    assert main(["--config", str(config(tmp_path, **changes, **stages))]) == 2
    complaint = capfd.readouterr().err
    assert "Unopened" in complaint
    assert "no such door" in complaint


@pytest.mark.parametrize("given", [[], ["configs/quickstart.yaml"]])
def test_a_command_without_a_config_is_refused(given: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(given) == 2
    assert "--config configs/quickstart.yaml" in capfd.readouterr().err


def test_a_template_that_is_not_append_only_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = (
        "{%- for m in messages -%}{%- if m.role != 'assistant' or loop.last -%}<{{ m.role }}>{{ m.content }}<end>"
        "{%- endif -%}{%- endfor -%}{%- if add_generation_prompt -%}<assistant>{%- endif -%}"
    )
    folder = tmp_path / "policy"
    tokenizer.save_pretrained(folder)
    tiny_model(tokenizer, 0, hidden=16, layers=1, heads=2).save_pretrained(folder)
    assert main(["--config", str(config(tmp_path, policy=str(folder)))]) == 2
    complaint = capfd.readouterr().err
    assert "chat template" in complaint
    assert str(folder) in complaint


def test_a_folder_with_another_run_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "arguments.yaml").write_text("window: 99\n")
    assert main(["--config", str(config(tmp_path))]) == 2
    assert "output_dir" in capfd.readouterr().err


SMALL = {
    "stages": ["midtrain", "grpo", "eval"],
    "midtrain_span_steps": 2,
    "midtrain_steps": 4,
    "midtrain_short_steps": 2,
    "midtrain_batch": 8,
    "midtrain_span_batch": 8,
    "midtrain_least_accuracy": 0.0,
    "policy_hidden": 32,
    "task_words": [150, 250],
    "train_tasks": 50,
    "num_generations": 2,
    "per_device_train_batch_size": 8,
    "max_steps": 6,
    "save_steps": 2,
    "learning_rate": 0.01,
    "eval_every": 3,
    "eval_lengths": [200],
    "eval_tasks": [8],
    "save_transcripts": 2,
}


def started(path: Path) -> subprocess.Popen[str]:
    """The command as a user starts it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "recipe.train", "--config", str(path)],
        env=environment,
        cwd=path.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_like_one_that_was_not(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for folder in (whole, cut):
        folder.mkdir()
    run = started(config(whole, **SMALL))
    assert run.wait() == 0, run.stdout and run.stdout.read()[-3000:]

    path = config(cut, **SMALL)
    run = started(path)
    checkpoint = cut / "out" / "grpo" / "checkpoint-2" / "trainer_state.json"
    while not checkpoint.is_file():
        assert run.poll() is None, run.stdout and run.stdout.read()[-3000:]
        time.sleep(0.05)
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert not (cut / "out" / "report.json").exists()
    # What a process that is killed while it writes leaves behind.
    (cut / "out" / "grpo" / "checkpoint-5").mkdir()
    with (cut / "out" / "history.jsonl").open("a") as file:
        file.write('{"stage": "grpo", "st')
    run = started(path)
    assert run.wait() == 0, run.stdout and run.stdout.read()[-3000:]

    reports = [json.loads((folder / "out" / "report.json").read_text()) for folder in (whole, cut)]
    for key in ("success_before", "success_after", "peak_context"):
        assert reports[0][key] == reports[1][key]
    curves = [
        [{k: v for k, v in point.items() if k != "seconds"} for point in report["training"]] for report in reports
    ]
    assert [point["step"] for point in curves[0]] == [1, 2, 3, 4, 5, 6]
    assert curves[0] == curves[1]
    assert len(list((cut / "out" / "transcripts").glob("*.txt"))) == 2
    turns = [
        turn
        for episode in read_episodes(cut / "out" / "transcripts" / "episodes.jsonl.gz")
        for segment in episode.segments
        for turn in segment.turns
    ]
    assert turns
    assert all(turn.advantage is not None for turn in turns)

    # A third start finds everything done and changes nothing.
    before = (cut / "out" / "policy" / "model.safetensors").read_bytes()
    spent = reports[1]["seconds"]
    run = started(path)
    assert run.wait() == 0
    again = json.loads((cut / "out" / "report.json").read_text())["seconds"]
    assert again.keys() == spent.keys() == {"midtrain", "grpo", "eval"}
    assert all(again[stage] >= spent[stage] for stage in spent)
    assert (cut / "out" / "policy" / "model.safetensors").read_bytes() == before


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_small_quickstart_learns(tmp_path: Path) -> None:
    """``configs/ci.yaml`` from random weights to the report: reward rises, success rises, the window holds."""
    out = tmp_path / "ci"
    command = [sys.executable, "-m", "accelerate.commands.launch", "--config_file"]
    command += [str(ROOT / "configs" / "accelerate" / "cpu.yaml"), "-m", "recipe.train"]
    command += ["--config", str(ROOT / "configs" / "ci.yaml"), "--output_dir", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    report = json.loads((out / "report.json").read_text())
    rewards = [point["reward"] for point in report["training"] if "reward" in point]
    fifth = len(rewards) // 5
    assert sum(rewards[-fifth:]) / fifth > sum(rewards[:fifth]) / fifth + 0.1
    assert report["success_after"] > report["success_before"] + 0.1
    assert report["window"] == yaml.safe_load((ROOT / "configs" / "ci.yaml").read_text())["window"]
    assert 0 < report["peak_context"] <= report["window"]
    assert (out / "report.png").read_bytes().startswith(b"\x89PNG")
    assert "success_after" in (out / "report.md").read_text()
