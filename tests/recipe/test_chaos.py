"""Kills at seeded points: nothing is lost, nothing is done twice, and the weights come out the same, bit for bit.

``pytest -m chaos`` makes ``CHAOS_KILLS`` of them (100); the slow tests make a few.
"""

from __future__ import annotations

import collections
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.recipe.kills import End, draw_kills, results, start, write_config


def survived(folder: Path, kills: int) -> collections.Counter[str]:
    """Kill runs ``kills`` times, let each end, and compare it with one that was left alone; says what was counted."""
    config = write_config(folder / "whole")
    whole = start(config)
    assert whole.code == 0, whole.said[-3000:]
    assert whole.writes > 50
    expected = results(folder / "whole" / "out")
    assert [step["grad_norm"] > 0 for step in expected["history"]["grpo"].values()] == [True] * 6
    assert (len(expected["weights"]), len(expected["cells"]), len(expected["episodes"])) == (2, 5, 3)
    counted: collections.Counter[str] = collections.Counter()
    while counted["SIGKILL"] + counted["SIGTERM"] < kills:
        cut = folder / f"cut{counted['runs']}"
        run_through(cut, counted["runs"], whole, counted)
        found = results(cut / "out")
        for name in expected:
            assert found[name] == expected[name], f"{cut}: {name} differ"
        counted["runs"] += 1
    print(dict(counted))
    return counted


def run_through(folder: Path, seed: int, whole: End, counted: collections.Counter[str]) -> None:
    """Start a run again and again, each time with the next kill, until it ends by itself."""
    config = write_config(folder)
    for kill in draw_kills(seed, whole):
        end = start(config, kill)
        assert "Traceback" not in end.said, (kill, end.said[-3000:])
        if end.code == 0:
            return
        counted[kill.signal.name] += 1
        counted["at a write" if kill.write else "at a time"] += 1
        counted[f"in {stage_of(folder / 'out')}"] += 1
        if kill.signal is signal.SIGTERM:
            assert end.code == 143, (kill, end.said[-3000:])
            assert "start the same command again" in end.said
        else:
            assert end.code == -signal.SIGKILL, (kill, end.said[-3000:])


def stage_of(out: Path) -> str:
    """What a run was at when it was killed, as its folder tells."""
    done: list[tuple[str, Any]] = [
        ("evaluation", out / "policy" / "done.json"),
        ("GRPO", out / "midtrain" / "skills.json"),
        ("mid-training", out / "arguments.yaml"),
    ]
    return next((stage for stage, path in done if path.exists()), "the start")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_few_kills(tmp_path: Path) -> None:
    survived(tmp_path, 6)


@pytest.mark.chaos
@pytest.mark.timeout(7200)
def test_many_kills(tmp_path: Path) -> None:
    counted = survived(tmp_path, int(os.environ.get("CHAOS_KILLS", "100")))
    assert counted["in mid-training"]
    assert counted["in GRPO"]
    assert counted["in evaluation"]
