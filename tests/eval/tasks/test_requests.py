"""Requests: a slow reader of the conversation finds the reply, and only that reply scores."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import SequenceMatcher

import pytest

from eval.tasks.file_scores import mrcr_official as official
from eval.tasks.requests import LEAST, Requests, strict
from summarization.metrics import held
from summarization.resolve import UserError
from tests.eval.tasks.samples import ask, quarters, words

TURN = re.compile(r"User: write (.+)\nAssistant: ((?:.+\n?)+)")


def replies(text: str, question: str) -> list[str]:
    """The replies to the request that the question speaks of, in order."""
    asked = re.search(r"asks (?:several times )?for (.+? about \w+)\.", question)
    assert asked
    return [reply.strip() for request, reply in TURN.findall(text) if request == asked[1]]


def solved(text: str, question: str) -> str:
    """Lists all replies to the request, then takes the i-th: slow, and obvious."""
    number = re.search(r"Reproduce the (\d+)(?:st|nd|rd|th) ", question)
    prefix = re.search(r"Put (\w+) directly before", question)
    assert number
    assert prefix
    return prefix[1] + replies(text, question)[int(number[1]) - 1]


def read(task: Requests) -> str:
    return task.joiner.join(task.pieces())


@pytest.mark.parametrize("needles", [1, 2, 4, 8])
def test_a_reader_finds_the_answer(needles: int) -> None:
    for seed in range(30):
        task = Requests(ask(seed, options={"needles": needles}))
        text = read(task)
        found = solved(text, task.question)
        assert (found,) == tuple(task.answers())
        assert task.scores(found) == {"official": 1.0, "strict": 1.0}
        said = replies(text, task.question)
        assert len(said) == len(set(said)) == needles


@pytest.mark.parametrize("count", [words, quarters])
@pytest.mark.parametrize("tokens", [1000, 8000, 100_000])
def test_length(count: Callable[[str], int], tokens: int) -> None:
    assert sum(map(count, Requests(ask(1, tokens, count)).pieces())) == pytest.approx(tokens, rel=0.02)


@pytest.mark.slow
def test_length_of_a_million() -> None:
    task = Requests(ask(1, 1_000_000))
    assert sum(map(words, task.pieces())) == pytest.approx(1_000_000, rel=0.02)


def test_all_follows_from_the_seed() -> None:
    first, again, other = (Requests(ask(seed)) for seed in (3, 3, 4))
    assert read(first) == read(again) != read(other)
    assert first.question == again.question != other.question


def test_any_of_the_replies_may_be_asked_for() -> None:
    asked = [re.search(r"Reproduce the (\d)", Requests(ask(seed)).question) for seed in range(100)]
    assert {found[1] for found in asked if found} == {"1", "2", "3", "4"}


def test_near_misses_are_in_a_long_conversation() -> None:
    task = Requests(ask(0, 50_000))
    text = read(task)
    asked = re.search(r"for (.+?) about (\w+)\.", task.question)
    assert asked
    assert len(re.findall(rf"write {asked[1]} about (?!{asked[2]})", text)) > 10
    assert len(re.findall(rf"write (?!{asked[1]}).+ about {asked[2]}\n", text)) > 5


def test_needed_is_the_reply_once_it_was_read() -> None:
    task = Requests(ask(2))
    assert not task.needed()
    text = read(task)
    (needed,) = task.needed()
    assert solved(text, task.question).endswith(needed)
    assert held(needed, f"Keep: {' '.join(needed.split())} And more.")


def test_other_replies_and_dumps_get_no_strict_credit() -> None:
    for seed in range(30):
        task = Requests(ask(seed))
        text = read(task)
        right = solved(text, task.question)
        prefix = right[:10]
        for reply in replies(text, task.question):
            assert task.scores(prefix + reply)["strict"] == (prefix + reply == right)
        assert task.scores(prefix + text)["strict"] == 0
        assert task.scores(text) == task.scores("") == {"official": 0.0, "strict": 0.0}
        assert task.scores(right[10:]) == {"official": 0.0, "strict": 0.0}


def test_one_wrong_word() -> None:
    """The strict ratio is that of the characters; the official one may lose more, and never gains."""
    for seed in range(20):
        task = Requests(ask(seed))
        right = task.answers()[0]
        at = right.index(" ", 150)
        wrong = f"{right[:at]} indeed{right[at:]}"
        scores = task.scores(wrong)
        assert 0.98 < scores["strict"] < 1
        assert scores["official"] == SequenceMatcher(None, wrong[10:], right[10:]).ratio() <= scores["strict"]


def test_the_scorers_by_themselves() -> None:
    assert official("abc", "xyabc", "xy") == 0
    assert official("xyabc", "xyabc", "xy") == 1
    assert official(" xyabc", "xyabc", "xy") == 0
    assert strict(" xyabc\n", "abc", "xy", ["abd"]) == 1
    assert strict("xyabd", "abc", "xy", ["abd"]) == 0
    assert strict("xy", "abc", "xy", []) == 0
    assert LEAST < 2 / 3
    assert strict("xyabq", "abc", "xy", []) == pytest.approx(2 / 3)
    assert official("xyaqq", "xyabc", "xy") == pytest.approx(1 / 3)
    assert strict("xyaqq", "abc", "xy", []) == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"needles": 0}, "task 'mrcr': needles is 0, must be at least 1"),
        ({"lines": 1}, "task 'mrcr': lines is 1, must be at least 2"),
        ({"needle": 2}, "did you mean 'needles'"),
        ({"needles": 100}, "ask for a longer sample"),
    ],
)
def test_mistakes(options: dict[str, int], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        list(Requests(ask(options=options)).pieces())
