"""Collects the figures that the benchmarks measure and writes them to ``benchmarks.json`` when all are done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rollouts.files import write_atomically

FILE = Path(__file__).parents[2] / "benchmarks.json"

Report = Callable[..., None]


@pytest.fixture(scope="session")
def figures() -> Iterator[dict[str, float]]:
    """Figures by name; what an earlier run measured and this one does not is kept."""
    found: dict[str, float] = json.loads(FILE.read_text()) if FILE.is_file() else {}
    yield found
    write_atomically(FILE, (json.dumps(dict(sorted(found.items())), indent=1) + "\n").encode())


@pytest.fixture
def report(figures: dict[str, float], capsys: pytest.CaptureFixture[str]) -> Report:
    """Call it with figures by name: they are printed and kept."""

    def keep(**measured: float) -> None:
        figures.update(measured)
        with capsys.disabled():
            print("\n  " + "  ".join(f"{name} {value:.4g}" for name, value in measured.items()), end=" ")

    return keep
