"""``entropy``: more random codes than a summary can hold, and at the end one of them is asked for.

Nothing can be left out on good grounds, for all codes are equally likely to be asked for. ``ceiling`` in the metrics is
the best score to expect from a summary of ``budget_tokens`` that writes codes down as they are, each with its name: the
share of them that fit. A higher mean than that over many samples says that the summary was longer than its budget; a
lower one, how much of the budget was wasted.

- ``official``: 1 where the code is a substring of the answer, case ignored; so a dump is right.
- ``strict``: 1 where the answer holds the code as a whole word and no other word that looks like a code.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from eval.tasks.base import Ask, Count, Task, depths_of, scattered
from eval.tasks.haystack import filler
from eval.tasks.match import strict_all, string_match_all
from rollouts.environments.lexicon import OWNERS, PEOPLE
from summarization.resolve import UserError

SAMPLED_FACTS = 64
CODE_LENGTH = 8
# Without those that are mistaken for one another.
CODE_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"
CODE_DIGITS = "23456789"
# With a digit and a letter: of letters alone it could be a word, of digits alone a number.
CODES = re.compile(rf"\b(?=[A-Z]*\d)(?=\d*[A-Z])[A-Z0-9]{{{CODE_LENGTH}}}\b", re.IGNORECASE)


@dataclass(frozen=True)
class Coded:
    """Whose code it is, and the code."""

    name: str
    code: str

    @property
    def statement(self) -> str:
        """The fact as it stands in the text."""
        return f"The code of {self.name} is {self.code}."

    @property
    def note(self) -> str:
        """The least that a summary must hold of it."""
        return f"{self.name} {self.code}\n"


class Entropy(Task):
    """See the module's docstring. Options: ``budget_tokens``, what a summary may have; ``overload``, how many times
    over the codes fill it.

    The question does not tell which code it is about before the last page was read; ``ending`` does, for it stands in
    the question's place where the question is not repeated.
    """

    name = "entropy"
    about = "more random codes than a summary can hold, one of which is asked for; with the best possible score"
    defaults: ClassVar[Mapping[str, Any]] = {"budget_tokens": 128, "overload": 2}

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask)
        budget, overload = self.options["budget_tokens"], self.options["overload"]
        for option in ("budget_tokens", "overload"):
            if self.options[option] < 1:
                raise UserError(f"task 'entropy': {option} is {self.options[option]}, must be at least 1")
        rng = self.draw("facts")
        number = overload * max(1, _fitting(budget, _facts(rng, SAMPLED_FACTS), ask.count))
        if number > len(PEOPLE) * len(OWNERS):
            raise UserError(
                f"task 'entropy': budget_tokens is {budget} and overload is {overload}, which takes {number} codes, "
                f"but there are names for {len(PEOPLE) * len(OWNERS)}: lower budget_tokens"
            )
        self._facts = _facts(rng, number)
        self._ceiling = min(1.0, _fitting(budget, self._facts, ask.count) / number)
        stated = sum(ask.count(fact.statement) for fact in self._facts)
        if stated > ask.tokens:
            raise UserError(
                f"task 'entropy': budget_tokens is {budget}, and the {number} codes that overload it take {stated} "
                f"tokens, more than the length of {ask.tokens}: lower budget_tokens or ask for a longer sample"
            )
        self._asked = rng.choice(self._facts)
        self._stated = 0
        self._over = False
        self.ending = f"That was the last page. {self._last_question}"  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def question(self) -> str:
        if self._over:
            return self._last_question
        return (
            "Codes of many people are hidden in the text. After the last page you will be asked for one of these "
            "codes, and each of them is as likely as any other."
        )

    def pieces(self) -> Iterator[str]:
        texts = [fact.statement for fact in self._facts]
        depths = depths_of(self.draw("places"), len(texts))
        prose = filler(f"{self.name}/{self.ask.seed}", self.ask.haystack)
        for piece, which in scattered(texts, depths, prose, self.ask.tokens, self.ask.count):
            yield piece
            # Only now: whoever makes pages takes a piece before the page without it goes out.
            self._stated += which is not None
        self._over = True

    def answers(self) -> Sequence[str]:
        return (self._asked.code,)

    def scores(self, answer: str) -> Mapping[str, float]:
        return {
            "official": string_match_all(answer, self.answers()),
            "strict": strict_all(answer, self.answers(), CODES),
        }

    def needed(self) -> Sequence[str]:
        """All codes read so far: any may be asked for."""
        return tuple(fact.code for fact in self._facts[: self._stated])

    def metrics(self) -> Mapping[str, float]:
        return {"ceiling": self._ceiling, "codes": float(len(self._facts))}

    @property
    def _last_question(self) -> str:
        return f"What is the code of {self._asked.name}? Answer with the code alone."


def _fitting(budget: int, facts: Sequence[Coded], count: Count) -> int:
    """How many notes of about the size of these the budget holds."""
    return int(budget * len(facts) / max(1, count("".join(fact.note for fact in facts))))


def _facts(rng: random.Random, number: int) -> list[Coded]:
    """So many facts, with names and codes of their own, in the order in which they are stated."""
    codes: dict[str, None] = {}
    while len(codes) < number:
        drawn = "".join(rng.choices(CODE_LETTERS + CODE_DIGITS, k=CODE_LENGTH))
        if CODES.fullmatch(drawn):
            codes[drawn] = None
    names = rng.sample(range(len(PEOPLE) * len(OWNERS)), number)
    return [Coded(_name(name), code) for name, code in zip(names, codes, strict=True)]


def _name(number: int) -> str:
    first, last = divmod(number, len(OWNERS))
    return f"{PEOPLE[first].capitalize()} {OWNERS[last].capitalize()}"
