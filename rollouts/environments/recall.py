"""``recall``: pages that hold facts arrive one after the other; at the end a question known from the start is asked.

Task rows have ``seed``, ``split``, ``kind`` and ``words`` (length of all pages together). Four kinds:

- ``find``: one fact, on one page.
- ``latest``: a fact that changes ``changes`` times; its latest value.
- ``collect``: ``items`` facts, each on a page of its own.
- ``count``: how many letters came for someone.

Every page is made when it is read, from (seed, page) alone: a document of a billion words takes no memory. Splits share
no task: which (key, value) pairs may be asked for depends on the split.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rollouts.environment import Environment, Observation
from rollouts.environments.lexicon import FILLER, KINDS, PEOPLE
from rollouts.environments.real_text import paragraphs
from summarization.messages import Message
from summarization.resolve import UserError, closest
from summarization.trigger import uniform_draw

TASK_KINDS = ("find", "latest", "collect", "count")
SPLITS = ("train", "eval", "test")
_KIND_NAMES = sorted(KINDS)
_SPLIT_SHARES = {"train": (0.0, 0.6), "eval": (0.6, 0.8), "test": (0.8, 1.0)}


@dataclass(frozen=True)
class Fact:
    """One fact: what kind, about what, and what it says."""

    kind: str
    key: str
    value: str

    @property
    def statement(self) -> str:
        """The fact in the tiny style."""
        return KINDS[self.kind].tiny.format(key=self.key, value=self.value)


def in_split(fact: Fact, split: str) -> bool:
    """Whether the fact may be asked for in ``split``."""
    low, high = _SPLIT_SHARES[split]
    return low <= uniform_draw("split", fact.kind, fact.key, fact.value) < high


@dataclass(frozen=True)
class Plan:
    """What a task asks and where its facts stand, drawn from its row alone.

    Attributes:
        facts: The facts that matter, in page order.
        pages: The page of each of ``facts``.
        page_count: Pages of the document.
        questions: One question, or several to be answered together.
        answers: What a right answer holds.
    """

    facts: tuple[Fact, ...]
    pages: tuple[int, ...]
    page_count: int
    question: str
    answers: tuple[str, ...]


def tasks(split: str, count: int, words: int | tuple[int, int], kinds: Sequence[str], seed: int = 0) -> Iterator[dict]:
    """Task rows of a split, reproducible: row i depends on (split, seed, i) alone.

    Args:
        split: One of ``train``, ``eval``, ``test``.
        count: How many rows.
        words: Length of each document, or a range to draw from.
        kinds: Kinds of task, in turn.
        seed: Of the run.

    Raises:
        UserError: An unknown split or kind.
    """
    for name, known, what in ((split, SPLITS, "split"), *((kind, TASK_KINDS, "kind") for kind in kinds)):
        if name not in known:
            raise UserError(f"recall: {what} is '{name}'; {closest(name, list(known))}")
    for index in range(count):
        rng = random.Random(f"{split}/{seed}/{index}")
        length = words if isinstance(words, int) else rng.randint(*words)
        yield {"seed": rng.getrandbits(48), "split": split, "kind": kinds[index % len(kinds)], "words": length}


class Recall(Environment):
    """See the module's docstring.

    Args:
        page_words: Words on a page.
        facts_per_page: Facts on a page that the task does not need.
        style: ``tiny`` (closed vocabulary, one way to say each thing) or ``prose`` (English sentences).
        filler: What stands between facts: ``sentences``, or ``python`` for real text of Python's documentation.
        items: Facts to collect in ``collect``.
        changes: How often a fact changes in ``latest``.
        asked: Where the question stands: ``both`` (known from the start), ``first``, or ``last`` (only at the end).
    """

    def __init__(
        self,
        page_words: int = 40,
        facts_per_page: int = 4,
        style: str = "tiny",
        filler: str = "sentences",
        items: int = 2,
        changes: int = 2,
        asked: str = "both",
    ) -> None:
        for name, value, known in (
            ("style", style, ("tiny", "prose")),
            ("filler", filler, ("sentences", "python")),
            ("asked", asked, ("first", "last", "both")),
        ):
            if value not in known:
                raise UserError(f"environment_kwargs: {name} is '{value}'; {closest(value, list(known))}")
        for name, number, least in (
            ("page_words", page_words, 1),
            ("facts_per_page", facts_per_page, 0),
            ("items", items, 1),
            ("changes", changes, 1),
        ):
            if not isinstance(number, int) or number < least:
                raise UserError(f"environment_kwargs: {name} is {number!r}, must be a whole number of at least {least}")
        self.page_words, self.facts_per_page = page_words, facts_per_page
        self.style, self.filler, self.asked = style, filler, asked
        self.items, self.changes = items, changes
        self._page = 0
        self._answer: str | None = None

    def reset(self, task: Mapping[str, Any]) -> Observation:
        _check_row(task)
        self.seed = int(task["seed"])
        self.plan = self._draw(str(task["split"]), str(task["kind"]), int(task["words"]))
        self._reserved = {fact.key for fact in self.plan.facts}
        if self.style == "tiny":
            system, wait = "read and answer", "read on"
        else:
            system = "You read a long document page by page and answer one question about it at the end."
            wait = "The question comes after the last page."
        question = wait if self.asked == "last" else self.plan.question
        return Observation((Message("system", system), Message("user", question)))

    def advance(self, act: str | None) -> Observation:
        if act is not None:
            self._answer = act
            return Observation(done=True)
        if self._page < self.plan.page_count:
            self._page += 1
            return Observation((Message("user", self.page(self._page - 1)),))
        if self.asked != "first":
            ending = self.plan.question
        else:
            ending = "answer" if self.style == "tiny" else "That was the last page. Answer the question now."
        return Observation((Message("user", ending),), needs_act=True)

    def reward(self) -> float | None:
        """The share of answers given; 0 for an answer that names anything else of the same kind."""
        if self._answer is None:
            return 0.0
        words = set(re.findall(r"\w+", self._answer.lower()))
        kind = self.plan.facts[0].kind if self.plan.facts else ""
        pool = set(KINDS[kind].values) if kind in KINDS else {word for word in words if word.isdigit()}
        if (words & pool) - set(self.plan.answers):
            return 0.0
        return sum(answer in words for answer in self.plan.answers) / len(self.plan.answers)

    def task_text(self) -> str:
        return "" if self.asked == "last" else self.plan.question

    def needed(self) -> Sequence[str]:
        read = [f for f, page in zip(self.plan.facts, self.plan.pages, strict=True) if page < self._page]
        latest = {fact.key: fact for fact in read if fact.kind in KINDS}
        return [fact.statement if self.style == "tiny" else fact.value for fact in latest.values()]

    def metrics(self) -> Mapping[str, float]:
        return {"success": float(self.reward() == 1.0), "pages": self._page}

    def page(self, index: int) -> str:
        """Page ``index`` of the document, made from (seed, index) alone."""
        rng = random.Random(f"{self.seed}/{index}")
        mine = [f for f, page in zip(self.plan.facts, self.plan.pages, strict=True) if page == index]
        facts = [self._say(rng, fact) for fact in mine]
        facts += [self._say(rng, self._distractor(rng)) for _ in range(self.facts_per_page)]
        room = self.page_words - sum(len(sentence.split()) for sentence in facts)
        sentences = facts + list(self._filling(rng, room))
        rng.shuffle(sentences)
        return " ".join(sentences)

    def _draw(self, split: str, kind: str, words: int) -> Plan:
        rng = random.Random(f"{self.seed}/plan")
        page_count = max(1, round(words / self.page_words)) if words else 0
        if kind == "count":
            return self._draw_count(rng, page_count)
        repeats = {"find": 1, "latest": self.changes + 1, "collect": self.items}[kind]
        facts: list[Fact] = []
        fact_kind = rng.choice(_KIND_NAMES)
        while len(facts) < repeats:
            key = facts[0].key if facts and kind == "latest" else rng.choice(KINDS[fact_kind].keys)
            fact = Fact(fact_kind, key, rng.choice(KINDS[fact_kind].values))
            fresh = fact.value not in [f.value for f in facts] and (
                kind == "latest" or key not in [f.key for f in facts]
            )
            if fresh and in_split(fact, split):
                facts.append(fact)
        spread = rng.sample(range(page_count), repeats) if page_count >= repeats else [0] * repeats
        template = KINDS[fact_kind].question if self.style == "tiny" else KINDS[fact_kind].prose_question
        asked = facts if kind == "collect" else facts[:1]
        question = " ".join(template.format(key=f.key, Key=f.key.capitalize()) for f in asked)
        answers = [f.value for f in facts] if kind == "collect" else [facts[-1].value]
        return Plan(tuple(facts), tuple(sorted(spread)), page_count, question, tuple(answers))

    def _draw_count(self, rng: random.Random, page_count: int) -> Plan:
        key = rng.choice(PEOPLE)
        pages = sorted(rng.sample(range(page_count), rng.randint(0, min(9, page_count))))
        question = f"how many letters came for {key} ?"
        if self.style == "prose":
            question = f"How many letters came for {key.capitalize()}? Answer with a number."
        return Plan(
            tuple(Fact("letter", key, "") for _ in pages), tuple(pages), page_count, question, (str(len(pages)),)
        )

    def _distractor(self, rng: random.Random) -> Fact:
        kind = rng.choice(_KIND_NAMES)
        while (key := rng.choice(KINDS[kind].keys)) in self._reserved:
            continue
        return Fact(kind, key, rng.choice(KINDS[kind].values))

    def _say(self, rng: random.Random, fact: Fact) -> str:
        if fact.kind == "letter":
            return (
                f"a letter came for {fact.key} ."
                if self.style == "tiny"
                else f"A letter came for {fact.key.capitalize()}."
            )
        if self.style == "tiny":
            return fact.statement + " ."
        value = fact.value.capitalize() if fact.kind == "place" else fact.value
        template = rng.choice(KINDS[fact.kind].prose)
        return template.format(key=fact.key, Key=fact.key.capitalize(), value=value, Value=value)

    def _filling(self, rng: random.Random, room: int) -> Iterator[str]:
        while room > 0:
            if self.filler == "python":
                sentence = rng.choice(paragraphs())
            elif self.style == "tiny":
                sentence = rng.choice(FILLER) + " ."
            else:
                sentence = rng.choice(FILLER).capitalize() + "."
            words = sentence.split()
            if len(words) > room:
                sentence = " ".join(words[:room])
            room -= len(words)
            yield sentence


def _check_row(task: Mapping[str, Any]) -> None:
    """Refuse a row that lacks a column or holds a value of the wrong kind."""
    for column, what in (("seed", "a whole number"), ("words", "a whole number"), ("split", "text"), ("kind", "text")):
        if column not in task or task[column] is None:
            raise UserError(
                f"environment 'recall': the task row has no column '{column}' ({what}); it has {sorted(task)}"
            )
    for column in ("seed", "words"):
        if not isinstance(task[column], int) or task[column] < 0:
            raise UserError(f"environment 'recall': column '{column}' is {task[column]!r}, must be a whole number >= 0")
    for column, known in (("split", SPLITS), ("kind", TASK_KINDS)):
        if task[column] not in known:
            raise UserError(
                f"environment 'recall': column '{column}' is {task[column]!r}; "
                f"{closest(str(task[column]), list(known))}"
            )
