"""What a path given to the viewer stands for: which files of episodes, and whose tokenizer wrote them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollouts.records import read_record
from rollouts.storage import read_about
from summarization.resolve import UserError

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model")


@dataclass(frozen=True)
class Source:
    """One file of episodes.

    Attributes:
        file: The file.
        label: Tells its episodes from those of the other files; empty where there is only one.
    """

    file: Path
    label: str = ""


@dataclass(frozen=True)
class Input:
    """What is to be shown.

    Attributes:
        title: Of the page.
        sources: The files, in order.
        policy: The policy whose tokenizer wrote the token ids, as far as the files tell.
        page: Where the page goes unless the user says otherwise.
    """

    title: str
    sources: tuple[Source, ...]
    policy: str | None
    page: Path


def find(path: Path) -> Input:
    """The episodes that ``path`` stands for: a file of episodes, a training run or an evaluation.

    Raises:
        UserError: It stands for none.
    """
    if path.is_file():
        page = path.with_name(path.name.removesuffix(".gz").removesuffix(".jsonl") + ".html")
        return Input(path.name, (Source(path),), _policy(path), page)
    if not path.is_dir():
        raise UserError(f"{path}: there is no such file or folder; name a file of episodes or the folder of a run")
    transcripts = path / "transcripts" / "episodes.jsonl.gz"
    if transcripts.is_file():
        return Input(path.resolve().name, (Source(transcripts),), _policy(transcripts), path / "episodes.html")
    # A process may be killed between making a cell's file and writing its first line.
    cells = [file for file in sorted((path / "samples").glob("*.jsonl.gz")) if file.stat().st_size]
    if cells:
        sources = tuple(Source(file, _cell(file)) for file in cells)
        return Input(path.resolve().name, sources, _policy(cells[0]), path / "episodes.html")
    raise UserError(
        f"{path}: holds no episodes; train with save_transcripts above 0, or name a file of episodes or the folder of "
        "an evaluation"
    )


def _cell(file: Path) -> str:
    """What an evaluation calls the cell of a file."""
    about = read_about(file)
    names = [str(about[name]) for name in ("task", "asked", "length", "strategy") if name in about]
    return " ".join(names) or file.name.removesuffix(".jsonl.gz")


def _policy(file: Path) -> str | None:
    """The policy that played the episodes of a file: the one its run trained, the one it evaluated, or the one named
    in the file."""
    about, run = read_about(file), file.resolve().parent.parent
    if any((run / "policy" / name).is_file() for name in TOKENIZER_FILES):
        return str(run / "policy")
    asked = _arguments(run / "arguments.json") if file.parent.name == "samples" else {}
    policy = asked.get("policy", about.get("policy"))
    return None if policy is None else str(policy)


def _arguments(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    return read_record(path, "restore it, or name the file of episodes itself", lambda found: dict(found["arguments"]))
