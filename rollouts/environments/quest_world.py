"""The world of a ``quest`` task: which rooms there are, what stands in the way, and where what is needed lies.

Everything is drawn from the task's row, and what lies in a room from (seed, room) alone. Rooms are numbered in the
order in which somebody sees them first who always takes the first exit listed. For every gate the note comes before the
thing, the thing before the gate, and no two things need be carried at a time: so a quest of doors and gifts can be
solved by walking that way once, with one hand.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from rollouts.environments.quest_lexicon import COLOURS, DOORS, GUARDS, SIDE, STEPS, THINGS, WAYS
from rollouts.environments.recall import Fact, in_split

KINDS = ("doors", "gifts", "fetch", "mixed")
_GATE_KINDS = {"doors": ("door",), "gifts": ("gift",), "fetch": ("fetch",), "mixed": ("door", "gift", "fetch")}
MOST_GATES = 12  # with a colour each for twelve doors, four remain to mislead

Cell = tuple[int, int]


@dataclass(frozen=True)
class Gate:
    """Something in the way.

    Attributes:
        kind: ``door`` (a key opens it, a note says which), ``gift`` (a guard wants a thing, a note says which) or
            ``fetch`` (the guard says what; it lies where one has been before).
        name: The door's, or the guard's.
        value: The colour of the key, or the thing.
        room: Where it stands.
        way: Where it leads.
        note: The room of its note; of a ``fetch`` gate, ``room``.
        thing: The room where the key or thing lies.
    """

    kind: str
    name: str
    value: str
    room: int
    way: str
    note: int
    thing: int


@dataclass(frozen=True)
class World:
    """Rooms as a tree.

    Attributes:
        seed: Of the task.
        cells: Where each room lies.
        parents: The room through which each is first reached; of room 0, none: -1.
        gates: In the order in which they can be passed.
        clutter: Share of rooms with a note that does not matter, and half as many with things that do not.
        choices: How many other things of its kind lie beside a thing that is needed.
    """

    seed: int
    cells: tuple[Cell, ...]
    parents: tuple[int, ...]
    gates: tuple[Gate, ...]
    clutter: float
    choices: int

    @cached_property
    def number(self) -> Mapping[Cell, int]:
        """The room on each cell."""
        return {cell: index for index, cell in enumerate(self.cells)}

    @cached_property
    def gates_of(self) -> Mapping[int, tuple[Gate, ...]]:
        """The gates that stand in each room that has one."""
        rooms = dict.fromkeys(gate.room for gate in self.gates)
        return {room: tuple(gate for gate in self.gates if gate.room == room) for room in rooms}

    def ways(self, room: int) -> Iterator[tuple[str, int]]:
        """All ways out of a room, gates included, and where they lead; clockwise from the north."""
        for way in WAYS:
            other = self.number.get(beyond(self.cells[room], way))
            if other is not None and (self.parents[other] == room or self.parents[room] == other):
                yield way, other

    def notes(self, room: int) -> list[tuple[str, str]]:
        """Name and value on each note in a room."""
        rng = random.Random(f"{self.seed}/notes/{room}")
        told = [(gate.name, gate.value) for gate in self.gates if gate.note == room and gate.kind != "fetch"]
        if rng.random() < self.clutter:
            asked = {gate.name for gate in self.gates}
            name = rng.choice([name for name in (*DOORS, *GUARDS) if name not in asked])
            told.append((name, rng.choice(COLOURS if name in DOORS else THINGS)))
        rng.shuffle(told)
        return told

    def things(self, room: int) -> list[str]:
        """What lies in a room before anybody has been there."""
        rng = random.Random(f"{self.seed}/things/{room}")
        needed = [gate.value for gate in self.gates if gate.thing == room]
        pools = [COLOURS if value in COLOURS else THINGS for value in needed]
        if not needed and rng.random() < self.clutter / 2:
            pools = [rng.choice((COLOURS, THINGS))]
        wanted = {gate.value for gate in self.gates}
        lying = list(needed)
        for pool in pools:
            others = [thing for thing in pool if thing not in wanted and thing not in lying]
            lying += rng.sample(others, min(len(others), self.choices if needed else rng.randint(1, self.choices + 1)))
        rng.shuffle(lying)
        return lying


def beyond(cell: Cell, way: str) -> Cell:
    """The cell next to one."""
    return cell[0] + STEPS[way][0], cell[1] + STEPS[way][1]


def clockwise(came_from: str) -> tuple[str, ...]:
    """All ways, beginning after the one that one came from; that one last."""
    first = WAYS.index(came_from) + 1 if came_from else 0
    return WAYS[first:] + WAYS[:first]


def draw_world(
    seed: int, split: str, kind: str, rooms: int, layout: str, gate_count: int, clutter: float, choices: int
) -> World:
    """The world of a task row. ``layout`` is ``corridor`` (one winding line of rooms) or ``maze`` (a tree of them)."""
    rng = random.Random(f"{seed}/world")
    cells, parents = _numbered(*(_corridor(rng, rooms) if layout == "corridor" else _maze(rng, rooms)))
    gates = tuple(_draw_gates(rng, split, kind, gate_count, cells, parents))
    return World(seed, cells, parents, gates, clutter, choices)


def _draw_gates(
    rng: random.Random, split: str, kind: str, count: int, cells: Sequence[Cell], parents: Sequence[int]
) -> Iterator[Gate]:
    kinds = [_GATE_KINDS[kind][index % len(_GATE_KINDS[kind])] for index in range(count)]
    rng.shuffle(kinds)
    used: set[str] = set()
    passed = 0
    for index, gate_kind in enumerate(kinds):
        last = (index + 1) * len(cells) // count - 1
        behind = last if index == count - 1 else rng.randint(max(passed + 2, (passed + last) // 2), last)
        fact = _draw_fact(rng, split, gate_kind, used)
        used |= {fact.key, fact.value}
        room = parents[behind]
        way = next(way for way in WAYS if beyond(cells[room], way) == cells[behind])
        if gate_kind == "fetch":
            thing, note = rng.randrange(0, max(1, behind - 1)), room
        else:
            thing = rng.randrange(max(passed, 1), behind)
            note = rng.randrange(thing)
        yield Gate(gate_kind, fact.key, fact.value, room, way, note, thing)
        passed = behind


def _draw_fact(rng: random.Random, split: str, kind: str, used: set[str]) -> Fact:
    names, values = (DOORS, COLOURS) if kind == "door" else (GUARDS, THINGS)
    while True:
        fact = Fact("door" if kind == "door" else "guard", rng.choice(names), rng.choice(values))
        if fact.key not in used and fact.value not in used and in_split(fact, split):
            return fact


def _maze(rng: random.Random, rooms: int) -> tuple[Cell, dict[Cell, list[Cell]]]:
    """A tree of cells, grown mostly at its newest end."""
    side = min(SIDE, max(4, math.ceil(math.sqrt(2 * rooms))))
    start = (rng.randrange(side), rng.randrange(side))
    edges: dict[Cell, list[Cell]] = {start: []}
    open_ends = [start]
    while len(edges) < rooms:
        place = len(open_ends) - 1 if rng.random() < 0.8 else rng.randrange(len(open_ends))
        cell = open_ends[place]
        free = [n for n in (beyond(cell, way) for way in WAYS) if n not in edges and max(n) < side and min(n) >= 0]
        if not free:
            open_ends[place] = open_ends[-1]
            open_ends.pop()
            continue
        _join(edges, cell, rng.choice(free), open_ends)
    return start, edges


def _join(edges: dict[Cell, list[Cell]], cell: Cell, new: Cell, open_ends: list[Cell]) -> None:
    edges[cell].append(new)
    edges[new] = [cell]
    open_ends.append(new)


def _corridor(rng: random.Random, rooms: int) -> tuple[Cell, dict[Cell, list[Cell]]]:
    """A winding line: a piece of the closed line that runs around a random tree on a grid half as fine."""
    side = min(SIDE // 2, max(2, math.ceil(math.sqrt(rooms) / 2)))
    tree: dict[Cell, list[Cell]] = {(0, 0): []}
    open_ends = [(0, 0)]
    while open_ends:
        cell = open_ends[-1]
        free = [n for n in (beyond(cell, way) for way in WAYS) if n not in tree and max(n) < side and min(n) >= 0]
        if free:
            _join(tree, cell, rng.choice(free), open_ends)
        else:
            open_ends.pop()
    line = [start := (2 * rng.randrange(side), 2 * rng.randrange(side))]
    before, here = start, _around(tree, start)[rng.randrange(2)]
    while len(line) < rooms:
        line.append(here)
        one, other = _around(tree, here)
        before, here = here, other if one == before else one
    edges: dict[Cell, list[Cell]] = {cell: [] for cell in line}
    for one, other in pairwise(line):
        edges[one].append(other)
        edges[other].append(one)
    return start, edges


def _around(tree: Mapping[Cell, Sequence[Cell]], cell: Cell) -> list[Cell]:
    """The two neighbours of a fine cell on the line around a tree of coarse cells.

    Four fine cells make a coarse one. Between two of the same coarse cell the line is open where the tree leaves
    through the side that both touch, and goes across that side instead.
    """
    coarse = (cell[0] // 2, cell[1] // 2)
    found = []
    for way in WAYS:
        near = beyond(cell, way)
        if (near[0] // 2, near[1] // 2) != coarse:
            if (near[0] // 2, near[1] // 2) in tree[coarse]:
                found.append(near)
        else:
            across = STEPS[way][0] == 0  # a step north or south runs along the east or west side
            outward = (cell[0] % 2 * 2 - 1, 0) if across else (0, cell[1] % 2 * 2 - 1)
            if (coarse[0] + outward[0], coarse[1] + outward[1]) not in tree[coarse]:
                found.append(near)
    return found


def _numbered(start: Cell, edges: Mapping[Cell, Sequence[Cell]]) -> tuple[tuple[Cell, ...], tuple[int, ...]]:
    """Cells in the order in which they are first seen by who always takes the first exit listed, and their parents."""
    cells: list[Cell] = []
    parents: list[int] = []
    waiting: list[tuple[Cell, int, str]] = [(start, -1, "")]
    while waiting:
        cell, parent, came_from = waiting.pop()
        cells.append(cell)
        parents.append(parent)
        index = len(cells) - 1
        for way in reversed(clockwise(came_from)):
            if way != came_from and beyond(cell, way) in edges[cell]:
                waiting.append((beyond(cell, way), index, WAYS[(WAYS.index(way) + 2) % 4]))
    return tuple(cells), tuple(parents)
