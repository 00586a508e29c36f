"""RULER's eight needle tasks (``niah_*``): statements hidden in a long text, one question about them.

Parameters are RULER's (NVIDIA/RULER, ``scripts/synthetic.yaml``):

==================  ========  ======  =======  ====  ======  =====
task                haystack  keys    values   keys  values  asked
==================  ========  ======  =======  ====  ======  =====
niah_single_1       noise     words   numbers  1     1       1
niah_single_2       prose     words   numbers  1     1       1
niah_single_3       prose     words   uuids    1     1       1
niah_multikey_1     prose     words   numbers  4     1       1
niah_multikey_2     needles   words   numbers  1     1       1
niah_multikey_3     needles   uuids   uuids    1     1       1
niah_multivalue     prose     words   numbers  1     4       1
niah_multiquery     prose     words   numbers  4     1       4
==================  ========  ======  =======  ====  ======  =====

What differs: the words of the prompts and of the noise are our own, prose is the haystack of
:mod:`eval.tasks.haystack`, depths are uniform rather than 40 fixed ones, order is drawn per sample, and no needle of
the haystack has the key or the value of one that is asked for.

Its twins are those of :mod:`eval.tasks.twins`; ``contradicted`` is refused where several values of a key all hold.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from eval.tasks.base import Ask, Task, depths_of, scattered
from eval.tasks.haystack import filler
from eval.tasks.match import NUMBERS, UNKNOWN, UUIDS, plain_numbers, strict_all, string_match_all
from eval.tasks.twins import TWINS, abstention, allowed
from rollouts.environments.lexicon import GOODS, OBJECTS, OWNERS
from summarization.resolve import UserError

NOISE = "The lake is calm. The road is dry. The lamp is lit. On we walk. Up the hill and down."
ADJECTIVES = """able amber ancient bitter blunt bold brave brief bright brisk broad calm careful cheerful clever cold
cosy crisp curious dainty damp daring deep distant dusty eager early earnest elegant empty faint fair famous
fierce final firm fluffy fond formal fragile fresh gentle giant glad golden graceful grand grim handy happy harsh
hasty hidden hollow honest humble icy ideal idle jolly keen kind lazy lively lonely loud loyal lucky mellow merry
mighty misty modest muddy narrow neat nimble noble odd pale patient plain polite proud prudent quaint quick quiet
rapid rare ripe rough round rusty sandy secret serious sharp shiny shy silent silver simple sleepy slender smooth
sober solemn spare steady steep stern stout strange sturdy subtle sudden sunny swift tame tender thick thin tidy
tiny tranquil vast velvet vivid warm wary weary wild windy wise witty wooden young zealous""".split()
NOUNS = (*OBJECTS, *OWNERS, *GOODS)
_GROUP = 4


@dataclass(frozen=True)
class Statement:
    """One needle.

    Attributes:
        corrects: Whether it takes back an earlier value of the same key.
    """

    key: str
    value: str
    kind: str
    corrects: bool = False

    @property
    def text(self) -> str:
        """The needle as it stands in the text."""
        if self.corrects:
            return f"This is a correction: the special magic {self.kind} for {self.key} is now {self.value}."
        return f"Note that a special magic {self.kind} for {self.key} is {self.value}."


class Needles(Task):
    """What the eight tasks share.

    Attributes:
        hay: What surrounds the needles: ``noise``, ``prose`` or ``needles``.
        key_kind: ``word`` or ``uuid``.
        value_kind: ``number`` or ``uuid``.
        keys: How many keys have needles.
        values: Values of each key.
        asked: How many of the keys are asked for.
    """

    defaults: ClassVar[Mapping[str, Any]] = TWINS
    hay: ClassVar[str] = "prose"
    key_kind: ClassVar[str] = "word"
    value_kind: ClassVar[str] = "number"
    keys: ClassVar[int] = 1
    values: ClassVar[int] = 1
    asked: ClassVar[int] = 1

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask)
        if self.options["contradicted"] and self.values > 1:
            raise UserError(
                f"task '{self.name}': contradicted is True, but each of its {self.values} values holds: "
                "leave it out, or take a task with one value for each key"
            )
        rng = self.draw("facts")
        keys: list[str] = []
        values: list[str] = []
        while len(keys) < self.keys:
            keys.append(_fresh(rng, self.key_kind, keys))
        # Twice as many, so that the values that hold are the same with and without contradictions.
        while len(values) < 2 * self.keys * self.values:
            values.append(_fresh(rng, self.value_kind, (*keys, *values)))
        self._reserved = frozenset((*keys, *values))
        self._keys = tuple(rng.sample(keys, self.asked))
        holds = values[: self.keys * self.values]
        self._facts = [Statement(keys[i // self.values], value, self.value_kind) for i, value in enumerate(holds)]
        self._outdated = dict(zip(keys, values[len(holds) :: self.values], strict=True))
        self._stated: list[Statement] = []
        self.answer_prefix = f"The special magic {self._what} for {_listed(self._keys)} in the text {self._verb}"

    @property
    def question(self) -> str:
        several = self.asked * self.values > 1
        hidden = f"some special magic {self.value_kind}s are" if several else f"a special magic {self.value_kind} is"
        every = "all the" if several else "the"
        lines = [
            f"In the text {hidden} hidden. Remember what you find: you will be asked about it.",
            f"What {self._verb} {every} special magic {self._what} for {_listed(self._keys)} in the text?",
        ]
        if self.options["contradicted"]:
            lines.append("Where the text corrects itself, what it says last holds: give that alone.")
        return " ".join(lines) + allowed(self.options)

    def pieces(self) -> Iterator[str]:
        placed = self._placed()
        texts = [statement.text for _, statement in placed]
        depths = [depth for depth, _ in placed]
        for piece, which in scattered(texts, depths, self._haystack(), self.ask.tokens, self.ask.count):
            if which is not None and placed[which][1].key in self._keys:
                self._stated.append(placed[which][1])
            yield piece

    def answers(self) -> Sequence[str]:
        if self.options["absent"]:
            return (UNKNOWN,)
        return tuple(fact.value for key in self._keys for fact in self._facts if fact.key == key)

    def scores(self, answer: str) -> Mapping[str, float]:
        kind = NUMBERS if self.value_kind == "number" else UUIDS
        plain = plain_numbers(answer) if self.value_kind == "number" else answer
        if self.options["absent"]:
            return abstention(plain, kind, self._keys)
        wanted = self.answers()
        return {
            "official": string_match_all(answer, wanted),
            "strict": strict_all(plain, wanted, kind, self._keys),
        }

    def needed(self) -> Sequence[str]:
        if self.values > 1:
            return tuple(statement.value for statement in self._stated)
        return tuple({statement.key: statement.value for statement in self._stated}.values())

    @property
    def _what(self) -> str:
        return self.value_kind + ("s" if self.asked * self.values > 1 else "")

    @property
    def _verb(self) -> str:
        return "are" if self.asked * self.values > 1 else "is"

    def _placed(self) -> list[tuple[float, Statement]]:
        """Statements with their depths. Twins draw alike, and the absent ones are taken out at the end."""
        rng = self.draw("places")
        order = list(self._facts)
        if self.options["contradicted"]:
            order += [fact for fact in self._facts if fact.key in self._keys]
        rng.shuffle(order)
        if self.options["contradicted"]:
            order = self._corrected(order)
        placed = list(zip(depths_of(rng, len(order)), order, strict=True))
        if self.options["absent"]:
            return [(depth, statement) for depth, statement in placed if statement.key not in self._keys]
        return placed

    def _corrected(self, order: Sequence[Statement]) -> list[Statement]:
        """Of two statements about one key the first gets the value that does not hold, the second corrects it."""
        seen: set[str] = set()
        found: list[Statement] = []
        for fact in order:
            if fact.key not in self._keys:
                found.append(fact)
            elif fact.key in seen:
                found.append(Statement(fact.key, fact.value, fact.kind, corrects=True))
            else:
                seen.add(fact.key)
                found.append(Statement(fact.key, self._outdated[fact.key], fact.kind))
        return found

    def _haystack(self) -> Iterator[str]:
        if self.hay == "prose":
            yield from filler(f"{self.name}/{self.ask.seed}", self.ask.haystack)
        rng = self.draw("haystack")
        while True:
            yield "\n".join(NOISE if self.hay == "noise" else self._distractor(rng) for _ in range(_GROUP))

    def _distractor(self, rng: random.Random) -> str:
        key = _fresh(rng, self.key_kind, self._reserved)
        return Statement(key, _fresh(rng, self.value_kind, self._reserved), self.value_kind).text


class NiahSingle1(Needles):
    """One number in repeated noise."""

    name = "niah_single_1"
    about = "RULER: one number hidden in repeated noise"
    hay = "noise"


class NiahSingle2(Needles):
    """One number in prose."""

    name = "niah_single_2"
    about = "RULER: one number hidden in prose"


class NiahSingle3(Needles):
    """One uuid in prose."""

    name = "niah_single_3"
    about = "RULER: one uuid hidden in prose"
    value_kind = "uuid"


class NiahMultikey1(Needles):
    """Numbers of four keys in prose, one of them asked for."""

    name = "niah_multikey_1"
    about = "RULER: numbers of four keys in prose, one is asked for"
    keys = 4


class NiahMultikey2(Needles):
    """One number among needles only."""

    name = "niah_multikey_2"
    about = "RULER: a text of nothing but keys and numbers, one is asked for"
    hay = "needles"


class NiahMultikey3(Needles):
    """One uuid of a uuid among needles only."""

    name = "niah_multikey_3"
    about = "RULER: a text of nothing but pairs of uuids, one is asked for"
    hay = "needles"
    key_kind = "uuid"
    value_kind = "uuid"


class NiahMultivalue(Needles):
    """Four numbers of one key in prose."""

    name = "niah_multivalue"
    about = "RULER: four numbers of one key in prose, all are asked for"
    values = 4


class NiahMultiquery(Needles):
    """Four keys in prose, all of them asked for."""

    name = "niah_multiquery"
    about = "RULER: numbers of four keys in prose, all are asked for"
    keys = 4
    asked = 4


def _fresh(rng: random.Random, kind: str, taken: Collection[str]) -> str:
    """A key or a value that is not among ``taken``."""
    while True:
        if kind == "word":
            found = f"{rng.choice(ADJECTIVES)}-{rng.choice(NOUNS)}"
        elif kind == "number":
            found = str(rng.randint(1_000_000, 9_999_999))
        else:
            found = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        if found not in taken:
            return found


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
