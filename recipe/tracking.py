"""What is logged, and where: console lines, a history file, and W&B through TRL's ``report_to``.

The only place that knows W&B.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.utils.logging import disable_progress_bar

from rollouts.files import write_atomically
from rollouts.records import read_record

SHOWN = {
    "loss": "loss",
    "mean_token_accuracy": "accuracy",
    "reward": "reward",
    "rollout/success": "success",
    "rollout/compactions": "compactions",
    "summary/tokens": "summary tokens",
    "eval/success": "held-out success",
}


def name_wandb_run(output_dir: Path, project: str = "palimpsest") -> None:
    """Let a run that is resumed go on in the W&B run it began; offline where there is no key."""
    os.environ.setdefault("WANDB_PROJECT", project)
    os.environ.setdefault("WANDB_DIR", str(output_dir))
    os.environ.setdefault("WANDB_RESUME", "allow")
    os.environ.setdefault("WANDB_RUN_ID", f"{output_dir.name}-{zlib.crc32(str(output_dir.resolve()).encode()):08x}")
    if "WANDB_API_KEY" not in os.environ:
        os.environ.setdefault("WANDB_MODE", "offline")


def quiet() -> None:
    """Leave the console to the progress lines: no bars for files that load in a moment, no notes of other libraries."""
    disable_progress_bar()
    os.environ.setdefault("WANDB_SILENT", "true")
    # TRL's own configuration still says gradient_checkpointing, and so must ours.
    warnings.filterwarnings("ignore", "`gradient_checkpointing` is deprecated", FutureWarning)


def clock(seconds: float) -> str:
    """Seconds as minutes and seconds, or hours."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Progress(TrainerCallback):
    """Prints a line at each log: stage, step, time left and what matters; appends all of it to a history file.

    Args:
        stage: As printed.
        history: JSON lines, one a log.
        console: Where to print; the main process prints, the others keep silent.
    """

    def __init__(self, stage: str, history: Path, console: Console) -> None:
        self.stage, self.history, self.console = stage, history, console
        self._began = time.monotonic()
        self._from_step = 0

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self._began, self._from_step = time.monotonic(), state.global_step
        if state.is_world_process_zero:
            _end_cut_line(self.history)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        if not state.is_world_process_zero or not logs or "train_runtime" in logs:
            return
        elapsed = time.monotonic() - self._began
        done = state.global_step - self._from_step
        left = elapsed / done * (state.max_steps - state.global_step) if done else 0.0
        # TRL logs None where there was nothing to average, such as the length of summaries in a batch without one.
        shown = {name: logs[key] for key, name in SHOWN.items() if logs.get(key) is not None}
        figures = "  ".join(f"{name} {float(value):.3g}" for name, value in shown.items())
        self.console.print(
            f"{self.stage:>8}  step {state.global_step}/{state.max_steps}  {clock(left)} left  {figures}",
            highlight=False,
            soft_wrap=True,
        )
        self.history.parent.mkdir(parents=True, exist_ok=True)
        with self.history.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"stage": self.stage, "step": state.global_step, "seconds": elapsed, **logs}) + "\n")


class AtLastStep(TrainerCallback):
    """Does something at the end of the last optimizer step, before its checkpoint is saved: a run that is cut in
    between plays that step again, so that what is done is never missed.

    Args:
        then: What is done.
    """

    def __init__(self, then: Callable[[], None]) -> None:
        self.then = then

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if state.global_step >= state.max_steps:
            self.then()


def _end_cut_line(path: Path) -> None:
    """End the line that a killed process left half written, so that the next one is not appended to it."""
    if not path.is_file() or not path.stat().st_size:
        return
    with path.open("rb+") as file:
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.write(b"\n")


def read_history(path: Path, stage: str) -> list[dict[str, Any]]:
    """The logs of a stage, one for each step; where a resumed run wrote a step again, the later one counts."""
    if not path.is_file():
        return []
    by_step: dict[int, dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            # A line that a killed process left half written: its step was logged again after the resume, or is lost.
            continue
        if isinstance(record, dict) and record.get("stage") == stage:
            by_step[record["step"]] = record
    return [by_step[step] for step in sorted(by_step)]


def _times(stored: Any) -> dict[str, float]:
    return {str(stage): float(seconds) for stage, seconds in stored.items()}


class Stopwatch:
    """The seconds that each stage took, over all starts of a run that were not killed.

    Args:
        path: Where they are kept.
        writes: Whether this process keeps them there.
    """

    def __init__(self, path: Path, writes: bool) -> None:
        self.path, self.writes = path, writes
        self._running: tuple[str, float] | None = None

    @contextlib.contextmanager
    def running(self, stage: str) -> Iterator[None]:
        """Count the time within as the stage's."""
        self._running = (stage, time.monotonic())
        try:
            yield
        finally:
            if self.writes:
                write_atomically(self.path, json.dumps(self.seconds()).encode())
            self._running = None

    def seconds(self) -> dict[str, float]:
        """By stage, up to now."""
        spent = read_record(self.path, "delete it, and times are counted anew", _times) if self.path.is_file() else {}
        if self._running:
            stage, began = self._running
            spent[stage] = spent.get(stage, 0.0) + time.monotonic() - began
        return spent
