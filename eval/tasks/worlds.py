"""Small worlds (``world_*``), as in BABILong: sentences about people and things, scattered through a long text.

Tasks are of the kinds qa1, qa2, qa3, qa6, qa7 and qa8 of bAbI, with its labels as answers; the worlds are simulated by
:mod:`eval.tasks.small_worlds`. What differs from BABILong: sentences and prompts are in our own words, the names of
people are drawn per sample, the number of sentences (option ``facts``) does not vary, objects may be handed over, and
there are no worked examples. Where the question is about a place, there is the twin ``absent``
(:mod:`eval.tasks.twins`); ``contradicted`` would be nothing new, as every move makes an earlier one outdated.

The official score is that of BABILong's ``metrics.py`` and keeps its faults: labels are found as substrings, so that
"none" also names "one" and is never right, and "no" is found in "know"; only what precedes the first full stop counts.
"""

from __future__ import annotations

import random
import re
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from eval.tasks.base import Ask, Task, depths_of, scattered
from eval.tasks.file_scores import babilong_named
from eval.tasks.haystack import filler
from eval.tasks.match import UNKNOWN, any_of
from eval.tasks.small_worlds import OBJECTS, PLACES, Event, World, story
from eval.tasks.twins import ABSENT, abstention, allowed
from rollouts.environments.lexicon import PEOPLE
from summarization.resolve import UserError

COUNTS = ("none", "one", "two", "three")
ALIASES = {"0": "none", "zero": "none", "1": "one", "2": "two", "3": "three"}
"""Other words for the labels that are numbers; the strict score takes them as well."""
# Names that hold a label ("Nora", "Fiona") would take it out of every answer in the official score.
NAMES = tuple(name.capitalize() for name in PEOPLE if not any(word in name for word in ("no", "one", "yes", "two")))
TRIES = 1000
PATIENCE = 200


class SmallWorld(Task):
    """What the six tasks share. Options: ``facts``, how many sentences matter, and ``people``, about how many persons.

    Attributes:
        labels: The words that an answer may be.
        kinds: The kinds of event that its stories have.
        rule: What the question says beside the question itself.
        guess: Finds answers of the kind asked for, where the right one is that the text does not tell.
        subject: The person or the object that a sample's question is about.
    """

    defaults: ClassVar[Mapping[str, Any]] = {"facts": 20, "people": 4, **ABSENT}
    joiner = " "
    labels: ClassVar[Sequence[str]] = PLACES
    kinds: ClassVar[Sequence[str]] = ("move", "take", "drop", "give")
    rule: ClassVar[str]
    guess: ClassVar[re.Pattern[str]] = any_of(PLACES)
    subject: str

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask)
        for option, most in (("facts", None), ("people", len(NAMES))):
            value = self.options[option]
            if value < 1 or (most is not None and value > most):
                bounds = "at least 1" if most is None else f"between 1 and {most}"
                raise UserError(f"task '{self.name}': {option} is {value}, must be {bounds}")
        rng = self.draw("story")
        self._world = World()
        for _ in range(TRIES):
            people = rng.sample(NAMES, self.options["people"])
            self._story = story(rng, people, self.kinds, self.options["facts"])
            end = World()
            for event in self._story:
                end.happen(event)
            if asked := self.choose(rng, end):
                self.asked, self._answers = asked
                return
        raise UserError(
            f"task '{self.name}': facts is {self.options['facts']}, too few for a question: ask for more facts"
        )

    @abstractmethod
    def choose(self, rng: random.Random, end: World) -> tuple[str, Sequence[str]] | None:
        """A question about the end of a story, and its answer; None where the story allows for none."""

    @property
    def question(self) -> str:
        opening = "Sentences about people are hidden in the text; they stand in the order of events."
        return f"{opening} {self.asked} {self.rule}{allowed(self.options)}"

    def pieces(self) -> Iterator[str]:
        rng = self.draw("places")
        told = list(zip(depths_of(rng, len(self._story)), self._story, strict=True))
        if self.options.get("absent"):
            told = [(depth, event) for depth, event in told if not self._concerned(event)]
        depths, texts = [depth for depth, _ in told], [event.text for _, event in told]
        prose = _sentences(filler(f"{self.name}/{self.ask.seed}", self.ask.haystack))
        for piece, which in scattered(texts, depths, prose, self.ask.tokens, self.ask.count):
            yield piece
            # Only now: whoever makes pages takes a piece before the page without it goes out.
            if which is not None and not self.options.get("absent"):
                self._world.happen(told[which][1])

    def _concerned(self, event: Event) -> bool:
        """Whether it is about the subject, or about an object that the subject ever touched: without the one, what is
        told of the other would not be possible."""
        touched = {e.object for e in self._story if e.object and self.subject in (e.person, e.receiver)}
        return bool({event.person, event.object, event.receiver} & {self.subject, *touched})

    def answers(self) -> Sequence[str]:
        return (UNKNOWN,) if self.options.get("absent") else tuple(self._answers)

    def scores(self, answer: str) -> Mapping[str, float]:
        if self.options.get("absent"):
            return abstention(answer, self.guess, set(_words(self.asked)) & set(self.labels))
        return {
            "official": official(answer, self._answers, self.asked, self.labels),
            "strict": strict(answer, self._answers, self.asked, self.labels),
        }


