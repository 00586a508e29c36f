"""RULER's tasks about how often words stand in a text: ``cwe`` (common words) and ``fwe`` (frequent coded words).

Neither text is ever whole in memory, though both are shuffles of a whole: the next word is drawn with the odds of what
is left, which gives every order the same probability. The shuffle is the sample's own; RULER shuffles all alike.

``cwe`` has RULER's parameters: 10 words stand 30 times and all others 3 times, or 6 times and once where the text has
fewer than 4,096 tokens. What differs: RULER takes single English words from two lists; ours are nouns of the lexicon,
and where those do not suffice (from some thousand tokens on) pairs or triples of them, as in ``lamp-baker``. So that
the length fits, a few other words stand once less or once more. RULER's worked example is left out: it would stand in
the question, and so in every window.

``fwe`` has RULER's parameters: of W words, a word of rank k stands floor(W k^-a / zeta(a)) times, a = 2. Rank 1 are
dots, which are to be ignored, and ranks 2 to 4 are asked for. Words are 6 small letters, at most one for each 50
tokens. What differs: the number of dots gives way so that the length fits.
"""

from __future__ import annotations

import math
import random
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from eval.tasks.base import Ask, Count, Task
from eval.tasks.match import any_of, strict_all, string_match_all
from rollouts.environments.lexicon import GOODS, OBJECTS, OWNERS, PLACES
from summarization.resolve import UserError

# Without those that an answer may say and not mean.
NOUNS = tuple(
    noun
    for noun in (*OBJECTS, *OWNERS, *GOODS, *PLACES)
    if noun not in ("dates", "general", "map", "nice", "split", "table")
)
DOTS = "..."
_SHORT_TOKENS = 4096
_ITEMS = 20
_SAMPLE = 400
_CODED_LETTERS = 6
_CODED_ASKED = 3
_TOKENS_PER_CODED_WORD = 50


@dataclass(frozen=True)
class Scatter:
    """A one-to-one map of 0, ..., size - 1 onto itself that takes no memory."""

    size: int
    factor: int
    shift: int

    @staticmethod
    def drawn(rng: random.Random, size: int) -> Scatter:
        """One of those maps."""
        while math.gcd(factor := rng.randrange(1, size + 1), size) > 1:
            continue
        return Scatter(size, factor, rng.randrange(size))

    def __call__(self, index: int) -> int:
        return (self.factor * index + self.shift) % self.size


@dataclass(frozen=True)
class Vocabulary:
    """As many different words as are needed: ``nouns`` joined by hyphens, ``width`` at a time."""

    nouns: tuple[str, ...]
    width: int
    places: Scatter

    @staticmethod
    def drawn(rng: random.Random, needed: int) -> Vocabulary:
        """At least ``needed`` words, in an order of its own."""
        width = 1
        while len(NOUNS) ** width < needed:
            width += 1
        nouns = tuple(rng.sample(NOUNS, len(NOUNS)))
        return Vocabulary(nouns, width, Scatter.drawn(rng, len(nouns) ** width))

    def word(self, index: int) -> str:
        """Word number ``index``."""
        rest = self.places(index)
        parts: list[str] = []
        for _ in range(self.width):
            rest, digit = divmod(rest, len(self.nouns))
            parts.append(self.nouns[digit])
        return "-".join(parts)


