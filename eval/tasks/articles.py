"""Questions over many short articles, after RULER's ``qa_1`` and ``qa_2``.

RULER takes real questions: ``qa_1`` from SQuAD (one paragraph answers), ``qa_2`` from HotpotQA (two paragraphs must
be joined), among other paragraphs of the same sets; neither set is on every machine. Here people and towns are invented
and their articles generated, which changes what is measured, so scores are **not** comparable with RULER's:

- articles follow a few patterns, so language is easier; nothing can be known beforehand, so reading is what counts;
- all other articles are of the same two kinds, and one person in ten bears the family name asked about;
- an answer has one form where SQuAD has several; it is scored by ``string_match_part`` as there;
- articles stand under a title rather than a number, and never repeat, whereas RULER repeats its sets in long texts.

``qa_1`` asks what one article says. ``qa_2`` asks about the town where a person was born: one article names the town,
another tells about it, in either order.

Twins (:mod:`eval.tasks.twins`): in ``absent`` the article that answers is not there (in ``qa_2`` the one that leads to
it is); in ``contradicted`` it stands there twice, first with another value, later as a corrected edition.
"""

from __future__ import annotations

import random
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from eval.tasks.base import Ask, Task, depths_of, scattered
from eval.tasks.match import UNKNOWN, any_of, strict_part, string_match_part
from eval.tasks.twins import TWINS, abstention, allowed
from rollouts.environments.lexicon import GOODS, OWNERS, PEOPLE

ONSETS = """Bar Bel Cal Cor Dan Del Dor Fal Fen Gal Gor Hal Har Jor Kal Kel Lan Lor Mal Mar Nor Pel Quin Ral Ros
Sal Sel Tal Tor Val Ver Wen Yar Zel""".split()
MIDDLES = "a e i o u al an ar el en er il in ir ol on or ul un ur".split()
FAMILY, TOWN, RIVER, REGION = (
    "sby ckett dew gard kins mond nall rick sett vane wick zley".split(),
    "brook burgh combe field ford haven holm mere stead thorpe".split(),
    "beck dle ffe lith ness quay sk tham veer wash".split(),
    "fold gate land mark moor reach shire vale weald wold".split(),
)
INSTRUMENTS = (
    "bagpipes cello clarinet cornet dulcimer harp lute mandolin oboe organ trombone viola violin zither".split()
)
TRADES = [owner for owner in OWNERS if owner != "general"]  # "In general" is no trade.
PERSON_REST = (
    "Letters to friends tell of long walks and bad weather.",
    "Two journeys abroad are recorded, both of them short.",
    "A small street behind the old market bears the family's name.",
    "Little is known about the later years.",
    "A portrait from that time hangs in a private house.",
    "Contemporaries praised a good memory and a dry wit.",
)
TOWN_REST = (
    "The town hall burned down twice and was rebuilt each time.",
    "A wooden bridge was replaced by one of stone.",
    "The weekly market is held on the square before the church.",
    "Its walls were taken down when the railway came.",
    "The school has three classrooms and a garden.",
    "Visitors come mostly in late summer.",
)
_RELATIVES = 0.1


@dataclass(frozen=True)
class Person:
    """Whom an article is about."""

    name: str
    town: str
    year: str
    trade: str
    instrument: str

    def article(self, rng: random.Random) -> str:
        """The article, in one of several ways to say it."""
        article = "an" if self.trade[0] in "aeiou" else "a"
        facts = [
            rng.choice(
                (
                    f"{self.name} was born in {self.town} in the year {self.year}.",
                    f"The year {self.year} saw the birth of {self.name}, in the town of {self.town}.",
                )
            ),
            rng.choice(
                (f"{self.name} worked as {article} {self.trade}.", f"By trade {self.name} was {article} {self.trade}.")
            ),
            rng.choice(
                (
                    f"On evenings with guests {self.name} played the {self.instrument}.",
                    f"The {self.instrument} was the instrument that {self.name} played.",
                )
            ),
        ]
        return _written(self.name, facts, PERSON_REST, rng)


