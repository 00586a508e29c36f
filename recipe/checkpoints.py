"""Which checkpoint a cut run goes on from."""

from __future__ import annotations

import json
import re
from pathlib import Path

from rich.console import Console

STATE = "trainer_state.json"


def last_whole_checkpoint(folder: Path, console: Console) -> str | None:
    """The newest checkpoint in ``folder`` that was written to its end, None where there is none.

    A process that is killed while it saves leaves a folder with some of its files. The trainer writes the state after
    the weights and the optimizer, so a checkpoint whose state can be read is whole. One that is not is passed over, and
    the console says so.
    """
    numbered = {int(found[1]): path for path in folder.glob("checkpoint-*") if (found := _number(path))}
    for step in sorted(numbered, reverse=True):
        if is_whole(numbered[step]):
            console.print(f"goes on from step {step} ({numbered[step]})", highlight=False, soft_wrap=True)
            return str(numbered[step])
        console.print(
            f"{numbered[step]}: was cut off while it was written; passed over", highlight=False, soft_wrap=True
        )
    return None


def is_whole(checkpoint: Path) -> bool:
    """Whether a checkpoint was written to its end."""
    try:
        state = json.loads((checkpoint / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(state, dict) and "global_step" in state


def _number(path: Path) -> re.Match[str] | None:
    return re.fullmatch(r"checkpoint-(\d+)", path.name) if path.is_dir() else None
