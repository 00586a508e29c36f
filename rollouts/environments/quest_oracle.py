"""``quest`` played by script: an oracle for the upper bound, and writers of acts and summaries for demonstrations.

The oracle sees only the texts it is shown. Shown everything, it draws a map; shown one window, as a policy is, it knows
what the window holds and walks on by the first exit listed. Both write what the tiny style can say; views are read in
either style, but facts of a summary only in the form ``lion red .``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from rollouts.environments import quest_lexicon as say
from rollouts.environments.quest_lexicon import DOORS, NAMES, VALUES
from rollouts.environments.quest_world import Cell, beyond
from rollouts.environments.stated import latest_values, within

GIVE_UP = "give up ."


def statements(text: str) -> dict[str, str]:
    """What a text says that gates want, by name, latest statement of each, in order of their last mention."""
    found = latest_values(text, VALUES)
    for sentence in (say.NOTE_DOOR, say.NOTE_GUARD, say.SAYS):
        for _, fields in sentence.found(text):
            found[fields["name"][0]] = fields["value"][0]
    return found


class Oracle:
    """Plays a quest from what it was shown.

    Args:
        whole: It is shown every view from the first on, so that it may walk by its map and explore what it has not
            seen. Otherwise it takes the first exit listed wherever it knows no better.
    """

    def __init__(self, whole: bool = True) -> None:
        self.whole = whole
        self.asked: set[str] = set()
        self.facts: dict[str, str] = {}
        self.exits: dict[Cell, list[str]] = {}
        self.lying: dict[Cell, list[str]] = {}
        self.gates: dict[Cell, list[str]] = {}
        self.places: dict[str, Cell] = {}
        self.held: list[str] = []
        self.here: Cell | None = None
        self._took = ""
        self._route: deque[str] = deque()

    def see(self, text: str) -> None:
        """Read the opening, a view, or a whole window."""
        self.facts.update(statements(text))
        for _, fields in say.QUEST.found(text):
            self.asked.update(name for name in fields["list"] if name in NAMES)
        starts = [(place, (int(f["x"][0]), int(f["y"][0]))) for place, f in say.AT.found(text)]
        ends = [place for place, _ in starts[1:]] + [len(text)]
        for (start, cell), end in zip(starts, ends, strict=False):
            self._view(cell, text[start:end])

    def act(self) -> str:
        """The next act.

        Raises:
            ValueError: No view was shown yet.
        """
        if self.here is None:
            raise ValueError("the oracle was shown no view yet")
        wanted = {value: name for name, value in self.facts.items() if name in self.asked}
        for name in self.gates[self.here]:
            if self.facts.get(name) in self.held:
                return f"{'unlock' if name in DOORS else 'give'} {name} {self.facts[name]} ."
        took, self._took = self._took, ""
        for thing in self.lying[self.here]:
            if thing in wanted and not any(held in wanted for held in self.held):
                self._route.clear()
                if self.held:
                    return f"drop {self.held[0]} ."
                self._took = thing
                return f"take {thing} ."
        if self._route:
            return f"go {self._route.popleft()} ."
        if self._stuck():
            return GIVE_UP
        if took and self._way_to([wanted[took]]):
            return f"go {self._route.popleft()} ."
        if self.whole:
            sought = [wanted[held] for held in self.held if held in wanted] if self.held else [*wanted]
            if self._way_to(sought) or self._search(None):
                return f"go {self._route.popleft()} ."
        return f"go {self.exits[self.here][0]} ."

    def _view(self, cell: Cell, text: str) -> None:
        self.here = cell
        for name in (*self.gates.get(cell, ()), *self.lying.get(cell, ())):
            self.places.pop(name, None)
        self.gates[cell] = [f["name"][0] for sentence in (say.DOOR, say.GUARD) for _, f in sentence.found(text)]
        self.lying[cell] = [thing for _, fields in say.HERE.found(text) for thing in fields["list"]]
        for _, fields in say.HOLD.found(text):
            self.held = fields["list"]
        for _, fields in say.EXITS.found(text):
            self.exits[cell] = fields["list"]
        self.places.update(dict.fromkeys((*self.gates[cell], *self.lying[cell]), cell))

    def _stuck(self) -> bool:
        """Before a gate that leaves no way but back, of which it is not known what it wants."""
        assert self.here is not None
        closed = [name for name in self.gates[self.here] if name in self.asked]
        forgotten = bool(closed) and not any(name in self.facts for name in closed)
        return forgotten and len(self.exits[self.here]) < 2 and not self.whole

    def _way_to(self, sought: Sequence[str]) -> bool:
        """Plan the shortest known way to the nearest of the gates and things, by name, where one's place is known."""
        aim = {self.places[name] for name in sought if name in self.places} - {self.here}
        return bool(aim) and self._search(aim)

    def _search(self, aim: set[Cell] | None) -> bool:
        """Plan the shortest known way to the nearest of the cells, or where none are named, of those not seen yet.

        Of equally near ones, the first that is listed.
        """
        assert self.here is not None
        before: dict[Cell, tuple[Cell, str]] = {}
        waiting = deque([self.here])
        while waiting:
            cell = waiting.popleft()
            for way in self.exits.get(cell, ()):
                other = beyond(cell, way)
                if other in before or other == self.here:
                    continue
                before[other] = (cell, way)
                if other in aim if aim is not None else other not in self.exits:
                    while other != self.here:
                        other, way = before[other]
                        self._route.appendleft(way)
                    return True
                waiting.append(other)
        return False


def window_act(context: str) -> str:
    """The act of who sees only a window: system, task, summary and the views since."""
    oracle = Oracle(whole=False)
    oracle.see(context)
    return oracle.act()


def expert_summary(context: str, budget: int) -> str:
    """What each gate of the quest wants, or that it is unknown; then what was read last, as far as the budget goes."""
    found = statements(context)
    request = context.rpartition("summarize in")[2] or context
    names = [name for _, fields in say.QUEST.found(request) for name in fields["list"]]
    needed = [f"{name} {found.pop(name, 'unknown')}" for name in names]
    return within(budget, [*needed, *(f"{name} {value}" for name, value in reversed(found.items()))])


def careless_summary(context: str, budget: int, carried: str = "") -> str:
    """What was carried into the window, brought up to date; then what was read last, as far as the budget goes."""
    found = statements(context)
    kept = []
    for said in (part.strip() for part in carried.split(".")):
        name = said.split(" ")[0]
        if said and said != "none":
            kept.append(f"{name} {found.pop(name)}" if name in found else said)
    return within(budget, [*kept, *(f"{name} {value}" for name, value in reversed(found.items()))])