@dataclass(frozen=True)
class Town:
    """What an article is about."""

    name: str
    river: str
    region: str
    year: str
    goods: str

    def article(self, rng: random.Random) -> str:
        """The article, in one of several ways to say it."""
        facts = [
            rng.choice(
                (f"{self.name} is a town in {self.region}.", f"The town of {self.name} belongs to {self.region}.")
            ),
            rng.choice(
                (f"{self.name} was founded in {self.year}.", f"The founding of {self.name} is dated to {self.year}.")
            ),
            rng.choice(
                (
                    f"The river {self.river} flows through {self.name}.",
                    f"{self.name} lies on both banks of the river {self.river}.",
                )
            ),
            rng.choice(
                (f"{self.name} is known for its {self.goods}.", f"Merchants go to {self.name} for {self.goods}.")
            ),
        ]
        return _written(self.name, facts, TOWN_REST, rng)


def _name_of(endings: Sequence[str]) -> re.Pattern[str]:
    return re.compile(
        rf"(?<!\w)(?:{'|'.join(ONSETS)})(?:{'|'.join(MIDDLES)})(?:{'|'.join(endings)})(?!\w)", re.IGNORECASE
    )


YEARS = re.compile(r"(?<!\d)1\d{3}(?!\d)")
OF_A_PERSON: Mapping[str, tuple[str, re.Pattern[str]]] = {
    "town": ("In which town was {} born?", _name_of(TOWN)),
    "year": ("In which year was {} born?", YEARS),
    "trade": ("What was the trade of {}?", any_of(TRADES)),
    "instrument": ("Which instrument did {} play?", any_of(INSTRUMENTS)),
}
OF_A_TOWN: Mapping[str, tuple[str, re.Pattern[str]]] = {
    "river": ("Which river flows through {}?", _name_of(RIVER)),
    "region": ("In which region is {}?", _name_of(REGION)),
    "year": ("In which year was {} founded?", YEARS),
    "goods": ("Which goods is {} known for?", any_of(GOODS)),
}
"""What may be asked: the question, and what finds answers of its kind."""


Told = list[tuple[str, "Person | Town"]]
"""Articles, and what they are about."""


class Articles(Task):
    """What the two tasks share."""

    defaults: ClassVar[Mapping[str, Any]] = TWINS
    answer_prefix = "The answer is:"

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask)
        rng = self.draw("facts")
        self._town = _town(rng)
        self._person = _person(rng, self._town.name)
        self._read: set[str] = set()
        self._asked, self._attribute, self._kind = self._drawn(rng)
        self._value: str = getattr(self._sources()[-1], self._attribute)
        self._stated = ""

    @abstractmethod
    def _drawn(self, rng: random.Random) -> tuple[str, str, re.Pattern[str]]:
        """The question, which attribute answers it, and what finds answers of its kind."""

    @abstractmethod
    def _sources(self) -> Sequence[Person | Town]:
        """What the articles that answer the question are about, the last of them with the answer."""

    @property
    def question(self) -> str:
        correction = " A corrected edition of an article takes the place of it." if self.options["contradicted"] else ""
        return (
            "The text is a collection of articles. Answer the question from them, with the answer alone and no other "
            f"words. Question: {self._asked}{correction}{allowed(self.options)}"
        )

    def pieces(self) -> Iterator[str]:
        rng = self.draw("places")
        sources = list(self._sources())
        rng.shuffle(sources)
        told = [(source.article(rng), source) for source in sources]
        depths = depths_of(rng, len(told))
        answering = self._sources()[-1]
        if self.options["absent"]:
            told, depths = self._without(told, depths, answering)
        elif self.options["contradicted"]:
            told, depths = self._corrected(told, depths, answering)
        texts = [text for text, _ in told]
        for piece, which in scattered(texts, depths, self._others(), self.ask.tokens, self.ask.count):
            if which is not None:
                source = told[which][1]
                self._read.add(source.name)
                if source.name == answering.name:
                    self._stated = getattr(source, self._attribute)
            yield piece

    def _without(self, told: Told, depths: list[float], answering: Person | Town) -> tuple[Told, list[float]]:
        left = [at for at, (_, source) in enumerate(told) if source is not answering]
        return [told[at] for at in left], [depths[at] for at in left]

    def _corrected(self, told: Told, depths: list[float], answering: Person | Town) -> tuple[Told, list[float]]:
        """The answering article becomes the corrected edition, and one with another value is put before it."""
        rng = self.draw("outdated")
        value = self._value
        while value == self._value:
            value = getattr(
                _person(rng, _town(rng).name) if isinstance(answering, Person) else _town(rng), self._attribute
            )
        outdated = replace(answering, **{self._attribute: value})
        (at,) = [at for at, (_, source) in enumerate(told) if source is answering]
        first = rng.random() * depths[at]
        text = told[at][0].replace(f"Article: {answering.name}", f"Article: {answering.name} (corrected edition)", 1)
        entries = [*zip(depths, [*told[:at], (text, answering), *told[at + 1 :]], strict=True)]
        entries.append((first, (outdated.article(rng), outdated)))
        entries.sort(key=lambda entry: entry[0])
        return [each for _, each in entries], [depth for depth, _ in entries]

    def answers(self) -> Sequence[str]:
        return (UNKNOWN if self.options["absent"] else self._value,)

    def scores(self, answer: str) -> Mapping[str, float]:
        if self.options["absent"]:
            return abstention(answer, self._kind)
        return {
            "official": string_match_part(answer, self.answers()),
            "strict": strict_part(answer, self.answers(), self._kind),
        }

    def needed(self) -> Sequence[str]:
        return (self._stated,) if self._stated else ()

    def _others(self) -> Iterator[str]:
        rng = self.draw("others")
        family = self._person.name.split()[-1]
        while True:
            town = _town(rng)
            if rng.random() < 0.5:
                other: Person | Town = _person(rng, town.name, family if rng.random() < _RELATIVES else None)
            else:
                other = town
            if self._town.name != town.name and self._person.name != other.name:
                yield other.article(rng)


