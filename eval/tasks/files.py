"""Samples from files of public benchmarks, local or from a hub, loaded unchanged and read through the window.

A path is a local file, the name of a dataset (``owner/name``) with the option ``file`` for the file in it, or
``hub:owner/name`` for what the library ``datasets`` loads by that name. Ids are our own, the file's hash and the row's
number: those in the files repeat.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from eval.tasks.base import Ask, Task
from eval.tasks.file_facts import facts_of
from eval.tasks.file_scores import both
from eval.tasks.formats import FORMATS, Sample, format_named, metric_of
from eval.tasks.hub import PREFIX, load_hub
from eval.tasks.pieces import pieces_of
from eval.tasks.tables import SUFFIXES, Fields, Table, file_hash, open_table
from summarization.resolve import UserError, closest


@dataclass(frozen=True)
class Source:
    """A file to read: where it lies, and which revision of which dataset it is (empty for a local file)."""

    path: Path
    dataset: str = ""
    revision: str = ""


@dataclass(frozen=True)
class Row:
    """One row, read: ``id`` is the file's hash and the row's number, from 0."""

    id: str
    sample: Sample
    source: Source


def load(
    name: str,
    format: str,
    *,
    file: str = "",
    revision: str = "",
    subset: str = "",
    split: str = "",
    passages: str = "",
    limit: int | None = None,
) -> Iterator[Row]:
    """The rows of a file, one after the other.

    Args:
        name: A local file, or a dataset's name on the hub, with or without ``hub:``.
        format: One of ``FORMATS``.
        file: Which file of a dataset; may be left out where it has only one.
        revision: Branch, tag or commit of the dataset; what it stands for is recorded.
        subset: Of ``hub:`` datasets with several configurations.
        split: Of ``hub:`` datasets with several splits.
        passages: HotpotQA's file, for MemAgent files that name passages by number.
        limit: How many rows at most.

    Raises:
        UserError: The file is not there, or a field is missing or wrong (with file, line and field).
    """
    format_named(format)
    where = {"file": file, "revision": revision, "subset": subset, "split": split}
    total = len(_table(name, **where)[1])
    for index in range(total if limit is None else min(limit, total)):
        yield load_row(name, format, index, passages=passages, **where)


def load_row(name: str, format: str, index: int, *, passages: str = "", **where: str) -> Row:
    """Row ``index`` (from 0); see :func:`load`."""
    read = format_named(format).read
    source, table, digest = _table(name, **where)
    if not 0 <= index < len(table):
        raise UserError(f"{name}: there is no row {index}; the file has {len(table)}, counted from 0")
    fields = table.row(index)
    if format == "memagent_hqa":
        fields = _with_passages(fields, passages)
    return Row(f"{digest}-{index}", read(fields), source)


def _table(
    name: str, file: str = "", revision: str = "", subset: str = "", split: str = ""
) -> tuple[Source, Table, str]:
    if name.startswith(PREFIX):
        found = _from_hub(name, file, revision, subset, split)
        return Source(Path(name), found.name, found.revision), found, found.digest
    if subset or split:
        raise UserError(
            f"{name}: subset and split are for data sets that are named '{PREFIX}owner/name': leave them out"
        )
    source = _downloaded(name, file, revision) if not Path(name).is_file() else Source(Path(name))
    state = source.path.stat()
    return source, *_opened(source.path, state.st_mtime_ns, state.st_size)


# Asked once, so that all rows of a run are of one revision.
_from_hub = lru_cache(maxsize=4)(load_hub)


@lru_cache(maxsize=16)
def _downloaded(name: str, file: str, revision: str) -> Source:
    """Ask the hub once, so that all rows of a run are of one revision."""
    return find(name, file, revision)


@lru_cache(maxsize=4)
def _opened(path: Path, changed: int, size: int) -> tuple[Table, str]:
    """A file as it is now: time and size are there so that a changed one is read again."""
    return open_table(path), file_hash(path)


def find(name: str, file: str = "", revision: str = "") -> Source:
    """The file: a local one, or one of a dataset on the hub, which is downloaded once for each revision.

    Raises:
        UserError: There is no such file, or the hub cannot be reached.
    """
    if Path(name).is_file():
        return Source(Path(name))
    if name.count("/") != 1 or name.startswith((".", "/")) or name.endswith(SUFFIXES):
        raise UserError(f"{name}: there is no such file, and it is no name of a dataset (owner/name)")
    import huggingface_hub

    try:
        info = huggingface_hub.HfApi().dataset_info(name, revision=revision or None, timeout=20)
        known = [sibling.rfilename for sibling in info.siblings or []]
        chosen = pick(name, file, known)
        path = huggingface_hub.hf_hub_download(name, chosen, repo_type="dataset", revision=info.sha)
        return Source(Path(path), name, info.sha or "")
    except UserError:
        raise
    except Exception as error:  # which errors stand for 'no network' differs between the hub's versions
        return _from_cache(name, file, revision, error)


def _from_cache(name: str, file: str, revision: str, reason: Exception) -> Source:
    """What an earlier run has downloaded; the folder it lies in is named after the commit."""
    import huggingface_hub

    if file:
        path = huggingface_hub.try_to_load_from_cache(name, file, repo_type="dataset", revision=revision or None)
        if isinstance(path, str):
            inside = Path(path).parts
            return Source(Path(path), name, inside[len(inside) - 1 - inside[::-1].index("snapshots") + 1])
    told = str(reason).strip().splitlines() or [type(reason).__name__]
    raise UserError(
        f"{name}: the dataset cannot be had from the hub ({told[0]}), and was not downloaded before; download "
        "it where there is a network, and name the local file"
    ) from reason


def pick(name: str, file: str, known: Sequence[str]) -> str:
    """The file of a dataset that is meant.

    Raises:
        UserError: There is no such file, or several and none was named.
    """
    if file:
        if file not in known:
            raise UserError(f"{name}: the dataset has no file '{file}'; {closest(file, list(known))}")
        return file
    tables = [entry for entry in known if entry.endswith(SUFFIXES)]
    if len(tables) != 1:
        some = ", ".join(tables[:8]) or "none of a kind that is read"
        raise UserError(f"{name}: say which file of the dataset by 'file'; it has {len(tables)}: {some}")
    return tables[0]


def _with_passages(fields: Fields, passages: str) -> Fields:
    """Put passages in place of their numbers, as MemAgent's largest files need."""
    numbers = fields.values.get("context")
    if not isinstance(numbers, list):
        return fields
    if not passages:
        raise UserError(
            f"{fields.place}: field 'context' is a list of passage numbers; name HotpotQA's file by 'passages'"
        )
    texts = hotpot_passages(passages)
    if not all(isinstance(number, int) and 0 <= number < len(texts) for number in numbers):
        raise fields.wrong("context", f"numbers from 0 to {len(texts) - 1}, for so many passages has '{passages}'")
    joined = "\n\n".join(f"Document {place}:\n{texts[number]}" for place, number in enumerate(numbers, start=1))
    return Fields(fields.place, {**fields.values, "context": joined})


