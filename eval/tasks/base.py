"""What an evaluation task is: a sample that is read piece by piece, a question, and a score. To add one, subclass Task.

A sample is never whole in memory: :meth:`Task.pieces` makes its text as it is read, and what the answer depends on is
kept as it goes by. All of a sample follows from its seed, so that every policy and every strategy reads the same text.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from summarization.resolve import UserError, closest

Count = Callable[[str], int]


@dataclass(frozen=True)
class Ask:
    """What a sample is to be.

    Attributes:
        seed: All of the sample is drawn from it.
        tokens: Length of all pieces together, in tokens of ``count``; held to within 2 %.
        count: Counts tokens as the policy's tokenizer does.
        options: The task's own settings, by name.
        haystack: A text file that filler is taken from; None for text that every machine has.
    """

    seed: int
    tokens: int
    count: Count = field(repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)
    haystack: str | None = None


class Task(ABC):
    """One sample of a task. Made, then read to the end, then scored.

    Attributes:
        name: As YAMLs and reports call it.
        about: One line for ``eval.run --list``.
        defaults: Its options and their defaults; an option of another name, or of another type, is refused.
        system: The system message.
        wait: What stands in the question's place where it is asked only at the end.
        ending: What follows the last page where the question was asked only at the start.
        joiner: What stands between two pieces on one page.
        piece_is_page: Every piece is a page of its own.
        answer_prefix: What the policy's answer starts with (given to it), where the benchmark has one.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    defaults: ClassVar[Mapping[str, Any]] = {}
    system: ClassVar[str] = "You read a long document page by page and answer one question about it at the end."
    wait: ClassVar[str] = "The question comes after the last page."
    ending: ClassVar[str] = "That was the last page. Answer the question now."
    joiner: ClassVar[str] = "\n"
    piece_is_page: ClassVar[bool] = False
    answer_prefix: str = ""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.options = self._checked(ask.options)

    @property
    @abstractmethod
    def question(self) -> str:
        """The question, with what a reader must know to answer it; known before the first piece is read."""

    @abstractmethod
    def pieces(self) -> Iterator[str]:
        """The text, in pieces of at most some hundred tokens. Iterated once, to its end."""

    @abstractmethod
    def answers(self) -> Sequence[str]:
        """The right answer: all parts that an answer must hold. Complete once the pieces were read."""

    @abstractmethod
    def scores(self, answer: str) -> Mapping[str, float]:
        """``official`` (as the public scorer, faults included) and ``strict`` (as a person would), each in [0, 1]."""

    def needed(self) -> Sequence[str]:
        """Facts read so far that the answer still needs, each as words a summary must hold. Empty where unknown."""
        return ()

    def metrics(self) -> Mapping[str, float]:
        """Counts of the task's own, such as ``ceiling``: the best score that its summary budget allows."""
        return {}

    def draw(self, *purpose: object) -> random.Random:
        """Random numbers for one purpose, a function of (task, seed, purpose)."""
        return random.Random("/".join(str(part) for part in (self.name, self.ask.seed, *purpose)))

    def _checked(self, options: Mapping[str, Any]) -> dict[str, Any]:
        for name, value in options.items():
            if name not in self.defaults:
                raise UserError(f"task '{self.name}' has no option '{name}'; {closest(name, dict(self.defaults))}")
            default = self.defaults[name]
            if default is not None and (
                not isinstance(value, type(default)) or isinstance(value, bool) != isinstance(default, bool)
            ):
                raise UserError(f"task '{self.name}': {name} is {value!r}, must be like its default {default!r}")
        return {**self.defaults, **options}


def scattered(
    needles: Sequence[str], depths: Sequence[float], filler: Iterable[str], tokens: int, count: Count
) -> Iterator[tuple[str, int | None]]:
    """Filler with needles in it, ``tokens`` long; the last piece of filler is cut to fit.

    Args:
        needles: In the order of ``depths``.
        depths: Where each needle stands, as a share of the length, ascending.
        filler: Endless.

    Yields:
        A piece, and which needle it is (None for filler).

    Raises:
        UserError: The needles alone are longer.
    """
    sizes = [count(needle) for needle in needles]
    room = tokens - sum(sizes)
    if room < 0:
        raise UserError(
            f"length is {tokens} tokens, but what must be found takes {sum(sizes)}: ask for a longer sample"
        )
    # Of the filler alone, so that all needles fit whatever their depths.
    marks = [depth * room for depth in depths]
    read, at = 0, 0
    source = iter(filler)
    while read < room or at < len(needles):
        while at < len(needles) and (read >= marks[at] or read >= room):
            yield needles[at], at
            at += 1
        if read >= room:
            continue
        piece = cut(next(source), room - read, count)
        if not piece:
            break
        read += count(piece)
        yield piece, None
    for rest in range(at, len(needles)):
        yield needles[rest], rest


def cut(text: str, tokens: int, count: Count) -> str:
    """As many of the first words of ``text`` as ``tokens`` hold; the whole of it where it fits."""
    if count(text) <= tokens:
        return text
    words = text.split(" ")
    low, high = 0, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(" ".join(words[:middle])) <= tokens else (low, middle - 1)
    return " ".join(words[:low])


def depths_of(rng: random.Random, number: int) -> list[float]:
    """``number`` places, uniform and independent, in ascending order."""
    return sorted(rng.random() for _ in range(number))