class OneFact(SmallWorld):
    """Where is someone? The last move tells (qa1)."""

    name = "world_one_fact"
    about = "BABILong-like: where someone is, from one sentence among many"
    defaults: ClassVar[Mapping[str, Any]] = {"facts": 10, "people": 4, **ABSENT}
    kinds = ("move",)
    rule = "Where someone was in several places, the last one counts. Answer with one word: the place."

    def choose(self, rng: random.Random, end: World) -> tuple[str, Sequence[str]] | None:
        self.subject = rng.choice(list(end.place_of))
        return f"Where is {self.subject}?", (end.place_of[self.subject],)

    def needed(self) -> Sequence[str]:
        return tuple(place for person, place in self._world.place_of.items() if person == self.subject)


class _AboutAnObject(SmallWorld):
    """Tasks that follow an object, which goes wherever its carrier goes."""

    def needed(self) -> Sequence[str]:
        """Where the object is and who carries it; not where those are who may take it later."""
        trail, holder = self._world.trail_of.get(self.subject, []), self._world.holder_of.get(self.subject)
        return tuple(trail[-1:]) + ((holder,) if holder else ())


class TwoFacts(_AboutAnObject):
    """Where is an object? Who has it, and where that person is (qa2)."""

    name = "world_two_facts"
    about = "BABILong-like: where an object is, from who carries it and where that person went"
    defaults: ClassVar[Mapping[str, Any]] = {"facts": 20, "people": 4, **ABSENT}
    rule = (
        "An object goes along with whoever carries it, and stays where it is dropped. Answer with one word: the place."
    )

    def choose(self, rng: random.Random, end: World) -> tuple[str, Sequence[str]] | None:
        if not end.trail_of:
            return None
        self.subject = rng.choice(sorted(end.trail_of))
        return f"Where is the {self.subject}?", (end.trail_of[self.subject][-1],)


class ThreeFacts(_AboutAnObject):
    """Where was an object before it came to a place? Who carried it, and two of that person's moves (qa3)."""

    name = "world_three_facts"
    about = "BABILong-like: where an object was before it came to a place"
    defaults: ClassVar[Mapping[str, Any]] = {"facts": 40, "people": 4, **ABSENT}
    rule = (
        "An object goes along with whoever carries it, and stays where it is dropped. If it came there more than once, "
        "the last time counts. Answer with one word: the place."
    )

    def choose(self, rng: random.Random, end: World) -> tuple[str, Sequence[str]] | None:
        moved = sorted(thing for thing, trail in end.trail_of.items() if len(trail) > 1)
        if not moved:
            return None
        self.subject = rng.choice(moved)
        trail = end.trail_of[self.subject]
        self._place = rng.choice(sorted(set(trail[1:])))
        return f"Where was the {self.subject} before the {self._place}?", _before(trail, self._place)

    def needed(self) -> Sequence[str]:
        """What the answer would be now, where the object is, and who carries it."""
        trail = self._world.trail_of.get(self.subject, [])
        return tuple(dict.fromkeys((*_before(trail, self._place), *super().needed())))


