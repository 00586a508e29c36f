"""A tiny run that is killed at seeded points and started again, beside one that is left alone.

Processes are forked from one that has imported everything (``forkserver``), so that a start costs a moment and not ten
seconds. A point is either a time, or the n-th file that the run opens for writing, makes, renames or removes: that is
where a kill can do the most harm.
"""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from recipe.checkpoints import last_whole_checkpoint
from recipe.credit import EpisodeCredit
from recipe.train import main
from rollouts.storage import read_episodes

ROOT = Path(__file__).parents[2]
# configs/ci.yaml, smaller still: six steps of mid-training, six of GRPO, five cells.
SMALLER: dict[str, Any] = {
    "policy_hidden": 32,
    "policy_layers": 2,
    "midtrain_span_steps": 2,
    "midtrain_steps": 4,
    "midtrain_batch": 4,
    "midtrain_span_batch": 4,
    "midtrain_least_accuracy": 0.0,
    "midtrain_words": [60, 200],
    "train_tasks": 40,
    "num_generations": 2,
    "per_device_train_batch_size": 8,
    "max_steps": 6,
    "save_steps": 2,
    "learning_rate": 0.01,
    "credit": "tests.recipe.kills:by_attempt",
    "eval_every": 3,
    "eval_lengths": [130],
    "eval_tasks": [4],
    "save_transcripts": 3,
}
WRITES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir"}


def by_attempt(episodes: Sequence[EpisodeCredit], advantages: Sequence[float]) -> list[list[float]]:
    """Credit that always has a gradient: a policy of six steps earns no reward that it could learn from."""
    return [[float(index) - 0.5] * len(episode.turns) for index, episode in enumerate(episodes)]


@dataclasses.dataclass(frozen=True)
class Kill:
    """Where a process is ended, and how: after so many seconds, or at its n-th write where ``write`` is not 0."""

    signal: signal.Signals
    seconds: float
    write: int


@dataclasses.dataclass(frozen=True)
class End:
    """How a process ended: exit code, seconds, writes (0 if it did not end by itself), and what it said."""

    code: int
    seconds: float
    writes: int
    said: str


def write_config(folder: Path) -> Path:
    """The configuration of the tiny run, in ``folder``."""
    fields = yaml.safe_load((ROOT / "configs" / "ci.yaml").read_text())
    folder.mkdir(parents=True)
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump({**fields, **SMALLER, "output_dir": str(folder / "out")}))
    return path


def _process(config: str, write: int, number: int) -> None:
    """The body of a forked process."""
    folder = Path(config).parent
    log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    writes = 0

    def count(event: str, args: tuple[Any, ...]) -> None:
        nonlocal writes
        writing = event in WRITES or (event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR))
        if writing and str(folder / "out") in str(args[0]):
            writes += 1
            if writes == write:
                os.kill(os.getpid(), number)

    sys.addaudithook(count)
    code = main(["--config", config])
    (folder / "writes.txt").write_text(str(writes))
    sys.exit(code)


def start(config: Path, kill: Kill | None = None) -> End:
    """Run the command until it ends, or is killed."""
    os.environ.update(PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.recipe.kills", "recipe.stages"])
    (config.parent / "writes.txt").unlink(missing_ok=True)
    at = (kill.write, kill.signal) if kill else (0, 0)
    process = context.Process(target=_process, args=(str(config), *at))
    began = time.monotonic()
    process.start()
    assert process.pid is not None
    if kill and not kill.write:
        process.join(kill.seconds)
        if process.is_alive():
            os.kill(process.pid, kill.signal)
    process.join(600)
    assert process.exitcode is not None, "the process hangs"
    counted = config.parent / "writes.txt"
    writes = int(counted.read_text()) if counted.is_file() else 0
    said = (config.parent / "log.txt").read_text(errors="replace")
    return End(process.exitcode, time.monotonic() - began, writes, said)


def draw_kills(seed: int, whole: End) -> Iterator[Kill]:
    """Kills without end, within what the run that was left alone took."""
    rng = random.Random(f"kills/{seed}")
    while True:
        number = rng.choice((signal.SIGKILL, signal.SIGTERM))
        seconds = rng.uniform(0.05, 0.7 * whole.seconds)
        yield Kill(number, seconds, rng.choice((0, rng.randint(1, max(1, whole.writes // 2)))))


def results(out: Path) -> dict[str, Any]:
    """All that a run left, times left out."""
    history: dict[str, dict[int, Any]] = {}
    for line in (out / "history.jsonl").read_text().split("\n"):
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            # What a killed process left half written.
            continue
        figures = {key: value for key, value in record.items() if "time" not in key and key != "seconds"}
        # A step that was played again after a kill is the same step.
        known = history.setdefault(record["stage"], {}).setdefault(record["step"], figures)
        assert known == figures, (known, figures)
    cells = {path.name: json.loads(path.read_text()) for path in sorted((out / "eval").glob("*.json"))}
    for cell in cells.values():
        for outcome in cell["cell"]["outcomes"]:
            del outcome["seconds"]
    episodes = list(read_episodes(out / "transcripts" / "episodes.jsonl.gz"))
    return {
        "history": history,
        "cells": cells,
        "episodes": [dataclasses.replace(e, metrics={**e.metrics, "seconds": 0.0}) for e in episodes],
        "weights": {
            str(path.relative_to(out)): path.read_bytes()
            for name in ("midtrain", "policy")
            for path in (out / name).glob("model*.safetensors")
        },
        # A process that was killed while it deleted an old checkpoint leaves the rest of it.
        "files": sorted(
            str(path.relative_to(out)) for path in out.rglob("[!.]*") if "checkpoint-" not in str(path.relative_to(out))
        ),
        "checkpoints": [
            Path(str(last_whole_checkpoint(out / name, Console(quiet=True)))).name for name in ("midtrain", "grpo")
        ],
    }
