"""The cells of an evaluation and the samples of each. The same arguments give the same samples."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.arguments import SHUFFLED_SUMMARY, EvalArguments
from eval.tasks.files import Row, load

# Fields of an entry of `files` that name a part of a data set, and all that say where its rows are.
PARTS = ("subset", "split")
WHERE = ("file", "revision", *PARTS, "passages")


@dataclass(frozen=True)
class CellKey:
    """One cell: samples of one task, asked at one place, of one length, read with one strategy.

    Attributes:
        task: Name of the task; of a file, its format and its name.
        asked: Where the question stands.
        length: In tokens; 0 where a file decides.
        strategy: As the YAML names it.
    """

    task: str
    asked: str
    length: int
    strategy: str

    @property
    def name(self) -> str:
        """Names the cell's file."""
        parts = (self.task, self.asked, str(self.length), self.strategy)
        return "-".join("".join(c if c.isalnum() or c in "._" else "_" for c in part) for part in parts)


def cells(arguments: EvalArguments) -> Iterator[CellKey]:
    """All cells: files first, then generated tasks, the short ones first, so that what is wrong shows early.

    What carries the summaries of another strategy comes after it.
    """
    strategies = sorted(arguments.strategies, key=lambda name: arguments.strategy(name)[0] == SHUFFLED_SUMMARY)
    places = [(file_name(entry), 0) for entry in arguments.files]
    places += [(task, length) for length in sorted(arguments.lengths) for task in arguments.tasks]
    for task, length in places:
        for asked in arguments.asked:
            for strategy in strategies:
                yield CellKey(task, asked, length, strategy)


def file_name(entry: Mapping[str, Any]) -> str:
    """What reports call a file."""
    parts = [Path(str(entry.get("file") or entry["path"])).stem, *(entry[name] for name in PARTS if entry.get(name))]
    return f"{entry['format']}:{'-'.join(parts)}"


def rows(arguments: EvalArguments, key: CellKey) -> list[dict[str, Any]]:
    """The task rows of a cell. They do not depend on the strategy, so that strategies are compared sample by sample.

    Raises:
        UserError: A file cannot be read.
    """
    for entry in arguments.files:
        if file_name(entry) == key.task:
            return [_file_row(entry, key, index, row) for index, row in enumerate(file_rows(entry))]
    return [
        {
            "task": key.task,
            "seed": random.Random(f"{arguments.seed}/{key.task}/{key.length}/{index}").getrandbits(48),
            "tokens": key.length,
            "asked": key.asked,
            "options": dict(arguments.task_options.get(key.task) or {}),
        }
        for index in range(arguments.samples_of(key.length))
    ]


def file_rows(entry: Mapping[str, Any]) -> Iterator[Row]:
    """The rows of a file that an entry of ``files`` asks for."""
    where = {name: str(entry.get(name, "")) for name in WHERE}
    return load(str(entry["path"]), str(entry["format"]), limit=entry.get("rows"), **where)


def _file_row(entry: Mapping[str, Any], key: CellKey, index: int, row: Row) -> dict[str, Any]:
    options = {name: entry[name] for name in ("path", *WHERE, "metric") if name in entry}
    return {
        "task": f"{entry['format']}_file",
        "seed": index,
        "tokens": 0,
        "asked": key.asked,
        "options": {**options, "row": index},
        "id": row.id,
        # Questions on one text are not independent.
        "cluster": hashlib.blake2b(row.sample.context.encode("utf-8", "replace"), digest_size=8).hexdigest(),
    }
