"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` aside, sync it to disk, and rename it to ``path``; its folder is made if need be.

    Raises:
        OSError: The disk is full or the folder cannot be written; an earlier file of that name is intact.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Named after the process: what one that was killed left aside is overwritten or stays small, and never read.
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Have the new name outlive a loss of power, where folders can be opened."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
