"""The folder of an evaluation: what was asked for, the episodes of each cell, the report."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eval.arguments import EvalArguments
from eval.grid import CellKey, file_name, file_rows
from rollouts.episode import Episode
from rollouts.files import write_atomically
from rollouts.records import read_record
from rollouts.storage import EpisodeWriter, read_about, read_episodes
from summarization.resolve import UserError

# May differ when a run is resumed: they say how much is evaluated, or how it is shown, not what an episode is.
FREE = ("tasks", "files", "lengths", "asked", "strategies", "samples", "sessions", "report_to", "output_dir")
# They may grow by new names, but what a name stood for stays.
GROWING = ("task_options", "strategy_options")
NOTED = "arguments.json"
PACKAGES = ("torch", "transformers", "tokenizers", "accelerate", "datasets")


class RunFolder:
    """Where an evaluation keeps what it did.

    Args:
        path: The folder; made if need be.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def check(self, arguments: EvalArguments) -> dict[str, Any]:
        """What :meth:`begin` notes; checked against what was asked for before, and nothing is left on the disk.

        Raises:
            UserError: A field differs from that of the run in this folder, or nothing can be written there.
        """
        self._check_writable()
        asked = asdict(arguments)
        before = self.arguments() if (self.path / NOTED).exists() else None
        if before is not None:
            for name, value in asked.items():
                old = before["arguments"].get(name, value)
                if name in GROWING and isinstance(old, dict):
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
        return about

    def begin(self, about: Mapping[str, Any]) -> None:
        """Note what is asked for: from here on the folder belongs to this run.

        Raises:
            UserError: It cannot be written.
        """
        with self.writing():
            write_atomically(self.path / NOTED, json.dumps(about, indent=1).encode())

    @contextmanager
    def writing(self) -> Iterator[None]:
        """What the disk refuses within is the user's to mend.

        Raises:
            UserError: Something cannot be written.
        """
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise UserError(
                f"output_dir is '{self.path}': it cannot be written ({reason}): name a folder that can, or make room"
            ) from error

    def _check_writable(self) -> None:
        """Make the folder and a file in it, and take both away again."""
        with self.writing():
            made = [place for place in (self.path, *self.path.parents) if not place.exists()]
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                tempfile.TemporaryFile(dir=self.path).close()
            finally:
                for place in made:
                    place.rmdir()

    def arguments(self) -> dict[str, Any]:
        """What was asked for.

        Raises:
            UserError: This is no folder of an evaluation.
        """
        noted = self.path / NOTED
        if not noted.is_file():
            raise UserError(f"{self.path}: is no folder of an evaluation; it has no {NOTED}")
        found = read_record(noted, "restore it, or delete the whole folder", lambda content: content)
        if not isinstance(found, dict) or not isinstance(found.get("arguments"), dict):
            raise UserError(f"{noted}: is broken (it names no arguments): restore it, or delete the whole folder")
        return found

    def samples(self, key: CellKey) -> Path:
        """The file with the episodes of a cell."""
        return self.path / "samples" / f"{key.name}.jsonl.gz"

    def writer(self, key: CellKey) -> EpisodeWriter:
        """Appends to the episodes of a cell."""
        with self.writing():
            return EpisodeWriter(self.samples(key), asdict(key))

    def replace(self, key: CellKey, episodes: Iterable[Episode]) -> None:
        """Write the episodes of a cell anew, all or none."""
        aside = self.samples(key).with_suffix(".new")
        with self.writing():
            aside.unlink(missing_ok=True)
            with EpisodeWriter(aside, asdict(key)) as writer:
                for episode in episodes:
                    writer.append(episode)
            aside.replace(self.samples(key))

    def episodes(self, key: CellKey) -> Iterator[Episode]:
        """The finished episodes of a cell, one after the other."""
        yield from stored(self.samples(key))

    def cells(self) -> list[CellKey]:
        """The cells that have a file, whatever was asked for last."""
        found = []
        for path in sorted((self.path / "samples").glob("*.jsonl.gz")):
            with whole(path):
                about = read_about(path)
                found.append(CellKey(about["task"], about["asked"], int(about["length"]), about["strategy"]))
        return found


def stored(path: Path) -> Iterator[Episode]:
    """The episodes of a cell's file, one after the other; none where there is no file.

    Raises:
        UserError: The file is broken.
    """
    # A process may be killed between making the file and writing its first line.
    if path.is_file() and path.stat().st_size:
        with whole(path):
            yield from read_episodes(path)


@contextmanager
def whole(path: Path) -> Iterator[None]:
    """What goes wrong within while a cell's file is read is that the file is broken.

    Raises:
        UserError: It is.
    """
    try:
        yield
    except (UserError, LookupError, TypeError, ValueError, AttributeError, OSError) as error:
        reason = str(error).removeprefix(f"{path}: ").partition(";")[0] or type(error).__name__
        raise UserError(
            f"{path}: is broken ({type(error).__name__}: {reason}): delete it to play its episodes again, or restore it"
            if not isinstance(error, UserError)
            else f"{path}: is broken ({reason}): delete it to play its episodes again, or restore it"
        ) from error


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
