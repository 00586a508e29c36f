"""A simulator of small worlds: people go to places, take and drop objects there, and hand them to one another.

A story is a list of events in the order in which they happen, each of them possible when it happens. What follows from
them is kept by :class:`World`, event by event. The places and objects are those of bAbI, for its answers are compared
with a fixed set of labels.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

PLACES = ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")
OBJECTS = ("apple", "football", "milk")
WEIGHTS = {"move": 3, "take": 2, "drop": 1, "give": 1}
"""How likely each kind of event is, among those that a story has and that are possible."""

_WORDINGS = {
    "move": (
        "{person} went to the {place}.",
        "{person} moved to the {place}.",
        "{person} travelled to the {place}.",
        "{person} walked over to the {place}.",
    ),
    "take": (
        "{person} took the {object} there.",
        "{person} picked up the {object} there.",
        "{person} grabbed the {object} there.",
    ),
    "drop": (
        "{person} dropped the {object} there.",
        "{person} put down the {object} there.",
        "{person} left the {object} there.",
    ),
    "give": (
        "{person} gave the {object} to {receiver}.",
        "{person} handed the {object} to {receiver}.",
        "{person} passed the {object} to {receiver}.",
    ),
}


@dataclass(frozen=True)
class Event:
    """One thing that happens, and the sentence that says so.

    Attributes:
        kind: ``move``, ``take``, ``drop`` or ``give``.
        place: Where a move leads; empty for the other kinds.
        object: What is taken, dropped or given; empty for a move.
        receiver: To whom it is given; empty for the other kinds.
    """

    kind: str
    person: str
    place: str = ""
    object: str = ""
    receiver: str = ""
    text: str = ""


@dataclass
class World:
    """What is known after the events so far.

    Attributes:
        place_of: Where each person is; without those who did not go anywhere yet.
        holder_of: Who carries each object; without those that lie somewhere or were never touched.
        trail_of: Where each object has been, in order, no place twice in a row.
    """

    place_of: dict[str, str] = field(default_factory=dict)
    holder_of: dict[str, str] = field(default_factory=dict)
    trail_of: dict[str, list[str]] = field(default_factory=dict)

    def happen(self, event: Event) -> None:
        """Let one event come to pass."""
        if event.kind == "move":
            self.place_of[event.person] = event.place
            for carried in self.held_by(event.person):
                self.trail_of[carried].append(event.place)
        elif event.kind == "take":
            self.holder_of[event.object] = event.person
            # It lies where its last carrier dropped it; only the first time its place comes from who takes it.
            self.trail_of.setdefault(event.object, [self.place_of[event.person]])
        elif event.kind == "drop":
            del self.holder_of[event.object]
        else:
            self.holder_of[event.object] = event.receiver

    def held_by(self, person: str) -> tuple[str, ...]:
        """What a person carries, by the order of ``OBJECTS``."""
        return tuple(each for each in OBJECTS if self.holder_of.get(each) == person)

    def possible(self, people: Sequence[str]) -> dict[str, list[Event]]:
        """All that may happen next, by kind."""
        found: dict[str, list[Event]] = {kind: [] for kind in WEIGHTS}
        for person in people:
            here = self.place_of.get(person)
            found["move"] += [Event("move", person, place=place) for place in PLACES if place != here]
            if here is None:
                continue
            for thing in OBJECTS:
                holder = self.holder_of.get(thing)
                if holder is None and self.trail_of.get(thing, [here])[-1] == here:
                    found["take"].append(Event("take", person, object=thing))
                elif holder == person:
                    found["drop"].append(Event("drop", person, object=thing))
                    found["give"] += [
                        Event("give", person, object=thing, receiver=other)
                        for other in people
                        if other != person and self.place_of.get(other) == here
                    ]
        return found


def story(rng: random.Random, people: Sequence[str], kinds: Sequence[str], events: int) -> tuple[Event, ...]:
    """Events that can happen one after the other.

    Args:
        kinds: Which kinds of event there may be; with ``move`` among them a next one is always possible.
        events: How many.
    """
    world = World()
    told: list[Event] = []
    while len(told) < events:
        possible = {kind: some for kind, some in world.possible(people).items() if kind in kinds and some}
        (kind,) = rng.choices(list(possible), [WEIGHTS[kind] for kind in possible])
        bare = rng.choice(possible[kind])
        wording = rng.choice(_WORDINGS[kind])
        text = wording.format(person=bare.person, place=bare.place, object=bare.object, receiver=bare.receiver)
        event = Event(kind, bare.person, bare.place, bare.object, bare.receiver, text)
        world.happen(event)
        told.append(event)
    return tuple(told)
