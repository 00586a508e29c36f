"""``mrcr``: a long conversation in which one request is made several times; reproduce the reply to the i-th of them.

After OpenAI's MRCR: 2, 4 or 8 equal requests (here 4 by default), among others that differ from them in the form or in
the topic alone; the answer begins with a random string that the question gives. What differs: replies are short and put
together from our own phrases, not written by a model.

- ``official``: 0 unless the answer begins with the random string; else the ratio of ``difflib.SequenceMatcher``, with
  its heuristic for frequent characters on, and with the string taken off both. In texts of 200 characters or more this
  heuristic makes the ratio of a nearly right answer too low.
- ``strict``: the same ratio without that heuristic and without regard to white space at the ends; 0 where it is less
  than ``LEAST``, and where the answer is as close or closer to the reply to another of the equal requests. So neither
  a dump nor a wrong reply gets anything, though all replies share some of their phrases.

In the twin ``absent`` (:mod:`eval.tasks.twins`) the request is made less often than the question says: the reply asked
for and those after it are not there. ``contradicted`` does not apply: no reply takes back another.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, ClassVar

from eval.tasks.base import Ask, Task, depths_of, scattered
from eval.tasks.file_scores import mrcr_official
from eval.tasks.match import UNKNOWN
from eval.tasks.twins import ABSENT, abstention, allowed
from rollouts.environments.lexicon import GOODS, OBJECTS, OWNERS, PLACES
from summarization.resolve import UserError

LEAST = 0.6
"""Two different replies to one request reach 0.55 at most, in 400 pairs of six lines."""
PREFIX_LENGTH = 10
FORMS = ("a short poem", "a short story", "a letter", "a song", "a riddle", "a speech", "a blog post", "a news report")
TOPICS = """penguins owls bridges clouds gardens trains lighthouses mountains rivers kites spiders whales dreams shadows
candles orchards islands snowmen bicycles robots wizards pirates dragons dolphins""".split()
_REPLY = re.compile(r"(?:\S+\s+){30}")
"""What is as long as a reply of three lines is one, whatever else it says."""
_QUALITIES = (
    "quiet golden patient restless gentle stubborn silver hungry clever weary cheerful hollow proud tender".split()
)
_TIMES = "at dawn|by noon|at dusk|after midnight|in early spring|before the harvest|all winter long|on Sundays".split(
    "|"
)
_DEEDS = "waited for|laughed about|whispered to|dreamed of|argued about|wrote to|sang of|turned away from".split("|")
_PHRASES = (
    "The {quality} {topic} of {place} {deed} the {owner} {time}",
    "{time} the {owner} gave a {quality} {object} to all {topic} near {place}",
    "A {quality} {owner} from {place} {deed} {topic} and sold {goods} {time}",
    "No {object} in {place} was as {quality} as those {topic}",
    "Whoever {deed} {topic} kept a {object} and some {goods} in {place}",
    "{topic} and {goods}, said the {owner}, make {place} {quality} {time}",
    "They hid the {object} under the {goods} {time}, and the {topic} {deed} it",
    "How {quality} is {place} {time} when {topic} bring {goods} to the {owner}",
)


class Requests(Task):
    """See the module's docstring. Options: ``needles``, how many requests are equal, and ``lines`` of each reply."""

    name = "mrcr"
    about = "MRCR-like: reproduce the i-th of several replies to the same request in a long conversation"
    defaults: ClassVar[Mapping[str, Any]] = {"needles": 4, "lines": 6, **ABSENT}
    system = "You read a long conversation page by page and answer one question about it at the end."
    joiner = "\n\n"

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask)
        for option, least in (("needles", 1), ("lines", 2)):
            if self.options[option] < least:
                raise UserError(f"task 'mrcr': {option} is {self.options[option]}, must be at least {least}")
        rng = self.draw("needles")
        self._form, self._topic = rng.choice(FORMS), rng.choice(TOPICS)
        replies: dict[str, None] = {}
        while len(replies) < self.options["needles"]:
            replies[_reply(rng, self._topic, self.options["lines"])] = None
        self._replies = list(replies)
        self._which = rng.randrange(len(replies))
        self._prefix = "".join(rng.choices(string.ascii_letters + string.digits, k=PREFIX_LENGTH))
        self._read = 0

    @property
    def question(self) -> str:
        what = f"{self._form.partition(' ')[2]} about {self._topic}"
        often = "several times " if len(self._replies) > 1 else ""
        return (
            f"In the conversation the user asks {often}for {self._form} about {self._topic}. "
            f"Reproduce the {_ordinal(self._which + 1)} {what} that the assistant wrote, word for word. "
            f"Put {self._prefix} directly before it. Write nothing else.{allowed(self.options)}"
        )

    def pieces(self) -> Iterator[str]:
        rng = self.draw("places")
        depths = depths_of(rng, len(self._replies))
        there = self._which if self.options["absent"] else len(self._replies)
        turns, depths = [_turn(self._form, self._topic, reply) for reply in self._replies[:there]], depths[:there]
        for piece, which in scattered(turns, depths, self._others(), self.ask.tokens, self.ask.count):
            yield piece
            # Only now: whoever makes pages takes a piece before the page without it goes out.
            self._read += which is not None

    def answers(self) -> Sequence[str]:
        return (UNKNOWN,) if self.options["absent"] else (self._prefix + self._replies[self._which],)

    def scores(self, answer: str) -> Mapping[str, float]:
        if self.options["absent"]:
            return abstention(answer.strip().removeprefix(self._prefix), _REPLY)
        others = [reply for reply in self._replies if reply != self._replies[self._which]]
        return {
            "official": mrcr_official(answer, self.answers()[0], self._prefix),
            "strict": strict(answer, self._replies[self._which], self._prefix, others),
        }

    def needed(self) -> Sequence[str]:
        return (self._replies[self._which],) if self._read > self._which else ()

    def _others(self) -> Iterator[str]:
        rng = self.draw("others")
        while True:
            form, topic = rng.choice(FORMS), rng.choice(TOPICS)
            if (form, topic) != (self._form, self._topic):
                yield _turn(form, topic, _reply(rng, topic, self.options["lines"]))


