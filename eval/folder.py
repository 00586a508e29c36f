"""The folder of an evaluation: what was asked for, the episodes of each cell, the report."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eval.arguments import EvalArguments
from eval.grid import CellKey, file_name, file_rows
from rollouts.episode import Episode
from rollouts.files import write_atomically
from rollouts.storage import EpisodeWriter, read_episodes
from summarization.resolve import UserError

# May differ when a run is resumed: they say how much is evaluated, or how it is shown, not what an episode is.
FREE = ("tasks", "files", "lengths", "asked", "strategies", "samples", "sessions", "report_to", "output_dir")
# They may grow by new names, but what a name stood for stays.
GROWING = ("task_options", "strategy_options")
PACKAGES = ("torch", "transformers", "tokenizers", "accelerate", "datasets")


class RunFolder:
    """Where an evaluation keeps what it did.

    Args:
        path: The folder; made if need be.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, arguments: EvalArguments) -> None:
        """Note what is asked for, or check that it is what was asked for before.

        Raises:
            UserError: A field differs from that of the run in this folder.
        """
        asked, noted = asdict(arguments), self.path / "arguments.json"
        before = _read_json(noted) if noted.is_file() else None
        if before is not None:
            for name, value in asked.items():
                old = before["arguments"].get(name, value)
                if name in GROWING:
                    old = {key: old[key] for key in old if key in value}
                    value = {key: value[key] for key in old}
                if name not in FREE and old != value:
                    raise UserError(
                        f"{name} is {value!r}, but the run in '{self.path}' was begun with {old!r}: "
                        "name another output_dir, or delete the folder"
                    )
        about = {
            "arguments": asked,
            "policy_hash": fingerprint(arguments.policy),
            "haystack_hash": fingerprint(arguments.haystack) if arguments.haystack else None,
            "files": [_file(entry) for entry in arguments.files],
            "versions": {
                "python": platform.python_version(),
                **{name: importlib.metadata.version(name) for name in PACKAGES},
            },
        }
        if before is not None:
            for name in ("policy_hash", "haystack_hash"):
                if before.get(name) != about[name]:
                    raise UserError(
                        f"{name.removesuffix('_hash')}: its files changed since the run in '{self.path}' was begun: "
                        "name another output_dir, or delete the folder"
                    )
        write_atomically(noted, json.dumps(about, indent=1).encode())

    def arguments(self) -> dict[str, Any]:
        """What was asked for.

        Raises:
            UserError: This is no folder of an evaluation.
        """
        noted = self.path / "arguments.json"
        if not noted.is_file():
            raise UserError(f"{self.path}: is no folder of an evaluation; it has no arguments.json")
        return _read_json(noted)

    def samples(self, key: CellKey) -> Path:
        """The file with the episodes of a cell."""
        return self.path / "samples" / f"{key.name}.jsonl.gz"

    def writer(self, key: CellKey) -> EpisodeWriter:
        """Appends to the episodes of a cell."""
        about = {"task": key.task, "asked": key.asked, "length": key.length, "strategy": key.strategy}
        return EpisodeWriter(self.samples(key), about)

    def episodes(self, key: CellKey) -> Iterator[Episode]:
        """The finished episodes of a cell, one after the other."""
        path = self.samples(key)
        # A process may be killed between making the file and writing its first line.
        if path.is_file() and path.stat().st_size:
            yield from read_episodes(path)


def fingerprint(name: str) -> str | None:
    """A hash of the files of a folder, or of a file; None for a name that is neither."""
    place = Path(name)
    if not place.exists():
        return None
    digest = hashlib.blake2b(digest_size=16)
    for path in [place] if place.is_file() else sorted(p for p in place.iterdir() if p.is_file()):
        if path.suffix in (".safetensors", ".json", ".txt", ".jinja", ".model") or place.is_file():
            digest.update(path.name.encode())
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
    return digest.hexdigest()


def _file(entry: Mapping[str, Any]) -> dict[str, str]:
    """Which file an entry of ``files`` stood for."""
    row = next(file_rows(entry), None)
    if row is None:
        return {"name": file_name(entry)}
    return {
        "name": file_name(entry),
        "hash": row.id.partition("-")[0],
        "dataset": row.source.dataset,
        "revision": row.source.revision,
    }


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error
