"""Graphs (``graphwalks_*``), as in OpenAI's GraphWalks: a list of directed edges, and a walk over them.

Nodes are named by ten hexadecimal digits and edges stand in a drawn order, so that a walk can not be made while reading
unless all edges that may matter are kept. The part of the graph that the answer depends on is planned first; all other
edges are made as they are read, between nodes that leave the answer as it is. What differs: prompts are in our own
words, there are no worked examples, answers are never empty but in a twin, and an edge may be listed twice.

In the twin ``absent`` (:mod:`eval.tasks.twins`) no edge of the answer is there; as in real files of this benchmark, the
right answer is then an empty list. ``contradicted`` does not apply: no edge takes back another.

Both scores are those of :func:`eval.tasks.file_scores.graphwalks`.
"""

from __future__ import annotations

import random
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from eval.tasks.base import Ask, Task, depths_of, scattered
from eval.tasks.file_scores import graphwalks
from eval.tasks.twins import ABSENT, allowed
from summarization.resolve import UserError

NAME_BITS = 40
SAMPLED_EDGES = 32
EDGES_FOR_EACH_NODE = 2
_NEW_NODE = 0.8
_EMPTY = "leave the brackets empty"
_FORM = "End with a line of the form 'Final Answer: [first, second]'."


class _Graph(Task):
    """What both tasks share.

    A node is a number, and its name is made from it. Numbers from 0 on are planned nodes; 0 is the one asked about.
    """

    system = "You read a long list of directed edges page by page and answer one question about the graph at the end."

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask)
        for option, value in self.options.items():
            if option not in ABSENT and value < 1:
                raise UserError(f"task '{self.name}': {option} is {value}, must be at least 1")
        rng = self.draw("names")
        # Two odd factors and a fold: different numbers always get different names.
        self._factors = tuple(rng.getrandbits(NAME_BITS) | 1 for _ in range(2))
        self._shift = rng.getrandbits(NAME_BITS)
        self._edges: list[tuple[int, int]] = []
        self._found: list[int] = []
        self._read: list[tuple[int, int]] = []
        self.plan(self.draw("plan"))

    @abstractmethod
    def plan(self, rng: random.Random) -> None:
        """Draw the edges that matter into ``_edges`` and the nodes of the answer into ``_found``."""

    @abstractmethod
    def other(self, rng: random.Random, nodes: int) -> tuple[int, int]:
        """An edge among so many nodes that does not change the answer."""

    def pieces(self) -> Iterator[str]:
        rng = self.draw("places")
        planned = list(self._edges)
        rng.shuffle(planned)
        sampled = [self._line(rng.getrandbits(NAME_BITS), rng.getrandbits(NAME_BITS)) for _ in range(SAMPLED_EDGES)]
        size = sum(map(self.ask.count, sampled)) / SAMPLED_EDGES
        known = 1 + max(max(edge) for edge in planned)
        nodes = known + max(8, round(self.ask.tokens / size / EDGES_FOR_EACH_NODE))
        depths = depths_of(rng, len(planned))
        if self.options["absent"]:
            planned, depths = [], []
        lines = [self._line(*edge) for edge in planned]
        others = self._others(nodes)
        # Half an edge more, for an edge that would have to be cut is left out.
        tokens = self.ask.tokens + int(size / 2)
        for piece, which in scattered(lines, depths, others, tokens, self.ask.count):
            if which is None and not _EDGE.fullmatch(piece):
                continue
            yield piece
            # Only now: whoever makes pages takes a piece before the page without it goes out.
            if which is not None:
                self._read.append(planned[which])

    def answers(self) -> Sequence[str]:
        return () if self.options["absent"] else tuple(self.node(number) for number in self._found)

    def scores(self, answer: str) -> Mapping[str, float]:
        return graphwalks(answer, self.answers())

    def node(self, number: int) -> str:
        """The name of a node."""
        mask = (1 << NAME_BITS) - 1
        mixed = (number + self._shift) * self._factors[0] & mask
        mixed ^= mixed >> (NAME_BITS // 2)
        return f"{mixed * self._factors[1] & mask:0{NAME_BITS // 4}x}"

    def _others(self, nodes: int) -> Iterator[str]:
        rng = self.draw("others")
        while True:
            yield self._line(*self.other(rng, nodes))

    def _line(self, source: int, target: int) -> str:
        return f"{self.node(source)} -> {self.node(target)}"


class BreadthFirst(_Graph):
    """Which nodes are at a certain depth? Options: ``depth``; ``branching``, the most edges out of a node passed."""

    name = "graphwalks_bfs"
    about = "GraphWalks-like: the nodes at an exact depth from a node, in a long list of edges"
    defaults: ClassVar[Mapping[str, Any]] = {"depth": 2, "branching": 3, **ABSENT}

    @property
    def question(self) -> str:
        depth = self.options["depth"]
        return (
            f"Every line is a directed edge, 'from -> to'. Start at node {self.node(0)}: which nodes can be reached "
            f"from it over {depth} edge{'s' if depth > 1 else ''} and not over fewer? Do not name the start. {_FORM}"
            f"{allowed(self.options, _EMPTY)}"
        )

    def plan(self, rng: random.Random) -> None:
        """Layer by layer: an edge leads to a new node of the next layer, or back to any node that is there already."""
        layer, known = [0], 1
        for _ in range(self.options["depth"]):
            below: list[int] = []
            for source in layer:
                targets: set[int] = set()
                for _ in range(rng.randint(1, self.options["branching"])):
                    # The first of each layer is new, so that no layer is empty.
                    if not below or rng.random() < _NEW_NODE:
                        target, known = known, known + 1
                        below.append(target)
                    else:
                        target = rng.randrange(known)
                    if target != source and target not in targets:
                        targets.add(target)
                        self._edges.append((source, target))
            self._inner = layer[-1] + 1
            layer = below
        self._found = layer

    def other(self, rng: random.Random, nodes: int) -> tuple[int, int]:
        """From a node that is not passed on the way, to any."""
        return _edge(rng, range(self._inner, nodes), range(nodes))

    def needed(self) -> Sequence[str]:
        """The edges on the way that were read so far."""
        return tuple(self._line(*edge) for edge in self._read)


class Parents(_Graph):
    """From which nodes does an edge lead to one? Option: ``parents``, the most there may be."""

    name = "graphwalks_parents"
    about = "GraphWalks-like: the nodes that have an edge to a node, in a long list of edges"
    defaults: ClassVar[Mapping[str, Any]] = {"parents": 8, **ABSENT}

    @property
    def question(self) -> str:
        return (
            "Every line is a directed edge, 'from -> to'. "
            f"Which nodes have an edge that leads directly to node {self.node(0)}? {_FORM}"
            f"{allowed(self.options, _EMPTY)}"
        )

    def plan(self, rng: random.Random) -> None:
        """So many parents, drawn, and nothing else."""
        self._found = list(range(1, rng.randint(1, self.options["parents"]) + 1))
        self._edges = [(parent, 0) for parent in self._found]

    def other(self, rng: random.Random, nodes: int) -> tuple[int, int]:
        """From any node, to any but the one asked about."""
        return _edge(rng, range(nodes), range(1, nodes))

    def needed(self) -> Sequence[str]:
        """The parents read so far."""
        return tuple(self.node(source) for source, _ in self._read)


_EDGE = re.compile(r"[0-9a-f]{10} -> [0-9a-f]{10}")


def _edge(rng: random.Random, sources: range, targets: range) -> tuple[int, int]:
    """An edge that leads to another node than it comes from."""
    while (source := rng.choice(sources)) == (target := rng.choice(targets)):
        continue
    return source, target