def strict(answer: str, wanted: str, prefix: str, others: Sequence[str]) -> float:
    """See the module's docstring; ``wanted`` and ``others`` are without the prefix."""
    answer = answer.strip()
    if not answer.startswith(prefix):
        return 0.0
    answer = answer.removeprefix(prefix).strip()
    found = _ratio(answer, wanted)
    if found < LEAST or any(_ratio(answer, other) >= found for other in others):
        return 0.0
    return found


def _ratio(answer: str, wanted: str) -> float:
    matcher = SequenceMatcher(None, answer, wanted, autojunk=False)
    # The bounds are cheap, the ratio of a dump is not.
    if matcher.real_quick_ratio() < LEAST or matcher.quick_ratio() < LEAST:
        return 0.0
    return matcher.ratio()


def _turn(form: str, topic: str, reply: str) -> str:
    return f"User: write {form} about {topic}\nAssistant: {reply}"


def _reply(rng: random.Random, topic: str, lines: int) -> str:
    """So many lines of phrases, no two of them alike in one reply while there are enough."""
    phrases = [phrase for _ in range(-(-lines // len(_PHRASES))) for phrase in rng.sample(_PHRASES, len(_PHRASES))]
    said = []
    for phrase in phrases[:lines]:
        line = phrase.format(
            topic=topic,
            quality=rng.choice(_QUALITIES),
            place=rng.choice(PLACES).capitalize(),
            deed=rng.choice(_DEEDS),
            owner=rng.choice(OWNERS),
            object=rng.choice(OBJECTS),
            goods=rng.choice(GOODS),
            time=rng.choice(_TIMES),
        )
        said.append(f"{line[0].upper()}{line[1:]}.")
    return "\n".join(said)


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
