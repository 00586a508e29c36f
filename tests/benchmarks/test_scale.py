"""What a token costs must not depend on how long the episode has been (law L5)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.conftest import Report

ROOT = Path(__file__).parents[2]


def played(words: int) -> dict[str, Any]:
    """One episode in a process of its own, so that its peak memory is its own."""
    command = [sys.executable, str(Path(__file__).with_name("one_episode.py")), str(words)]
    done = subprocess.run(command, cwd=ROOT, env=None, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.timeout(1200)
def test_a_token_costs_the_same_at_a_million(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    # The shortest is over in a second: the fastest of three.
    runs = {10_000: [played(10_000) for _ in range(3)], 100_000: [played(100_000)], 1_000_000: [played(1_000_000)]}
    seconds = {words: min(run["seconds"] / run["tokens"] for run in found) for words, found in runs.items()}
    memory = {words: min(run["peak_memory"] for run in found) for words, found in runs.items()}
    report(
        seconds_per_token_100k_over_10k=seconds[100_000] / seconds[10_000],
        seconds_per_token_1m_over_10k=seconds[1_000_000] / seconds[10_000],
        peak_memory_1m_over_10k=memory[1_000_000] / memory[10_000],
    )
    assert runs[1_000_000][0]["tokens"] > 1_000_000
    assert seconds[1_000_000] <= 1.15 * seconds[10_000]
    assert memory[1_000_000] <= 1.15 * memory[10_000]
