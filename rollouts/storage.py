"""Episodes on disk: gzip JSON lines, one episode a line, after a line that says what the file is.

A killed process loses at most the line it was writing: each episode is a gzip member of its own, and members that
follow each other are one file.
"""

from __future__ import annotations

import gzip
import json
import warnings
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rollouts.episode import Compaction, Episode, Finish, Segment, Status, Turn, TurnKind
from summarization.resolve import UserError

FORMAT, VERSION = "palimpsest-episodes", 1


class EpisodeWriter:
    """Appends episodes to a file, which is begun if it is not there; what a killed process left half is cut away.

    Args:
        path: The file.
        about: Written into the first line of a new file.

    Raises:
        UserError: The file holds something else.
    """

    def __init__(self, path: Path, about: Mapping[str, Any] | None = None) -> None:
        self.path = path
        whole = _whole_bytes(path) if path.is_file() else 0
        if whole:
            read_about(path)
        elif path.is_file() and path.stat().st_size:
            raise UserError(f"{path}: is no file of episodes; name another, or delete it")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab")
        self._file.truncate(whole)
        if not whole:
            self._write({"format": FORMAT, "version": VERSION, **(about or {})})

    def append(self, episode: Episode) -> None:
        """Write an episode and hand it to the operating system."""
        self._write(episode_to_dict(episode))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> EpisodeWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(gzip.compress((json.dumps(line) + "\n").encode()))
        self._file.flush()


def _whole_bytes(path: Path) -> int:
    """Bytes of the whole gzip members that a file begins with; each is read by itself."""
    end = 0
    with path.open("rb") as file:
        member = zlib.decompressobj(wbits=31)
        read = 0
        while block := file.read(1 << 16):
            while block:
                try:
                    member.decompress(block)
                except zlib.error:
                    return end
                used = len(block) - len(member.unused_data)
                read += used
                block = block[used:]
                if member.eof:
                    end, member = read, zlib.decompressobj(wbits=31)
    return end


def read_about(path: Path) -> dict[str, Any]:
    """What the first line says.

    Raises:
        UserError: There is no such file, or it is no file of episodes, or of a newer version.
    """
    about = next(_lines(path), None)
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise UserError(f"{path}: is no file of episodes; name one that 'rollouts.storage' wrote")
    if about.get("version") != VERSION:
        raise UserError(f"{path}: has version {about.get('version')}, this is version {VERSION}; read it with its own")
    return about


def read_episodes(path: Path) -> Iterator[Episode]:
    """The episodes of a file, one after the other; never more than one is held.

    A last line that was cut off by a killed process is left out, with a warning.

    Raises:
        UserError: As :func:`read_about`.
    """
    read_about(path)
    lines = _lines(path)
    next(lines)
    yield from map(episode_from_dict, lines)


def _lines(path: Path) -> Iterator[Any]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)
    except FileNotFoundError as error:
        raise UserError(f"{path}: there is no such file") from error
    except (gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise UserError(f"{path}: is no file of episodes ({error})") from error
    except (EOFError, zlib.error, json.JSONDecodeError) as error:
        warnings.warn(f"{path}: its last line was cut off and is left out ({error})", stacklevel=2)


def episode_to_dict(episode: Episode) -> dict[str, Any]:
    """As JSON stores it; floats keep every bit."""
    stored = asdict(episode)
    stored["status"] = episode.status.value
    for segment in stored["segments"]:
        for turn in segment["turns"]:
            turn["kind"], turn["finish"] = turn["kind"].value, turn["finish"].value
            if turn["advantage"] is None:
                # Programs that know no advantages read such files as before.
                del turn["advantage"]
    return stored


def episode_from_dict(stored: Mapping[str, Any]) -> Episode:
    """The inverse of :func:`episode_to_dict`."""

    def turn(fields: Mapping[str, Any]) -> Turn:
        enums = {"kind": TurnKind(fields["kind"]), "finish": Finish(fields["finish"])}
        return Turn(**{**_tuples(fields), **enums})

    segments = tuple(
        Segment(tuple(s["prompt_ids"]), tuple(turn(t) for t in s["turns"]), tuple(s["trailing_ids"]))
        for s in stored["segments"]
    )
    compactions = tuple(Compaction(**_tuples(compaction)) for compaction in stored["compactions"])
    parts = {"segments": segments, "compactions": compactions, "status": Status(stored["status"])}
    return Episode(**{**stored, **parts, "acts": tuple(stored["acts"])})


def _tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
