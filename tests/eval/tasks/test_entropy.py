"""Entropy: a reader without a budget finds every code, one with a budget reaches the ceiling and no more."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import pytest

from eval.reading import Reading
from eval.tasks.entropy import Entropy
from summarization.metrics import held
from summarization.resolve import UserError
from tests.eval.tasks.samples import ask, quarters, words


def codes(pieces: Iterable[str]) -> dict[str, str]:
    """Writes down every code: slow, obvious, and far beyond the budget."""
    found = re.findall(r"The code of (\w+ \w+) is (\w+)\.", "\n".join(pieces))
    assert len(dict(found)) == len(found) == len({code for _, code in found})
    return dict(found)


def asked(question: str) -> str:
    found = re.search(r"What is the code of (\w+ \w+)\?", question)
    assert found
    return found[1]


@pytest.mark.parametrize("count", [words, quarters])
def test_a_reader_finds_the_answer(count: Callable[[str], int]) -> None:
    for seed in range(30):
        task = Entropy(ask(seed, 1000, count))
        found = codes(task.pieces())
        answer = found[asked(task.question)]
        assert (answer,) == tuple(task.answers())
        assert len(found) == task.metrics()["codes"]
        assert task.scores(answer) == {"official": 1.0, "strict": 1.0}
        assert task.scores(f"It is {answer.lower()}.") == {"official": 1.0, "strict": 1.0}
        assert task.scores(" ".join(found.values())) == {"official": 1.0, "strict": 0.0}
        assert task.scores(f"X{answer}") == {"official": 1.0, "strict": 0.0}
        assert task.scores("") == {"official": 0.0, "strict": 0.0}
        others = [code for code in found.values() if code != answer]
        assert task.scores(others[0]) == {"official": 0.0, "strict": 0.0}


@pytest.mark.parametrize("count", [words, quarters])
@pytest.mark.parametrize("tokens", [1000, 8000, 100_000])
def test_length(count: Callable[[str], int], tokens: int) -> None:
    assert sum(map(count, Entropy(ask(1, tokens, count)).pieces())) == pytest.approx(tokens, rel=0.02)


@pytest.mark.slow
def test_length_of_a_million() -> None:
    task = Entropy(ask(1, 1_000_000, options={"budget_tokens": 1024}))
    assert sum(map(words, task.pieces())) == pytest.approx(1_000_000, rel=0.02)


def test_all_follows_from_the_seed() -> None:
    first, again, other = (Entropy(ask(seed)) for seed in (3, 3, 4))
    assert list(first.pieces()) == list(again.pieces()) != list(other.pieces())
    assert first.question == again.question != other.question


def test_the_question_tells_nothing_before_the_last_page() -> None:
    task, other = Entropy(ask(0)), Entropy(ask(1))
    assert task.question == other.question
    name = asked(task.ending)
    assert name not in task.question
    for _ in task.pieces():
        assert name not in task.question
    assert asked(task.question) == name


@pytest.mark.parametrize("where", ["first", "last", "both"])
def test_it_is_asked_wherever_the_question_stands(where: str) -> None:
    reading = Reading(words, page_tokens=100)
    opening = reading.reset({"task": "eval.tasks.entropy:Entropy", "seed": 2, "tokens": 1000, "asked": where})
    texts = [message.content for message in opening.messages]
    while not (observation := reading.advance(None)).needs_act:
        texts += [message.content for message in observation.messages]
    name = asked(observation.messages[0].content)
    assert not any("What is the code" in text for text in texts)
    reading.advance(codes(texts)[name])
    assert reading.metrics()["success"] == 1
    assert reading.metrics()["ceiling"] == 0.5


@pytest.mark.parametrize("count", [words, quarters])
def test_a_reader_with_the_budget_reaches_the_ceiling(count: Callable[[str], int]) -> None:
    """Notes of the first codes, while they fit; the mean over samples is the ceiling, within chance."""
    right = 0.0
    samples = 300
    budget = 60
    for seed in range(samples):
        task = Entropy(ask(seed, 1000, count, options={"budget_tokens": budget}))
        notes = ""
        for name, code in codes(task.pieces()).items():
            if count(f"{notes}{name} {code}\n") > budget:
                break
            notes += f"{name} {code}\n"
        found = re.search(rf"{asked(task.question)} (\w+)", notes)
        right += task.scores(found[1] if found else "unknown")["strict"]
    assert right / samples == pytest.approx(
        Entropy(ask(0, 1000, count, options={"budget_tokens": budget})).metrics()["ceiling"], abs=0.1
    )


def test_a_larger_budget_means_more_codes_and_not_a_higher_ceiling() -> None:
    small, large = (Entropy(ask(0, 8000, options={"budget_tokens": budget})) for budget in (60, 600))
    assert large.metrics()["codes"] == 10 * small.metrics()["codes"]
    assert large.metrics()["ceiling"] == small.metrics()["ceiling"] == 0.5
    assert Entropy(ask(0, options={"overload": 1})).metrics()["ceiling"] == 1
    assert Entropy(ask(0, 8000, options={"overload": 4})).metrics()["ceiling"] == 0.25
    assert Entropy(ask(0, options={"budget_tokens": 1})).metrics()["ceiling"] == 0


def test_needed_is_every_code_read() -> None:
    task = Entropy(ask(4))
    assert not task.needed()
    pieces = list(task.pieces())
    assert list(task.needed()) == list(codes(pieces).values())
    assert held(task.needed()[0], "\n".join(pieces))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"budget_tokens": 0}, "task 'entropy': budget_tokens is 0, must be at least 1"),
        ({"budget_tokens": 1000}, "more than the length of 1000: lower budget_tokens or ask for a longer sample"),
        ({"budget_tokens": 100_000}, "and overload is 2, which takes .* codes, but there are names for"),
        ({"overload": 0}, "task 'entropy': overload is 0, must be at least 1"),
        ({"budget_tokens": 9.5}, "budget_tokens is 9.5, must be like its default 128"),
    ],
)
def test_mistakes(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        Entropy(ask(options=options))
