"""Rows of a local file by number: JSON lines, a JSON array, or parquet. All but arrays are read row by row."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from summarization.resolve import UserError

SUFFIXES = (".jsonl", ".json", ".parquet")


@dataclass(frozen=True)
class Fields:
    """The fields of one row; ``place`` names file and line (or row) for errors."""

    place: str
    values: Mapping[str, Any]

    def wrong(self, name: str, what: str) -> UserError:
        """The error for a field: missing, or not ``what`` it must be."""
        if self.values.get(name) is None:
            return UserError(
                f"{self.place}: field '{name}' is missing, must be {what}; there are {sorted(self.values)}"
            )
        shown = repr(self.values[name])
        return UserError(f"{self.place}: field '{name}' is {shown[:60]}, must be {what}")

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self.values.get(name) is not None

    def text(self, name: str, default: str | None = None) -> str:
        """Text; a number is taken as it is written."""
        value = self.values.get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.wrong(name, "text")
        return str(value)

    def whole(self, name: str) -> str:
        """Text that is not blank."""
        value = self.text(name)
        if not value.strip():
            raise self.wrong(name, "text that is not blank")
        return value

    def items(self, name: str, what: str = "a list that is not empty", least: int = 1) -> list[Any]:
        """A list of at least ``least`` items."""
        value = self.values.get(name)
        if not isinstance(value, list | tuple) or len(value) < least:
            raise self.wrong(name, what)
        return list(value)

    def texts(self, name: str, least: int = 1) -> tuple[str, ...]:
        """A list of texts; a single text counts as a list of one."""
        if isinstance(self.values.get(name), str) and least:
            return (self.whole(name),)
        values = self.items(name, "a list of texts", least)
        if any(isinstance(value, bool) or not isinstance(value, str | int | float) for value in values):
            raise self.wrong(name, "a list of texts")
        return tuple(str(value) for value in values)


class Table(Protocol):
    """A file's rows."""

    def __len__(self) -> int: ...
    def row(self, index: int) -> Fields:
        """Row ``index``, with where it stands."""
        ...


def open_table(path: Path) -> Table:
    """The rows of a file.

    Raises:
        UserError: It cannot be read, is of another kind, or holds no row.
    """
    if path.suffix not in SUFFIXES:
        raise UserError(f"{path}: files must end in {', '.join(SUFFIXES)}")
    try:
        if path.suffix == ".parquet":
            table: Table = _Parquet(path)
        else:
            with path.open("rb") as file:
                start = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
            table = _Array(path) if start.startswith(b"[") else _Lines(path)
    except OSError as error:
        raise UserError(f"{path}: the file cannot be read ({error})") from error
    if not len(table):
        raise UserError(f"{path}: the file holds no row")
    return table


def file_hash(path: Path) -> str:
    """The first twelve digits of the file's SHA-256, by which its samples are known."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


def _row(place: str, value: Any) -> Fields:
    if not isinstance(value, Mapping):
        raise UserError(f"{place}: a row must be an object with fields, is {repr(value)[:60]}")
    return Fields(place, value)


class _Lines:
    """JSON lines: only where each line begins is kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.starts: list[tuple[int, int]] = []
        offset = 0
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    self.starts.append((offset, number))
                offset += len(line)

    def __len__(self) -> int:
        return len(self.starts)

    def row(self, index: int) -> Fields:
        offset, number = self.starts[index]
        place = f"{self.path}, line {number}"
        with self.path.open("rb") as file:
            file.seek(offset)
            line = file.readline()
        try:
            return _row(place, json.loads(line.decode("utf-8-sig")))
        except ValueError as error:
            raise UserError(f"{place}: the line is no JSON ({error})") from error


class _Array:
    """A JSON array, which can only be read whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.rows: list[Any] = json.loads(path.read_text(encoding="utf-8-sig"))
        except ValueError as error:
            raise UserError(f"{path}: the file is no JSON array ({error})") from error

    def __len__(self) -> int:
        return len(self.rows)

    def row(self, index: int) -> Fields:
        return _row(f"{self.path}, row {index + 1}", self.rows[index])


class _Parquet:
    """Parquet, read one row group at a time."""

    def __init__(self, path: Path) -> None:
        import pyarrow
        import pyarrow.parquet

        self.path = path
        try:
            self.file = pyarrow.parquet.ParquetFile(path, memory_map=True)
        except pyarrow.ArrowInvalid as error:
            raise UserError(f"{path}: the file is no parquet ({error})") from error

    def __len__(self) -> int:
        return self.file.metadata.num_rows

    def row(self, index: int) -> Fields:
        place, group = f"{self.path}, row {index + 1}", 0
        while index >= (size := self.file.metadata.row_group(group).num_rows):
            index, group = index - size, group + 1
        return _row(place, self.file.read_row_group(group).slice(index, 1).to_pylist()[0])