class SingleHop(Articles):
    """One article answers."""

    name = "qa_1"
    about = "after RULER: a question that one of many invented articles answers"

    def _drawn(self, rng: random.Random) -> tuple[str, str, re.Pattern[str]]:
        self._about = rng.choice((self._person, self._town))
        return _asked(rng, self._about.name, OF_A_PERSON if self._about is self._person else OF_A_TOWN)

    def _sources(self) -> Sequence[Person | Town]:
        return (self._about,)


class TwoHop(Articles):
    """One article leads to another, which answers."""

    name = "qa_2"
    about = "after RULER: a question that two of many invented articles answer together"

    def _drawn(self, rng: random.Random) -> tuple[str, str, re.Pattern[str]]:
        return _asked(rng, f"the town where {self._person.name} was born", OF_A_TOWN)

    def _sources(self) -> Sequence[Person | Town]:
        return (self._person, self._town)

    def needed(self) -> Sequence[str]:
        """The town's name is needed until both articles were read; from then on the answer alone."""
        if self.options["absent"]:
            return ()
        if len(self._read) == 2:
            return (self._stated,)
        if self._town.name in self._read:
            return (self._town.name, self._stated)
        return (self._town.name,) if self._read else ()


def _asked(
    rng: random.Random, called: str, questions: Mapping[str, tuple[str, re.Pattern[str]]]
) -> tuple[str, str, re.Pattern[str]]:
    attribute = rng.choice(sorted(questions))
    question, kind = questions[attribute]
    return question.format(called), attribute, kind


def _person(rng: random.Random, town: str, family: str | None = None) -> Person:
    name = f"{rng.choice(PEOPLE).capitalize()} {family or _name(rng, FAMILY)}"
    return Person(name, town, str(rng.randint(1600, 1899)), rng.choice(TRADES), rng.choice(INSTRUMENTS))


def _town(rng: random.Random) -> Town:
    name, river, region = (_name(rng, endings) for endings in (TOWN, RIVER, REGION))
    return Town(name, river, region, str(rng.randint(1100, 1599)), rng.choice(GOODS))


def _name(rng: random.Random, endings: Sequence[str]) -> str:
    return rng.choice(ONSETS) + rng.choice(MIDDLES) + rng.choice(endings)


def _written(title: str, facts: list[str], rest: Sequence[str], rng: random.Random) -> str:
    sentences = [*facts, *rng.sample(rest, rng.randint(1, 3))]
    rng.shuffle(sentences)
    return f"Article: {title}\n{' '.join(sentences)}"
