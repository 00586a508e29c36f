"""Reads the task rows that a user brings: JSON lines with the columns of the first, each of one type."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from datasets import Dataset

from rollouts.yaml_file import one_sentence
from summarization.resolve import UserError

_JSON_TYPES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number with a point",
    str: "text",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def read_task_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file with one JSON object a line; all have the columns of the first. Empty lines are passed over.

    Raises:
        UserError: The file holds no row, or a line is no such object; the text names the line and the column.
    """
    rows: list[dict[str, Any]] = []
    first = 0
    types: dict[str, tuple[type, int]] = {}
    for number, line in _lines(path):
        where = f"{path}, line {number}"
        row = _parsed(line, where)
        first = first or number
        missing = [column for column in (rows[0] if rows else ()) if column not in row]
        if missing:
            raise UserError(f"{where}: lacks the column '{missing[0]}', which line {first} has")
        added = [column for column in row if rows and column not in rows[0]]
        if added:
            # The data set would leave it out without a word.
            raise UserError(f"{where}: has the column '{added[0]}', which line {first} lacks; write null there")
        for column, value in row.items():
            _check_value(value, f"{where}: column '{column}'")
            kind, since = types.setdefault(column, (type(value), number))
            if kind is type(None):
                types[column] = (type(value), number)
            elif type(value) is not kind and value is not None:
                raise UserError(
                    f"{where}: column '{column}' is {_JSON_TYPES[type(value)]}, but {_JSON_TYPES[kind]} in line "
                    f"{since}; a column has one type in all rows"
                )
        rows.append(row)
    if not rows:
        raise UserError(f"train_file is '{path}': it holds no task")
    for column, (kind, _) in types.items():
        if kind in (list, dict):
            _check_nested(path, column, [row[column] for row in rows])
    return rows


def _check_nested(path: Path, column: str, values: list[Any]) -> None:
    """Refuse a column of lists or objects that the data set that TRL trains on would not give back as it was."""
    remedy = "make all of its values alike, with the same fields of the same types, or write them as text"
    try:
        kept = list(Dataset.from_dict({column: values})[column])
    except Exception as error:
        # Arrow has a dozen kinds of errors for this.
        raise UserError(f"{path}: column '{column}' cannot be kept ({one_sentence(str(error))}); {remedy}") from error
    for number, (value, found) in enumerate(zip(values, kept, strict=True), 1):
        if value != found:
            raise UserError(f"{path}, task {number}: column '{column}' would be kept as {str(found)[:100]}; {remedy}")


def _lines(path: Path) -> Iterable[tuple[int, str]]:
    """The lines that hold something, with their numbers. Only a line feed ends one: JSON texts may hold all else."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"train_file is '{path}': it cannot be read ({error.strerror})") from error
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"{path}, line {number}: is no UTF-8 ({error.reason}); save the file as UTF-8") from error
        if text.strip():
            yield number, text


def _parsed(line: str, where: str) -> dict[str, Any]:
    """The object that a line holds."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise UserError(f"{where}: column '{twice}' is given twice")
        return found

    def constant(name: str) -> float:
        raise UserError(f"{where}: holds {name}, which is no number; write null, or leave the row out")

    try:
        row = json.loads(line, object_pairs_hook=once, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: is no JSON ({one_sentence(str(error))})") from error
    if not isinstance(row, dict):
        raise UserError(f"{where}: must be an object, is {_JSON_TYPES[type(row)]}")
    if not row:
        raise UserError(f"{where}: is an empty object; a task needs at least one column")
    return row


def _check_value(value: Any, where: str) -> None:
    """Refuse what the data set that TRL trains on cannot hold, or would change."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise UserError(f"{where} is a whole number of more than 64 bits; write it as text")
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise UserError(f"{where} is too large for a number; write it as text")
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UserError(f"{where} holds half of a surrogate pair, which is no character") from error
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_value(inner, where)
