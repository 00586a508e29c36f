"""RULER's variable tracking (``vt``): assignments scattered through noise; which variables hold a value?

Parameters are RULER's: one chain, four hops, five capital letters, values of five digits, repeated noise. Each chain
stands in the text in its own order, so that a reader may follow it as it comes. What differs: noise and prompt are in
our own words, places are uniform over the text, and there is no worked example before it (that would stand in the
question, and so in every window). In the twin ``absent`` (:mod:`eval.tasks.twins`) the chain asked for is not there;
where the question allows for that, no prefix says how many variables there are. ``contradicted`` would be another
question.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, ClassVar

from eval.tasks.base import Ask, Task, depths_of, scattered
from eval.tasks.match import UNKNOWN, strict_all, string_match_all
from eval.tasks.niah import NOISE
from eval.tasks.twins import ABSENT, abstention, allowed
from summarization.resolve import UserError

# Case matters here: in lower case every word of five letters would be a candidate.
VARIABLES = re.compile(r"(?<!\w)[A-Z]{5}(?!\w)")


class VariableTracking(Task):
    """See the module's docstring. Options: ``chains`` (only the first is asked for) and ``hops`` of each."""

    name = "vt"
    about = "RULER: follow variables through a chain of assignments"
    defaults: ClassVar[Mapping[str, Any]] = {"chains": 1, "hops": 4, **ABSENT}

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask)
        for option in ("chains", "hops"):
            if self.options[option] < 1:
                raise UserError(f"task 'vt': {option} is {self.options[option]}, must be at least 1")
        rng = self.draw("facts")
        length = self.options["hops"] + 1
        names: dict[str, None] = {}
        while len(names) < self.options["chains"] * length:
            names["".join(rng.choices(string.ascii_uppercase, k=5))] = None
        every = list(names)
        self._chains = [every[start : start + length] for start in range(0, len(every), length)]
        self._values = rng.sample(range(10_000, 100_000), self.options["chains"])
        self._read: list[str] = []
        if not self.options["may_abstain"]:
            self.answer_prefix = (
                f"By the assignments in the text, {length} variables hold the value {self._values[0]}; they are:"
            )

    @property
    def question(self) -> str:
        return (
            "Assignments of variables are hidden in the text. Follow them as you read: a variable may be set to a "
            "value, or to what another variable holds. "
            f"Which variables in the text hold the value {self._values[0]}? Name all of them."
            f"{allowed(self.options)}"
        )

    def pieces(self) -> Iterator[str]:
        rng = self.draw("places")
        turns = [chain for chain, names in enumerate(self._chains) for _ in names]
        rng.shuffle(turns)
        # The k-th turn of a chain is its k-th assignment: chains interleave, each in its order.
        links = [(chain, turns[:at].count(chain)) for at, chain in enumerate(turns)]
        depths = depths_of(rng, len(links))
        if self.options["absent"]:
            left = [at for at, (chain, _) in enumerate(links) if chain]
            links, depths = [links[at] for at in left], [depths[at] for at in left]
        needles = [self._assignment(chain, link) for chain, link in links]
        noise = repeat("\n".join([NOISE] * 3))
        for piece, which in scattered(needles, depths, noise, self.ask.tokens, self.ask.count):
            if which is not None and links[which][0] == 0:
                self._read.append(self._chains[0][links[which][1]])
            yield piece

    def answers(self) -> Sequence[str]:
        return (UNKNOWN,) if self.options["absent"] else tuple(self._chains[0])

    def scores(self, answer: str) -> Mapping[str, float]:
        if self.options["absent"]:
            return abstention(answer, VARIABLES)
        wanted = self.answers()
        return {
            "official": string_match_all(answer, wanted),
            "strict": strict_all(answer, wanted, VARIABLES),
        }

    def needed(self) -> Sequence[str]:
        return tuple(self._read)

    def _assignment(self, chain: int, link: int) -> str:
        names = self._chains[chain]
        what = str(self._values[chain]) if link == 0 else f"VAR {names[link - 1]}"
        return f"VAR {names[link]} = {what}"
