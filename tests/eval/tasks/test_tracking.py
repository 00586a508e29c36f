"""Variable tracking: lengths, order of each chain, what is needed, and both scores on answers worked out by hand."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

import pytest

from eval.tasks.base import Ask, Count
from eval.tasks.tracking import VariableTracking
from summarization.metrics import held
from summarization.resolve import UserError
from tests.eval.tasks.samples import quarters, words


def made(seed: int = 0, tokens: int = 2000, count: Count = words, **options: Any) -> VariableTracking:
    return VariableTracking(Ask(seed, tokens, count, options))


def solved(text: str, value: str) -> set[str]:
    """Who holds ``value``, by an interpreter that reads the text once."""
    held_by: dict[str, str] = {}
    for name, what in re.findall(r"VAR ([A-Z]{5}) = (?:VAR )?(\w+)", text):
        held_by[name] = what if what.isdigit() else held_by[what]
    return {name for name, what in held_by.items() if what == value}


@pytest.mark.parametrize("count", [words, quarters])
@pytest.mark.parametrize("tokens", [1000, 8000, 100_000])
@pytest.mark.parametrize("options", [{}, {"chains": 3, "hops": 6}])
def test_length_and_content(count: Count, tokens: int, options: dict[str, int]) -> None:
    task = made(3, tokens, count, **options)
    pieces = list(task.pieces())
    assert abs(sum(map(count, pieces)) / tokens - 1) <= 0.02
    value = re.findall(r"\d{5}", task.question)[0]
    assert solved("\n".join(pieces), value) == set(task.answers())
    assert len(task.answers()) == options.get("hops", 4) + 1
    assert task.needed() == task.answers()


@pytest.mark.slow
def test_a_million_tokens() -> None:
    assert abs(sum(map(quarters, made(tokens=1_000_000, count=quarters).pieces())) / 1_000_000 - 1) <= 0.02


def test_ten_million_tokens_begin_at_once() -> None:
    assert len(list(islice(made(tokens=10_000_000).pieces(), 50))) == 50


def test_what_is_needed_was_read() -> None:
    task, text = made(chains=2), ""
    for piece in task.pieces():
        text += piece + "\n"
        assert all(held(fact, text) for fact in task.needed())
        assert len(task.needed()) == len(solved(text, re.findall(r"\d{5}", task.question)[0]))


def test_a_sample_follows_from_its_seed() -> None:
    assert list(made(1).pieces()) == list(made(1).pieces())
    assert len({made(seed).answers() for seed in range(50)}) == 50


def test_scores_worked_out_by_hand() -> None:
    task = made(chains=2)
    a, b, c, d, e = task.answers()
    other = task._chains[1][0]
    for answer, official, strict in (
        (f"{a}, {b}, {c}, {d}, {e}", 1.0, 1.0),
        (f"VAR {a}, VAR {b}", 0.4, 0.4),
        (f"{a} {b} {c} {d} {e}".lower(), 1.0, 1.0),
        (f"{a} {b} {c} {d} {e} {other}", 1.0, 0.0),
        (f"{a}{b}", 0.4, 0.0),
        (" ".join(task.pieces()), 1.0, 0.0),
        (f"{task.answer_prefix} {a}", 0.2, 0.2),
        ("", 0.0, 0.0),
    ):
        assert task.scores(answer) == {"official": pytest.approx(official), "strict": pytest.approx(strict)}


def test_refusals() -> None:
    with pytest.raises(UserError, match="task 'vt': hops is 0, must be at least 1"):
        made(hops=0)
    with pytest.raises(UserError, match="task 'vt': chains"):
        made(chains=True)
    with pytest.raises(UserError, match="ask for a longer sample"):
        list(made(tokens=10).pieces())
