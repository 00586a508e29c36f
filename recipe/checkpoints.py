"""Which checkpoint a cut run goes on from."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

from rich.console import Console

STATE = "trainer_state.json"


def last_whole_checkpoint(folder: Path, console: Console) -> str | None:
    """The newest checkpoint in ``folder`` that was written to its end, None where there is none.

    A process that is killed while it saves leaves a folder with some of its files, and one that is killed while it
    deletes an older checkpoint leaves the rest of that. One that is not whole is passed over, and the console says so.
    """
    numbered = {int(found[1]): path for path in folder.glob("checkpoint-*") if (found := _number(path))}
    for step in sorted(numbered, reverse=True):
        fault = what_is_missing(numbered[step])
        if fault is None:
            console.print(f"goes on from step {step} ({numbered[step]})", highlight=False, soft_wrap=True, markup=False)
            return str(numbered[step])
        console.print(
            f"{numbered[step]}: was cut off while it was written ({fault}); passed over",
            highlight=False,
            soft_wrap=True,
            markup=False,
        )
    return None


def step_of(checkpoint: str | Path) -> int:
    """The optimizer step after which a checkpoint was saved."""
    return int(json.loads((Path(checkpoint) / STATE).read_text(encoding="utf-8"))["global_step"])


def what_is_missing(checkpoint: Path) -> str | None:
    """Which file of a checkpoint is cut off or not there; None for a whole one.

    The trainer writes the state last, after weights, optimizer, schedule and random states. Lengths are compared with
    what the files say of themselves; their contents are not read.
    """
    try:
        state = json.loads((checkpoint / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return STATE
    if not isinstance(state, dict) or "global_step" not in state:
        return STATE
    pickled = [path for pattern in ("*.pt", "*.pth", "*.bin") for path in checkpoint.glob(pattern)]
    cut = [path for path in checkpoint.glob("*.safetensors") if not is_whole_safetensors(path)]
    # torch saves zip archives, whose table of contents stands at their end.
    cut += [path for path in pickled if not zipfile.is_zipfile(path)]
    return cut[0].name if cut else None


def is_whole_safetensors(path: Path) -> bool:
    """Whether a file is as long as its own header says."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 + length:
            return False
        try:
            header = json.loads(file.read(length))
            ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
        except (ValueError, LookupError, TypeError, AttributeError):
            return False
    return size == 8 + length + max(ends, default=0)


def _number(path: Path) -> re.Match[str] | None:
    return re.fullmatch(r"checkpoint-(\d+)", path.name) if path.is_dir() else None
