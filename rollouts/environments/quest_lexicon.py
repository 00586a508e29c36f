"""The words and sentences of ``quest``, in both styles; the closed vocabulary of the tiny one.

Each sentence is written once, as a template: the environment fills it in, and whoever plays by script reads with the
pattern made from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import Formatter

from rollouts.environments.lexicon import OBJECTS, PEOPLE
from summarization.prompts import TINY

WAYS = ("north", "east", "south", "west")  # clockwise
STEPS = {"north": (0, 1), "east": (1, 0), "south": (0, -1), "west": (-1, 0)}
DOORS = tuple(
    """badger bear beaver bison boar camel cat cobra crane crow deer dove eagle falcon fox frog goat goose hare hawk
heron horse lion lizard lynx mole moose mouse otter owl panther raven salmon seal spider stork swan tiger toad
wolf""".split()
)
COLOURS = tuple(
    "red blue green white black grey brown pink amber violet golden silver copper ivory olive scarlet".split()
)
GUARDS = tuple(PEOPLE[:40])
THINGS = tuple(OBJECTS[:40])
NAMES = frozenset((*DOORS, *GUARDS))
VALUES = {**dict.fromkeys(DOORS, frozenset(COLOURS)), **dict.fromkeys(GUARDS, frozenset(THINGS))}
VERBS = ("go", "take", "drop", "unlock", "give", "look")
GIVE_UP = ("give", "up")
SIDE = 100  # rooms are named by two numbers below this, so that there are at most SIDE * SIDE


@dataclass(frozen=True)
class Sentence:
    """One thing that a view says. Fields in braces; ``{list}`` holds any number of words."""

    tiny: str
    prose: str

    def say(self, style: str, **fields: str) -> str:
        """The sentence in a style."""
        if style == "tiny":
            return self.tiny.format(**fields)
        named = {key: spoken(value) if key == "value" else value for key, value in fields.items()}
        return self.prose.format(**{key: shown(value) for key, value in named.items()})

    def found(self, text: str) -> Iterator[tuple[int, dict[str, list[str]]]]:
        """Where it stands in a text of either style, and the words of its fields."""
        for pattern in self._patterns:
            for match in pattern.finditer(text):
                yield match.start(), {field: words_of(value) for field, value in match.groupdict().items()}

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], ...]:
        return tuple(dict.fromkeys((_pattern(self.tiny, r"[\w ]+"), _pattern(self.prose, r"[\w ,]+"))))


def spoken(word: str) -> str:
    """A colour's key, as prose calls it; any other thing as it is."""
    return f"{word} key" if word in COLOURS else word


def shown(word: str) -> str:
    """A person's name with its capital letter."""
    return word.capitalize() if word in GUARDS else word


def listed(style: str, words: Sequence[str]) -> str:
    """Several words as one field."""
    return (
        " ".join(words) or "none" if style == "tiny" else ", ".join(shown(spoken(word)) for word in words) or "nothing"
    )


def words_of(field: str) -> list[str]:
    """The inverse of :func:`listed`."""
    words = re.findall(r"\w+", field.lower())
    return [word for word in words if word not in ("key", "none", "nothing")]


def _pattern(template: str, several: str) -> re.Pattern[str]:
    parts: list[str] = []
    for text, field, _, _ in Formatter().parse(template):
        parts.append(re.escape(text))
        if field is not None:
            parts.append(f"(?P<{field}>{several if field == 'list' else r'[A-Za-z0-9]+(?: key)?'})")
    return re.compile(r"(?<!\w)" + "".join(parts))


AT = Sentence("at {x} {y} .", "You are in room {x}-{y}.")
NOTE_DOOR = Sentence("note {name} {value} .", "A note says that the {name} door opens with the {value}.")
NOTE_GUARD = Sentence("note {name} {value} .", "A note says that {name} lets nobody pass without the {value}.")
SAYS = Sentence("says {name} {value} .", "{name} says: you may pass if you bring me the {value}.")
HERE = Sentence("here {list} .", "On the floor: {list}.")
DOOR = Sentence("door {name} {way} .", "The {name} door to the {way} is locked.")
GUARD = Sentence("guard {name} {way} .", "{name} blocks the way {way}.")
HOLD = Sentence("hold {list} .", "In your hands: {list}.")
EXITS = Sentence("exits {list} .", "Exits: {list}.")
QUEST = Sentence("quest {list} .", "Your quest: get past each of these, {list}.")
LEFT = Sentence("left {list}", "Still in the way: {list}.")
NOTHING_HAPPENS = Sentence("no .", "Nothing happens.")

RULES = Sentence(
    "quest",
    "You walk through rooms, one act a turn, until every locked door and every guard of your quest is passed. A door "
    "opens with the one key that a note somewhere names; any other key breaks in its lock, and the quest is lost. A "
    "guard lets you pass for the one thing that a note names or that the guard asks for; anything else, and the quest "
    "is lost. Your hands hold {list}. Exits are told clockwise, the way that you came from last. Answer with one line: "
    "go WAY, take THING, drop THING, unlock DOOR KEY, give PERSON THING, look, or give up.",
)


def quest_words() -> list[str]:
    """The closed vocabulary: every word that the tiny style, its acts and its summaries use, once, in a fixed order."""
    sentences = (AT, NOTE_DOOR, SAYS, HERE, DOOR, GUARD, HOLD, EXITS, QUEST, LEFT, NOTHING_HAPPENS)
    templates = [TINY.request, TINY.state, TINY.carry, TINY.left, *(sentence.tiny for sentence in sentences)]
    plain = [word for text in templates for word in re.sub(r"\{\w+\}", " ", text).split()]
    numbers = [str(number) for number in range(SIDE)]
    names = [*WAYS, *COLOURS, *DOORS, *GUARDS, *THINGS]
    return list(dict.fromkeys([*plain, *VERBS, "up", ".", "none", "unknown", *numbers, *names]))