@lru_cache(maxsize=1)
def hotpot_passages(path: str) -> tuple[str, ...]:
    """All passages of a HotpotQA file (title, then sentences), without doubles, sorted.

    Raises:
        UserError: It cannot be read as one.
    """
    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8"))
        return tuple(sorted({f"{title}\n{''.join(lines)}" for row in rows for title, lines in row["context"]}))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"passages is '{path}': it cannot be read as HotpotQA's JSON ({error!r})") from error


class FileTask(Task):
    """One row of a public benchmark's file. Its length is what the file has: ``ask.tokens`` is not looked at.

    Options: ``path``, ``file``, ``revision``, ``subset``, ``split`` and ``passages`` (see :func:`load`); ``row``, or -1
    for the row that the seed names; ``metric``, or ``auto`` for the one that the file's path calls for. Which facts are
    needed is known where the row tells it: see :mod:`eval.tasks.file_facts`.
    """

    format: ClassVar[str]
    defaults: ClassVar[Mapping[str, Any]] = {
        "path": "",
        "file": "",
        "revision": "",
        "subset": "",
        "split": "",
        "passages": "",
        "row": -1,
        "metric": "auto",
    }

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask)
        options = self.options
        if not options["path"]:
            raise UserError(f"task '{self.name}': path is empty; name a file, or a dataset on the hub")
        index = ask.seed if options["row"] == -1 else options["row"]
        where = {key: options[key] for key in ("file", "revision", "subset", "split", "passages")}
        self.row = load_row(options["path"], self.format, index, **where)
        place = "/".join(options[key] for key in ("path", "subset", "split", "file") if options[key])
        self.metric = metric_of(self.format, options["metric"], self.row.sample, place)
        self.answer_prefix = self.row.sample.answer_prefix
        self._facts = facts_of(self.format, self.row.sample, self.metric)
        self._read = 0

    @property
    def question(self) -> str:
        return self.row.sample.question

    def pieces(self) -> Iterator[str]:
        for piece in pieces_of(self.row.sample.context):
            yield piece
            # Only now: whoever makes pages takes a piece before the page without it goes out. White space is not
            # counted, for pieces lose some of it.
            self._read += len("".join(piece.split()))

    def needed(self) -> Sequence[str]:
        return tuple(placed.fact for placed in self._facts if placed.read <= self._read)

    def answers(self) -> Sequence[str]:
        return self.row.sample.answers

    def scores(self, answer: str) -> Mapping[str, float]:
        if not answer.strip():
            # Some public scorers accept it: the empty text is within any text.
            return both(0.0, 0.0)
        return FORMATS[self.format].score(self.row.sample, answer, self.metric)


def _task_of(format: str, title: str) -> type[FileTask]:
    about = f"{FORMATS[format].about}: a real file, local or from the hub"
    # Without its module, a class made this way cannot be pickled.
    names = {"name": f"{format}_file", "about": about, "format": format, "__doc__": about, "__module__": __name__}
    return type(title, (FileTask,), names)


RulerFile = _task_of("ruler", "RulerFile")
MemAgentFile = _task_of("memagent_hqa", "MemAgentFile")
BabilongFile = _task_of("babilong", "BabilongFile")
MrcrFile = _task_of("mrcr", "MrcrFile")
GraphwalksFile = _task_of("graphwalks", "GraphwalksFile")
LongBenchFile = _task_of("longbench_v2", "LongBenchFile")
OolongFile = _task_of("oolong", "OolongFile")
InfiniteBenchFile = _task_of("infinitebench", "InfiniteBenchFile")
LongMemEvalFile = _task_of("longmemeval", "LongMemEvalFile")
FILE_TASKS: Mapping[str, type[FileTask]] = {
    task.name: task
    for task in (
        RulerFile,
        MemAgentFile,
        BabilongFile,
        MrcrFile,
        GraphwalksFile,
        LongBenchFile,
        OolongFile,
        InfiniteBenchFile,
        LongMemEvalFile,
    )
}
