"""The quickstart against its first landing, one after the other on this machine: as each was, and at the same work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.benchmarks.conftest import Report

ROOT = Path(__file__).parents[2]
FIRST_LANDED = "33497f09ba8c7c0faae478e246c8e3a61864f7e7"
QUICKSTART = "configs/quickstart.yaml"


def seconds_of(tree: Path, config: Path, output: Path) -> float:
    """Seconds that all stages of a configuration take with the code of a tree."""
    command = [sys.executable, "-m", "recipe.train", "--config", str(config), "--output_dir", str(output)]
    environment = {**os.environ, "PYTHONPATH": str(tree), "WANDB_MODE": "offline"}
    subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=True)
    return sum(json.loads((output / "report.json").read_text())["seconds"].values())


def first_work(tree: Path, folder: Path) -> Path:
    """The first landing's configuration in today's words: one number of held-out tasks for each length."""
    config = yaml.safe_load((tree / QUICKSTART).read_text())
    few, lengths = config.pop("eval_long_tasks"), config["eval_lengths"]
    config["eval_tasks"] = [few if length == max(lengths) else config["eval_tasks"] for length in lengths]
    # Its policy may copy less well than today's recipe asks for; what is compared is time.
    config["midtrain_least_accuracy"] = 0.0
    path = folder / "first.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.timeout(3600)
def test_the_quickstart_against_the_first(tmp_path: Path, report: Report) -> None:
    first = tmp_path / "first"
    found = subprocess.run(
        ["git", "-C", str(ROOT), "worktree", "add", "--detach", str(first), FIRST_LANDED],
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        pytest.skip(f"this checkout has no history to compare with ({found.stderr.strip().splitlines()[-1]})")
    try:
        then = seconds_of(first, first / QUICKSTART, tmp_path / "then")
        same = seconds_of(ROOT, first_work(first, tmp_path), tmp_path / "same")
        now = seconds_of(ROOT, ROOT / QUICKSTART, tmp_path / "now")
    finally:
        subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(first)], check=True)
    report(
        quickstart_speedup=then / now,
        quickstart_speedup_same_work=then / same,
        quickstart_seconds=now,
        quickstart_seconds_first=then,
        quickstart_seconds_same_work=same,
    )
    # A third less time.
    assert same <= then * 2 / 3
