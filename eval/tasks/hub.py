"""Data sets by name, loaded by the ``datasets`` library: ``hub:owner/name``, in whatever files they are kept.

One call loads them all: ``hub:owner/name`` from the hub, ``hub:/some/folder`` from a folder laid out as a data set,
and ``hub:json`` or ``hub:parquet`` with ``file`` from files. The library makes one type of each column, so a file whose
rows differ in type must be read as it is, by its own name instead (``owner/name`` with ``file``).

The commit that a revision stands for is asked for first and loaded by, so that it is the one that is recorded. Without
a network the library takes what it has loaded before; then the commit is read from where that lies.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.tasks.tables import SUFFIXES, Fields, file_hash
from summarization.resolve import UserError, closest

PREFIX = "hub:"
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class HubTable:
    """The rows of one split. See :class:`eval.tasks.tables.Table`.

    Attributes:
        place: Names the data set and its split for errors.
        data: The split.
        name: Of the data set.
        revision: The commit; empty for local files.
        digest: By which its samples are known: of name, split and commit, or of the local files.
    """

    place: str
    data: Any
    name: str
    revision: str
    digest: str

    def __len__(self) -> int:
        return len(self.data)

    def row(self, index: int) -> Fields:
        """Row ``index``, with where it stands."""
        return Fields(f"{self.place}, row {index + 1}", dict(self.data[index]))


def load_hub(path: str, file: str = "", revision: str = "", subset: str = "", split: str = "") -> HubTable:
    """One split of a data set.

    Args:
        path: With the prefix ``hub:``.
        file: Only this file, by its name in the data set, or by its path for ``hub:json`` and ``hub:parquet``.
        revision: Branch, tag or commit.
        subset: Name of the configuration, where there are several.
        split: Its name; may be left out where there is only one.

    Raises:
        UserError: It cannot be had, or has several splits and none is named.
    """
    import datasets

    name = path.removeprefix(PREFIX)
    local = Path(name).is_dir() or Path(file).is_file()
    commit = "" if local else _commit_of(name, revision)
    try:
        loaded = datasets.load_dataset(
            name, name=subset or None, data_files=file or None, split=split or None, revision=commit or revision or None
        )
    except Exception as error:  # what is raised differs between versions, and between what is missing
        told = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(
            f"{path}: the data set cannot be had ({told[0]}): check name, subset, split and file, or load it once "
            "where there is a network"
        ) from error
    if isinstance(loaded, Mapping):
        if len(loaded) != 1:
            raise UserError(f"{path}: say which split by 'split'; {closest(split, [str(key) for key in loaded])}")
        ((key, data),) = loaded.items()
        split = str(key)
    else:
        data = loaded
    if not len(data):
        raise UserError(f"{path}: the split '{split}' holds no row")
    if not local:
        commit = commit or _cached_commit(data)
    told = (name, file, subset, split, commit) if commit else (subset, split, *_hashes(name, file))
    digest = hashlib.sha256("\n".join(told).encode()).hexdigest()[:12]
    return HubTable(f"{path}, split {split}", data, name, commit, digest)


def _commit_of(name: str, revision: str) -> str:
    """The commit that a revision stands for now; empty where the hub cannot be asked."""
    import huggingface_hub

    if _COMMIT.fullmatch(revision):
        return revision
    try:
        return huggingface_hub.HfApi().dataset_info(name, revision=revision or None, timeout=20).sha or ""
    except Exception:  # which errors stand for 'no network' differs; whether it can be loaded all the same is seen then
        return ""


def _cached_commit(data: Any) -> str:
    """The commit in the path of a split that was loaded before."""
    parts = [part for entry in data.cache_files for part in Path(entry["filename"]).parts]
    return next((part for part in parts if _COMMIT.fullmatch(part)), "")


def _hashes(name: str, file: str) -> list[str]:
    """Of all local files of data."""
    files = [Path(file)] if Path(file).is_file() else sorted(Path(name).rglob("*"))
    return [
        file_hash(path) for path in files if path.is_file() and path.suffix in (*SUFFIXES, ".csv", ".arrow", ".zst")
    ]
