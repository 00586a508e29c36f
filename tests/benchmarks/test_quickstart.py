"""The whole quickstart as it is against the quickstart as it first landed, one after the other on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.conftest import Report

ROOT = Path(__file__).parents[2]
FIRST_LANDED = "33497f09ba8c7c0faae478e246c8e3a61864f7e7"


def seconds_of(tree: Path, output: Path) -> dict[str, float]:
    """Seconds by stage of a tree's quickstart."""
    command = [sys.executable, "-m", "recipe.train", "--config", "configs/quickstart.yaml", "--output_dir", str(output)]
    environment = {**os.environ, "PYTHONPATH": str(tree), "WANDB_MODE": "offline"}
    subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=True)
    return json.loads((output / "report.json").read_text())["seconds"]


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
        now = sum(seconds_of(ROOT, tmp_path / "now").values())
        then = sum(seconds_of(first, tmp_path / "then").values())
    finally:
        subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(first)], check=True)
    report(quickstart_speedup=then / now, quickstart_seconds=now, quickstart_seconds_first=then)
    # A third less time.
    assert now <= then * 2 / 3
