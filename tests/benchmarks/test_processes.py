"""Two processes of one thread each against one process with both cores, on equal GRPO steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.conftest import Report

ROOT = Path(__file__).parents[2]
EPISODES = 64


def steps(folder: Path, processes: int, threads: int) -> dict[str, Any]:
    config = "cpu.yaml" if processes == 1 else "cpu_2proc.yaml"
    command = [sys.executable, "-m", "accelerate.commands.launch", "--config_file"]
    command += [str(ROOT / "configs" / "accelerate" / config), "--main_process_port", "0"]
    command += [str(Path(__file__).with_name("few_steps.py")), str(folder), str(EPISODES // processes)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (found,) = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"seconds"')]
    assert found["processes"] == processes
    return found


@pytest.mark.timeout(600)
def test_two_processes_against_one(tmp_path: Path, report: Report) -> None:
    one, serial, two = steps(tmp_path, 1, 2), steps(tmp_path, 1, 1), steps(tmp_path, 2, 1)
    report(
        two_process_speedup=one["seconds"] / two["seconds"],
        two_process_speedup_over_one_thread=serial["seconds"] / two["seconds"],
    )
