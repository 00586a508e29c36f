"""Reads the task rows that a user brings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from summarization.resolve import UserError


def read_task_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file with one JSON object a line; all have the columns of the first.

    Raises:
        UserError: The file holds no row, or a line is no such object; the text names the line.
    """
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise UserError(f"{path}, line {number}: is no JSON ({error.msg})") from error
        if not isinstance(row, dict):
            raise UserError(f"{path}, line {number}: must be an object, is a {type(row).__name__}")
        missing = [column for column in (rows[0] if rows else ()) if column not in row]
        if missing:
            raise UserError(f"{path}, line {number}: lacks the column '{missing[0]}', which line 1 has")
        rows.append(row)
    if not rows:
        raise UserError(f"train_file is '{path}': it holds no task")
    return rows
