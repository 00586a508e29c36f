"""Graphs: a walk over the whole list of edges finds the answer, and the scores are F1."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from eval.tasks.base import Task
from eval.tasks.file_scores import graphwalks
from eval.tasks.graphs import BreadthFirst, Parents
from summarization.metrics import held
from summarization.resolve import UserError
from tests.eval.tasks.samples import ask, quarters, words

TASKS = (BreadthFirst, Parents)


def edges(text: str) -> list[tuple[str, str]]:
    found = []
    for line in text.split("\n"):
        edge = re.fullmatch(r"([0-9a-f]{10}) -> ([0-9a-f]{10})", line)
        assert edge, line
        found.append((edge[1], edge[2]))
    return found


def solved(text: str, question: str) -> set[str]:
    """Has the whole graph in memory and walks it: slow, and obvious."""
    if start := re.search(r"Start at node (\w+): .* over (\d+) edge", question):
        reached = layer = {start[1]}
        for _ in range(int(start[2])):
            layer = {target for source, target in edges(text) if source in layer} - reached
            reached = reached | layer
        return layer
    found = re.search(r"leads directly to node (\w+)\?", question)
    assert found
    return {source for source, target in edges(text) if target == found[1]}


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (BreadthFirst, {}),
        (BreadthFirst, {"depth": 1}),
        (BreadthFirst, {"depth": 3, "branching": 2}),
        (BreadthFirst, {"depth": 5, "branching": 1}),
        (Parents, {}),
        (Parents, {"parents": 1}),
        (Parents, {"parents": 40}),
    ],
)
def test_a_reader_finds_the_answer(kind: type[Task], options: dict[str, int]) -> None:
    for seed in range(40):
        task = kind(ask(seed, options=options))
        text = task.joiner.join(task.pieces())
        found = solved(text, task.question)
        assert found == set(task.answers())
        assert len(task.answers()) == len(found) > 0
        answer = f"I walked the graph.\nFinal Answer: [{', '.join(sorted(found))}]"
        assert task.scores(answer) == {"official": 1.0, "strict": 1.0}
        assert task.scores("") == {"official": 0.0, "strict": 0.0}


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("count", [words, quarters, len])
@pytest.mark.parametrize("tokens", [1000, 8000, 100_000])
def test_length(kind: type[Task], count: Callable[[str], int], tokens: int) -> None:
    options = {"parents": 4} if kind is Parents else {}
    pieces = list(kind(ask(1, tokens, count, options=options)).pieces())
    assert sum(map(count, pieces)) == pytest.approx(tokens, rel=0.02)
    edges("\n".join(pieces))


@pytest.mark.slow
@pytest.mark.parametrize("kind", TASKS)
def test_length_of_a_million(kind: type[Task]) -> None:
    assert sum(map(quarters, kind(ask(1, 1_000_000, quarters)).pieces())) == pytest.approx(1_000_000, rel=0.02)


@pytest.mark.parametrize("kind", TASKS)
def test_all_follows_from_the_seed(kind: type[Task]) -> None:
    first, again, other = (kind(ask(seed)) for seed in (3, 3, 4))
    assert list(first.pieces()) == list(again.pieces()) != list(other.pieces())
    assert first.question == again.question != other.question


def test_names_are_unique_and_do_not_tell_their_order() -> None:
    task = Parents(ask(7))
    names = [task.node(number) for number in range(20_000)]
    assert len(set(names)) == len(names)
    rising = sum(names[at] < names[at + 1] for at in range(len(names) - 1))
    assert 0.3 < rising / len(names) < 0.7


def test_planned_nodes_do_not_stand_out() -> None:
    """Nodes of the answer have edges of their own, and the start is reached from elsewhere."""
    task = BreadthFirst(ask(0, 20_000))
    found = edges("\n".join(task.pieces()))
    sources = {source for source, _ in found}
    assert any(node in sources for node in task.answers())
    assert len(found) / len(sources | {target for _, target in found}) == pytest.approx(2, rel=0.2)


def test_depth_is_exact() -> None:
    """Somewhere an edge leads back to a nearer node, which is then no answer."""
    back = 0
    for seed in range(40):
        task = BreadthFirst(ask(seed, options={"depth": 3}))
        found = edges("\n".join(task.pieces()))
        near = solved("\n".join(f"{a} -> {b}" for a, b in found), task.question.replace("over 3", "over 2"))
        assert not near & set(task.answers())
        back += any(source in near and target in near for source, target in found)
    assert back


@pytest.mark.parametrize("kind", TASKS)
def test_needed_is_what_was_read_of_the_way(kind: type[Task]) -> None:
    task = kind(ask(1))
    assert not task.needed()
    text = "\n".join(task.pieces())
    assert all(held(needed, text) for needed in task.needed())
    if kind is Parents:
        assert set(task.needed()) == set(task.answers())
    else:
        assert solved("\n".join(task.needed()), task.question) == set(task.answers())


def test_scores_are_those_of_the_file_format() -> None:
    task = Parents(ask(3))
    right = task.answers()
    for answer in (f"Final Answer: [{', '.join(right)}]", f"Final Answer: [{right[0]}]\n", "Final Answer: [xx]"):
        assert task.scores(answer) == graphwalks(answer, right)
    assert task.scores(f"Final Answer: [{', '.join(right)}]") == {"official": 1.0, "strict": 1.0}


@pytest.mark.parametrize(
    ("kind", "options", "sentence"),
    [
        (BreadthFirst, {"depth": 0}, "task 'graphwalks_bfs': depth is 0, must be at least 1"),
        (Parents, {"parents": -1}, "task 'graphwalks_parents': parents is -1, must be at least 1"),
        (BreadthFirst, {"depth": 7, "branching": 5}, "ask for a longer sample"),
    ],
)
def test_mistakes(kind: type[Task], options: dict[str, int], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        list(kind(ask(options=options)).pieces())
