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
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from rollouts.episode import Compaction, Episode, Finish, Segment, Status, Turn, TurnKind
from rollouts.yaml_file import fits, in_words, one_sentence
from summarization.resolve import UserError

FORMAT, VERSION = "palimpsest-episodes", 1


class EpisodeWriter:
    """Appends episodes to a file, which is begun if it is not there; what a killed process left half is cut away.

    Args:
        path: The file.
        about: Written into the first line of a new file.

    Raises:
        UserError: The file holds something else, or is damaged elsewhere than at a cut-off end.
    """

    def __init__(self, path: Path, about: Mapping[str, Any] | None = None) -> None:
        self.path = path
        whole = 0
        if path.is_file() and path.stat().st_size:
            whole, damaged = _whole_bytes(path)
            if damaged:
                raise _damaged(path, whole) if whole else _no_episodes(path)
        if whole:
            read_about(path)
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


def _whole_bytes(path: Path) -> tuple[int, bool]:
    """Bytes of the whole gzip members that a file begins with, and whether what follows is damaged: a member that
    was only cut off is not."""
    end = 0
    with path.open("rb") as file:
        member = zlib.decompressobj(wbits=31)
        read = 0
        while block := file.read(1 << 16):
            while block:
                try:
                    member.decompress(block)
                except zlib.error:
                    return end, True
                used = len(block) - len(member.unused_data)
                read += used
                block = block[used:]
                if member.eof:
                    end, member = read, zlib.decompressobj(wbits=31)
    return end, False


def _no_episodes(path: Path, reason: str = "") -> UserError:
    return UserError(f"{path}: is no file of episodes{reason}; name another, or delete it")


def _damaged(path: Path, whole: int) -> UserError:
    return UserError(
        f"{path}: is damaged after byte {whole}, which no cut-off writing explains; bring it back from a copy, or "
        "delete it, and its episodes are played again"
    )


def read_about(path: Path) -> dict[str, Any]:
    """What the first line says.

    Raises:
        UserError: There is no such file, or it is no file of episodes, or of another version.
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
        UserError: As :func:`read_about`; or the file is damaged elsewhere, or a line is no episode.
    """
    read_about(path)
    for number, line in enumerate(_lines(path)):
        if number:
            try:
                episode = episode_from_dict(line)
            except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
                raise UserError(
                    f"{path}: line {number + 1} is no episode ({type(error).__name__}: {one_sentence(str(error))}); "
                    "delete the file, and its episodes are played again"
                ) from error
            yield episode


def _lines(path: Path) -> Iterator[Any]:
    number = 0
    try:
        with gzip.open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    content = json.loads(line.decode("utf-8"))
                except (ValueError, RecursionError) as error:
                    if not line.endswith(b"\n") and _cut_off(path):
                        raise EOFError(str(error)) from error
                    if number == 1:
                        raise _no_episodes(path, f" ({one_sentence(str(error))})") from error
                    raise UserError(
                        f"{path}: line {number} is no JSON ({one_sentence(str(error))}); delete the file, and its "
                        "episodes are played again"
                    ) from error
                yield content
    except FileNotFoundError as error:
        raise UserError(f"{path}: there is no such file") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        whole, damaged = _whole_bytes(path)
        if damaged:
            raise (_damaged(path, whole) if whole else _no_episodes(path, f" ({error})")) from error
        warnings.warn(f"{path}: its last line was cut off and is left out ({error})", stacklevel=2)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error


def _cut_off(path: Path) -> bool:
    whole, damaged = _whole_bytes(path)
    return not damaged and whole < path.stat().st_size


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
    """The inverse of :func:`episode_to_dict`.

    Raises:
        TypeError: A field has another type, is missing, or is not known; also ``ValueError``, ``KeyError`` and
            ``AttributeError``.
    """

    def turn(fields: Mapping[str, Any]) -> Turn:
        enums = {"kind": TurnKind(fields["kind"]), "finish": Finish(fields["finish"])}
        ids = {name: _token_ids(fields[name]) for name in ("appended_ids", "sampled_ids")}
        return _checked(Turn(**{**_tuples(fields), **ids, **enums}))

    segments = tuple(
        Segment(_token_ids(s["prompt_ids"]), tuple(turn(t) for t in s["turns"]), _token_ids(s["trailing_ids"]))
        for s in stored["segments"]
    )
    compactions = tuple(_checked(Compaction(**_tuples(compaction))) for compaction in stored["compactions"])
    parts = {"segments": segments, "compactions": compactions, "status": Status(stored["status"])}
    if not isinstance(stored["task"], dict) or not fits(stored["metrics"], dict):
        raise TypeError("task and metrics must be objects")
    return _checked(Episode(**{**stored, **parts, "acts": tuple(stored["acts"])}))


def _tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


def _token_ids(values: Any) -> tuple[int, ...]:
    if not isinstance(values, list) or not all(type(value) is int and value >= 0 for value in values):
        raise TypeError("token ids must be whole numbers of at least 0")
    return tuple(values)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _checked(carrier: Any) -> Any:
    """The carrier itself, once its fields have the types that it says."""
    for name, hint in _hints(type(carrier)).items():
        value = getattr(carrier, name)
        right = all(fits(item, get_args(hint)[0]) for item in value) if isinstance(value, tuple) else fits(value, hint)
        if not right or (get_origin(hint) is tuple) != isinstance(value, tuple):
            raise TypeError(f"{name} must be {in_words(hint)}")
    return carrier