class YesNo(SmallWorld):
    """Is someone in a place (qa6)? Yes and no are equally likely."""

    name = "world_yes_no"
    about = "BABILong-like: whether someone is in a place"
    labels = ("yes", "no")
    # Not the "no" of "no information".
    guess = re.compile(r"(?<!\w)(?:yes|no(?=\s*[,.;:!]|\s*$))(?!\w)", re.IGNORECASE)
    rule = "Where someone was in several places, the last one counts. Answer with one word: yes or no."

    def choose(self, rng: random.Random, end: World) -> tuple[str, Sequence[str]] | None:
        self.subject = rng.choice(list(end.place_of))
        truth = rng.random() < 0.5
        right = end.place_of[self.subject]
        place = right if truth else rng.choice([place for place in PLACES if place != right])
        return f"Is {self.subject} in the {place}?", ("yes" if truth else "no",)

    def needed(self) -> Sequence[str]:
        return tuple(place for person, place in self._world.place_of.items() if person == self.subject)


class _AboutHands(SmallWorld):
    """Tasks about what someone carries. How much is drawn first: most people carry nothing most of the time.

    They have no absent twin: who is never spoken of carries nothing, which is an answer.
    """

    defaults: ClassVar[Mapping[str, Any]] = {"facts": 20, "people": 4}
    _stories = 0

    def choose(self, rng: random.Random, end: World) -> tuple[str, Sequence[str]] | None:
        most = min(len(OBJECTS), self.options["facts"] // 4)
        # One less whenever many stories have nobody with so much, as with few facts about many people.
        number = max(0, self.draw("number").randint(0, most) - self._stories // PATIENCE)
        self._stories += 1
        fitting = [person for person in end.place_of if len(end.held_by(person)) == number]
        if not fitting:
            return None
        self.subject = rng.choice(fitting)
        return self.ask_about(self.subject), self.told(end.held_by(self.subject))

    @abstractmethod
    def told(self, held: Sequence[str]) -> Sequence[str]:
        """The answer for someone who carries these objects."""

    @abstractmethod
    def ask_about(self, person: str) -> str:
        """The question about a person."""

    def needed(self) -> Sequence[str]:
        return self._world.held_by(self.subject)


class Counting(_AboutHands):
    """How many objects does someone carry (qa7)?"""

    name = "world_counting"
    about = "BABILong-like: how many objects someone carries"
    labels = COUNTS
    rule = "Answer with one word: none, one, two or three."

    def told(self, held: Sequence[str]) -> Sequence[str]:
        return (COUNTS[len(held)],)

    def ask_about(self, person: str) -> str:
        return f"How many objects is {person} carrying?"


class Lists(_AboutHands):
    """What does someone carry (qa8)?"""

    name = "world_lists"
    about = "BABILong-like: which objects someone carries"
    labels = (*OBJECTS, "nothing")
    rule = "Answer with the objects alone, separated by commas, or with: nothing."

    def told(self, held: Sequence[str]) -> Sequence[str]:
        return held or ("nothing",)

    def ask_about(self, person: str) -> str:
        return f"What is {person} carrying?"


def official(answer: str, wanted: Sequence[str], question: str, labels: Collection[str]) -> float:
    """BABILong's comparison: the labels in the answer, without those in the question, are exactly the wanted ones.

    Labels are found as substrings, case ignored, in what precedes the first full stop.
    """
    return float(babilong_named(answer, question, labels) == set(wanted))


def strict(answer: str, wanted: Sequence[str], question: str, labels: Collection[str]) -> float:
    """1 where the labels that the whole answer names as words, without those in the question, are the wanted ones."""
    words = [ALIASES.get(word, word) if "one" in labels else word for word in _words(answer)]
    named = (set(words) & set(labels)) - set(_words(question))
    return float(named == set(wanted))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _before(trail: Sequence[str], place: str) -> tuple[str, ...]:
    """Where the object was before it last came to ``place``; empty where it did not come there."""
    for at in range(len(trail) - 1, 0, -1):
        if trail[at] == place:
            return (trail[at - 1],)
    return ()


def _sentences(paragraphs: Iterator[str]) -> Iterator[str]:
    """Paragraphs cut behind full stops, so that what matters may stand between any two sentences."""
    for paragraph in paragraphs:
        yield from re.split(r"(?<=[.!?])\s+", paragraph)