class CommonWords(Task):
    """See the module's docstring. ``often`` and ``seldom`` left at None are RULER's for the length."""

    name = "cwe"
    about = "RULER: the ten words of a long list that stand in it most often"
    defaults: ClassVar[Mapping[str, Any]] = {"common": 10, "often": None, "seldom": None}
    answer_prefix = "The words that stand most often in the list are:"

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask)
        often, seldom = (6, 1) if ask.tokens < _SHORT_TOKENS else (30, 3)
        self._often = often if self.options["often"] is None else self.options["often"]
        self._seldom = seldom if self.options["seldom"] is None else self.options["seldom"]
        for option, value in (("common", self.options["common"]), ("often", self._often), ("seldom", self._seldom)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UserError(f"task 'cwe': {option} is {value!r}, must be a whole number of at least 1")
        if self._often <= self._seldom:
            raise UserError(f"task 'cwe': often is {self._often}, must be more than seldom, which is {self._seldom}")
        common: int = self.options["common"]
        rng = self.draw("words")
        vocabulary, others, most, self._size = Vocabulary.drawn(rng, 1), 1, 1, 4.0
        # Longer words are fewer, and fewer items have shorter numbers: so the guess is made again with the last one.
        for _ in range(4):
            self._size = self._guess(vocabulary)
            others = max(1, math.ceil(1.02 * (ask.tokens / self._size - common * self._often) / self._seldom))
            # Never back to shorter words, or the two lengths could take turns.
            most = max(most, common + others)
            vocabulary = Vocabulary.drawn(self.draw("vocabulary"), most)
        if common * self._often * self._size > ask.tokens:
            raise UserError(
                f"task 'cwe': length is {ask.tokens} tokens, but {common} words {self._often} times take "
                f"{math.ceil(common * self._often * self._size)}: ask for a longer sample, or lower often"
            )
        self._vocabulary = vocabulary
        self._others = [Scatter.drawn(rng, others) for _ in range(self._seldom)]
        self._common = [vocabulary.word(index) for index in range(common)]
        self._read = [0] * common

    @property
    def question(self) -> str:
        number = self.options["common"]
        return (
            "The text is a numbered list of words. Some of them stand in it more often than others: remember those. "
            f"Which {number} words stand most often in the list?"
        )

    def pieces(self) -> Iterator[str]:
        rng = self.draw("order")
        left, size, number = float(self.ask.tokens), self._size, 0
        unread = [self._often] * len(self._common)
        given = 0
        while sum(unread) or left >= size / 2:
            room, items = left / size, []
            common_left = sum(unread)
            for _ in range(max(1, min(_ITEMS, int(room)))):
                number += 1
                if common_left and rng.random() * (room - len(items)) < common_left:
                    (which,) = rng.choices(range(len(unread)), unread)
                    unread[which] -= 1
                    common_left -= 1
                    self._read[which] += 1
                    word = self._common[which]
                else:
                    word = self._other(given)
                    given += 1
                items.append(f"{number}. {word}")
            piece = " ".join(items)
            used = self.ask.count(piece)
            size += 0.1 * (used / len(items) - size)
            left -= used
            yield piece

    def answers(self) -> Sequence[str]:
        return tuple(self._common)

    def scores(self, answer: str) -> Mapping[str, float]:
        return {
            "official": string_match_all(answer, self._common),
            "strict": strict_all(answer, self._common, any_of(NOUNS) if self._vocabulary.width == 1 else _COMPOUND),
        }

    def needed(self) -> Sequence[str]:
        """Common words that were read more often than other words are: from then on they stand out."""
        return tuple(word for word, times in zip(self._common, self._read, strict=True) if times > self._seldom)

    def _other(self, given: int) -> str:
        """Word ``given`` of those that are not common: ``seldom`` tracks take turns, each with an order of its own."""
        index, track = divmod(given, self._seldom)
        return self._vocabulary.word(len(self._common) + self._others[track](index))

    def _guess(self, vocabulary: Vocabulary) -> float:
        """Tokens of an item in a text of this length, where they were so many in the last guess."""
        last = self.ask.tokens / self._size
        items = [f"{round(last * at / _SAMPLE) + 1}. {vocabulary.word(at)}" for at in range(_SAMPLE)]
        lines = [" ".join(items[start : start + _ITEMS]) for start in range(0, len(items), _ITEMS)]
        return sum(map(self.ask.count, lines)) / len(items)


class FrequentWords(Task):
    """See the module's docstring."""

    name = "fwe"
    about = "RULER: the three most frequent words of a coded text"
    defaults: ClassVar[Mapping[str, Any]] = {"alpha": 2.0}
    answer_prefix = "The three words that stand most often in the coded text are:"

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask)
        if self.options["alpha"] <= 1.0:
            raise UserError(f"task 'fwe': alpha is {self.options['alpha']}, must be more than 1")
        rng = self.draw("words")
        sample = [_coded(rng) for _ in range(_TOKENS_PER_CODED_WORD)]
        self._dot_size = _each(ask.count, [DOTS])
        coded_size = _each(ask.count, sample)
        dots = 1 / _zeta(self.options["alpha"])
        words = round(ask.tokens / (dots * self._dot_size + (1 - dots) * coded_size))
        self._times = self._counted(words)
        if len(self._times) <= _CODED_ASKED or self._times[_CODED_ASKED - 1] == self._times[_CODED_ASKED]:
            raise UserError(
                f"task 'fwe': length is {ask.tokens} tokens, too short for three words to stand out: "
                "ask for a longer sample"
            )
        names: dict[str, None] = {}
        while len(names) < len(self._times):
            names[_coded(rng)] = None
        self._words = list(names)
        # The first words are most of the text: what they take is measured, not averaged.
        sizes = [_each(ask.count, [word]) if rank < 100 else coded_size for rank, word in enumerate(self._words)]
        weighed = sum(times * size for times, size in zip(self._times, sizes, strict=True))
        self._coded_size = weighed / sum(self._times)
        self._read = [0] * len(self._words)

    @property
    def question(self) -> str:
        return (
            "The text is in code: words without a meaning, and dots, which are to be ignored. Keep track of how often "
            "each coded word stands in it. Which three words stand most often in the text? Name them without an "
            "explanation."
        )

    def pieces(self) -> Iterator[str]:
        rng = self.draw("order")
        left = float(self.ask.tokens)
        unread = list(self._times)
        coded = sum(unread)
        while coded or left >= self._dot_size:
            dots = max(0.0, (left - coded * self._coded_size) / self._dot_size)
            words: list[str] = []
            for _ in range(max(1, min(2 * _ITEMS, int(coded + dots)))):
                if rng.random() * (coded + dots) >= coded:
                    words.append(DOTS)
                    dots = max(0.0, dots - 1)
                    continue
                rank = _picked(unread, rng.randrange(coded))
                unread[rank] -= 1
                coded -= 1
                self._read[rank] += 1
                words.append(self._words[rank])
            piece = " ".join(words)
            left -= self.ask.count(piece)
            yield piece

    def answers(self) -> Sequence[str]:
        return tuple(self._words[:_CODED_ASKED])

    def scores(self, answer: str) -> Mapping[str, float]:
        return {
            "official": string_match_all(answer, self.answers()),
            "strict": strict_all(answer, self.answers(), any_of(self._words)),
        }

    def needed(self) -> Sequence[str]:
        """Those of the three that already lead by what was read."""
        threshold = sorted(self._read, reverse=True)[_CODED_ASKED - 1]
        times = self._read[:_CODED_ASKED]
        return tuple(word for word, read in zip(self.answers(), times, strict=True) if read and read >= threshold)

    def _counted(self, words: int) -> list[int]:
        """How often each coded word stands in a text of so many words."""
        alpha = self.options["alpha"]
        most = self.ask.tokens // _TOKENS_PER_CODED_WORD
        scale = words / _zeta(alpha)
        times = [int(scale * rank**-alpha) for rank in range(2, min(most, int(scale ** (1 / alpha)) + 1) + 1)]
        return [number for number in times if number]


_COMPOUND = re.compile(rf"(?<![\w-])(?:{'|'.join(NOUNS)})(?:-(?:{'|'.join(NOUNS)}))+(?![\w-])", re.IGNORECASE)


def _coded(rng: random.Random) -> str:
    return "".join(rng.choices(string.ascii_lowercase, k=_CODED_LETTERS))


def _each(count: Count, words: Sequence[str]) -> float:
    """Tokens of one of these words where they stand in a line as long as a piece."""
    line = (list(words) * (2 * _ITEMS))[: max(len(words), 2 * _ITEMS)]
    return count(" ".join(line)) / len(line)


def _picked(unread: Sequence[int], ticket: int) -> int:
    """Who holds ticket number ``ticket``, where everyone has as many as their number; the first have most."""
    for index, number in enumerate(unread):
        if ticket < number:
            return index
        ticket -= number
    raise ValueError("fewer tickets than that")


def _zeta(alpha: float) -> float:
    """Riemann's zeta function for ``alpha`` > 1, by 1,000 terms and the integral of the rest."""
    terms = 1000
    tail = terms ** (1 - alpha) / (alpha - 1) - 0.5 * terms**-alpha
    return sum(rank**-alpha for rank in range(1, terms + 1)) + tail
