"""``quest``: a world of rooms, doors, keys, notes and guards, walked through one short act a turn.

Task rows have ``seed``, ``split``, ``kind`` and ``rooms`` (10 to 10,000). Every kind puts gates in the way:

- ``doors``: locked; a note read long before says which colour of key opens each.
- ``gifts``: guards who want a thing; a note read long before says which.
- ``fetch``: guards who ask for a thing that was seen long before, and lies there still.
- ``mixed``: all three.

A wrong key breaks in the lock and a wrong gift offends, either for good, so nothing is won by trying; and where the
right key lies, others lie beside it, so nothing is won by taking everything. The reward is the share of gates that are
open at the end. Splits share no task: which (name, value) pairs may be asked for depends on the split.

A view tells everything about the room and the hands, so what must be remembered is what notes said and where things
lay. Left out on purpose: acts in any other form than the plain ones of ``quest_lexicon``, such as tool calls.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rollouts.environment import Environment, Observation
from rollouts.environments import quest_lexicon as say
from rollouts.environments.quest_lexicon import COLOURS, GIVE_UP, WAYS, listed
from rollouts.environments.quest_world import KINDS, MOST_GATES, Gate, clockwise, draw_world
from rollouts.environments.recall import SPLITS
from summarization.messages import Message
from summarization.resolve import UserError, closest

FEWEST_ROOMS, MOST_ROOMS = 10, 10_000
# Words that people put into a command and that say nothing.
_FILLING = frozenset("the a an key to door with by".split())


def tasks(split: str, count: int, rooms: int | tuple[int, int], kinds: Sequence[str], seed: int = 0) -> Iterator[dict]:
    """Task rows of a split, reproducible: row i depends on (split, seed, i) alone.

    Args:
        split: One of ``train``, ``eval``, ``test``.
        count: How many rows.
        rooms: Rooms of each world, or a range to draw from.
        kinds: Kinds of task, in turn.
        seed: Of the run.

    Raises:
        UserError: An unknown split or kind, or a number of rooms that no world has.
    """
    for index in range(count):
        rng = random.Random(f"quest/{split}/{seed}/{index}")
        size = rooms if isinstance(rooms, int) else rng.randint(*rooms)
        row = {"seed": rng.getrandbits(48), "split": split, "kind": kinds[index % len(kinds)], "rooms": size}
        _check_row(row)
        yield row


def words_of_act(act: str) -> tuple[str, ...]:
    """The words of a command that say something, from the last line that has any."""
    lines = [words for line in act.lower().splitlines() if (words := re.findall(r"\w+", line))]
    return tuple(word for word in lines[-1] if word not in _FILLING) if lines else ()


class Quest(Environment):
    """See the module's docstring.

    Args:
        layout: ``corridor`` (one winding line of rooms) or ``maze`` (a tree of them, with dead ends).
        gates: Doors and guards in the way, 1 to 12, and at most a quarter of the rooms.
        hands: How many things can be carried at a time; one is always enough.
        clutter: Share of rooms with a note that does not matter, and half as many with things that do not.
        choices: How many other things of its kind lie beside one that is needed.
        style: ``tiny`` (closed vocabulary, telegrams) or ``prose`` (English sentences).
    """

    def __init__(
        self,
        layout: str = "corridor",
        gates: int = 3,
        hands: int = 1,
        clutter: float = 0.3,
        choices: int = 3,
        style: str = "tiny",
    ) -> None:
        for name, value, known in (("layout", layout, ("corridor", "maze")), ("style", style, ("tiny", "prose"))):
            if value not in known:
                raise UserError(f"environment_kwargs: {name} is '{value}'; {closest(str(value), list(known))}")
        for name, number, least, most in (
            ("gates", gates, 1, MOST_GATES),
            ("hands", hands, 1, 99),
            ("choices", choices, 0, 4),
        ):
            if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
                raise UserError(
                    f"environment_kwargs: {name} is {number!r}, must be a whole number from {least} to {most}"
                )
        if not isinstance(clutter, int | float) or not 0.0 <= clutter <= 1.0:
            raise UserError(f"environment_kwargs: clutter is {clutter!r}, must be a number from 0 to 1")
        self.layout, self.gates, self.hands = layout, gates, hands
        self.clutter, self.choices, self.style = float(clutter), choices, style

    def reset(self, task: Mapping[str, Any]) -> Observation:
        _check_row(task)
        rooms = task["rooms"]
        if self.gates * 4 > rooms:
            raise UserError(
                f"environment_kwargs: gates is {self.gates}, but a world of {rooms} rooms has at most {rooms // 4}"
            )
        self.world = draw_world(
            task["seed"], task["split"], task["kind"], rooms, self.layout, self.gates, self.clutter, self.choices
        )
        self.room, self.came_from = 0, ""
        self.held: list[str] = []
        self.open: set[str] = set()
        self.read: dict[str, str] = {}
        self.seen = {0}
        self.over = ""
        self.acts = self.moves = self.invalid = self.repeated = 0
        self._lying: dict[int, list[str]] = {}
        self._tried: set[int] = set()
        # Twice a walk through all rooms and back, and for each thing to fetch two more: far more than is needed.
        errands = sum(gate.kind == "fetch" for gate in self.world.gates)
        self.most_acts = rooms * (4 + 4 * errands) + 4 * self.gates
        rules = say.RULES.say(self.style, list=f"{self.hands} {'thing' if self.hands == 1 else 'things'}")
        return Observation((Message("system", rules), Message("user", self.task_text())))

    def advance(self, act: str | None) -> Observation:
        if self.over:
            raise RuntimeError("quest: an act came after the quest was over")
        failed = False
        if act is not None:
            self.acts += 1
            words = words_of_act(act)
            state = hash((words, self.room, self.came_from, tuple(self.held), len(self.open), len(self.read)))
            self.repeated += state in self._tried
            self._tried.add(state)
            failed = not self._do(words)
            self.invalid += failed
            if len(self.open) == len(self.world.gates):
                self.over = "solved"
            elif not self.over and self.acts >= self.most_acts:
                self.over = "out_of_acts"
            if self.over:
                return Observation(done=True)
        refusal = say.NOTHING_HAPPENS.say(self.style) + " " if failed else ""
        return Observation((Message("user", refusal + self.view()),), needs_act=True)

    def reward(self) -> float | None:
        """The share of gates that are open."""
        return len(self.open) / len(self.world.gates)

    def task_text(self) -> str:
        return say.QUEST.say(self.style, list=listed(self.style, [gate.name for gate in self.world.gates]))

    def needed(self) -> Sequence[str]:
        facts = [gate for gate in self.world.gates if gate.name in self.read and gate.name not in self.open]
        return [f"{gate.name} {gate.value}" if self.style == "tiny" else gate.value for gate in facts]

    def keep(self) -> str:
        """The gates that are still closed: the work that remains."""
        return say.LEFT.say(
            self.style, list=listed(self.style, [g.name for g in self.world.gates if g.name not in self.open])
        )

    def metrics(self) -> Mapping[str, float]:
        return {
            "success": float(self.over == "solved"),
            "gates_open": len(self.open),
            "moves": self.moves,
            "rooms_seen": len(self.seen),
            "invalid_acts": self.invalid,
            "repeated_acts": self.repeated,
            "spoiled": float(self.over == "spoiled"),
            "gave_up": float(self.over == "gave_up"),
            "out_of_acts": float(self.over == "out_of_acts"),
        }

    def view(self) -> str:
        """What is told of the room and the hands. What it says of gates that are asked for counts as read."""
        style = self.style
        x, y = self.world.cells[self.room]
        told = [say.AT.say(style, x=str(x), y=str(y))]
        asked = {gate.name for gate in self.world.gates}
        for name, value in self.world.notes(self.room):
            sentence = say.NOTE_DOOR if value in COLOURS else say.NOTE_GUARD
            told.append(sentence.say(style, name=name, value=value))
            if name in asked:
                self.read[name] = value
        if self._here():
            told.append(say.HERE.say(style, list=listed(style, self._here())))
        for gate in self._closed_here():
            told.append((say.DOOR if gate.kind == "door" else say.GUARD).say(style, name=gate.name, way=gate.way))
            if gate.kind == "fetch":
                told.append(say.SAYS.say(style, name=gate.name, value=gate.value))
                self.read[gate.name] = gate.value
        told.append(say.HOLD.say(style, list=listed(style, self.held)))
        told.append(say.EXITS.say(style, list=listed(style, [*self._exits()])))
        return " ".join(told)

    def _here(self) -> list[str]:
        if self.room not in self._lying:
            self._lying[self.room] = self.world.things(self.room)
        return self._lying[self.room]

    def _closed_here(self) -> list[Gate]:
        return [gate for gate in self.world.gates_of.get(self.room, ()) if gate.name not in self.open]

    def _exits(self) -> dict[str, int]:
        blocked = {gate.way for gate in self._closed_here()}
        ways = {way: other for way, other in self.world.ways(self.room) if way not in blocked}
        return {way: ways[way] for way in clockwise(self.came_from) if way in ways}

    def _do(self, words: tuple[str, ...]) -> bool:
        """Carry out a command; False where it cannot be."""
        match words:
            case ("go", way) if way in self._exits():
                self.room = self._exits()[way]
                self.came_from = WAYS[(WAYS.index(way) + 2) % 4]
                self.seen.add(self.room)
                self.moves += 1
            case ("take", thing) if thing in self._here() and len(self.held) < self.hands:
                self._here().remove(thing)
                self.held.append(thing)
            case ("drop", thing) if thing in self.held:
                self.held.remove(thing)
                self._here().append(thing)
            case ("unlock" | "give" as verb, one, other) if verb == "give" or other in COLOURS:
                return self._offer(verb, {one, other})
            case ("look",):
                pass
            case _ if words == GIVE_UP:
                self.over = "gave_up"
            case _:
                return False
        return True

    def _offer(self, verb: str, words: set[str]) -> bool:
        """Try a key in a door, or offer a thing to a guard. A wrong one ends the quest."""
        for gate in self._closed_here():
            offered = words - {gate.name}
            if gate.name in words and (verb == "unlock") == (gate.kind == "door") and offered & {*self.held}:
                self.held.remove(offered.pop())
                if gate.value in words:
                    self.open.add(gate.name)
                else:
                    self.over = "spoiled"
                return True
        return False


def _check_row(task: Mapping[str, Any]) -> None:
    """Refuse a row that lacks a column or holds a value of the wrong kind."""
    for column, what in (("seed", "a whole number"), ("rooms", "a whole number"), ("split", "text"), ("kind", "text")):
        if task.get(column) is None:
            raise UserError(
                f"environment 'quest': the task row has no column '{column}' ({what}); it has {sorted(task)}"
            )
    for column, least, most in (("seed", 0, None), ("rooms", FEWEST_ROOMS, MOST_ROOMS)):
        number = task[column]
        if not isinstance(number, int) or isinstance(number, bool) or number < least or (most and number > most):
            wanted = f"from {least} to {most}" if most else f"of at least {least}"
            raise UserError(f"environment 'quest': column '{column}' is {number!r}, must be a whole number {wanted}")
    for column, known in (("split", SPLITS), ("kind", KINDS)):
        if task[column] not in known:
            raise UserError(
                f"environment 'quest': column '{column}' is {task[column]!r}; {closest(str(task[column]), list(known))}"
            )
