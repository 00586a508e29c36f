"""Words by how often they stand: counts as RULER's, lengths, spread over the text, and both scores by hand."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from math import pi
from typing import Any

import pytest

from eval.tasks.base import Ask, Count, Task
from eval.tasks.frequencies import NOUNS, CommonWords, FrequentWords, Scatter, _zeta
from summarization.resolve import UserError
from tests.eval.tasks.samples import quarters, words

ALL = [CommonWords, FrequentWords]


def made(kind: type[Task], seed: int = 0, tokens: int = 8000, count: Count = words, **options: Any) -> Task:
    return kind(Ask(seed, tokens, count, options))


def listed(pieces: list[str]) -> list[str]:
    """The words of the numbered list."""
    parts = " ".join(pieces).split(" ")
    assert parts[::2] == [f"{number}." for number in range(1, len(parts) // 2 + 1)]
    return parts[1::2]


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("count", [words, quarters])
@pytest.mark.parametrize("tokens", [1000, 4096, 8000, 100_000])
def test_length_and_scores(kind: type[Task], count: Count, tokens: int) -> None:
    for seed in range(3):
        task = made(kind, seed, tokens, count)
        assert abs(sum(map(count, task.pieces())) / tokens - 1) <= 0.02
        assert task.scores(" ".join(task.answers())) == {"official": 1.0, "strict": 1.0}
        assert set(task.needed()) == set(task.answers())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ALL)
def test_a_million_tokens(kind: type[Task]) -> None:
    assert abs(sum(map(quarters, made(kind, tokens=1_000_000, count=quarters).pieces())) / 1_000_000 - 1) <= 0.02


@pytest.mark.parametrize("kind", ALL)
def test_ten_million_tokens_begin_at_once(kind: type[Task]) -> None:
    assert len(list(islice(made(kind, tokens=10_000_000).pieces(), 50))) == 50


@pytest.mark.parametrize("kind", ALL)
def test_a_sample_follows_from_its_seed(kind: type[Task]) -> None:
    assert list(made(kind, 1).pieces()) == list(made(kind, 1).pieces())
    assert len({made(kind, seed).answers() for seed in range(20)}) == 20


@pytest.mark.parametrize(("tokens", "often", "seldom"), [(1000, 6, 1), (4096, 30, 3), (8000, 30, 3), (100_000, 30, 3)])
@pytest.mark.parametrize("count", [words, quarters])
def test_common_words_stand_as_often_as_rulers(tokens: int, often: int, seldom: int, count: Count) -> None:
    task = made(CommonWords, 2, tokens, count)
    times = Counter(listed(list(task.pieces())))
    assert {times.pop(word) for word in task.answers()} == {often}
    assert max(times.values()) <= seldom + 1
    assert sum(number == seldom for number in times.values()) > 0.9 * len(times)


def test_frequent_words_follow_zeta() -> None:
    task = made(FrequentWords, tokens=20_000)
    times = Counter(" ".join(task.pieces()).split())
    assert times.total() == 20_000
    dots = times.pop("...")
    ranked = times.most_common()
    assert [word for word, _ in ranked[:3]] == list(task.answers())
    assert [number for _, number in ranked[:3]] == [int(20_000 * 6 / pi**2 / rank**2) for rank in (2, 3, 4)]
    assert dots / 20_000 == pytest.approx(6 / pi**2, abs=0.02)
    assert all(len(word) == 6 and word.islower() for word in times)


def test_zeta() -> None:
    assert _zeta(2.0) == pytest.approx(pi**2 / 6, abs=1e-9)
    assert _zeta(4.0) == pytest.approx(pi**4 / 90, abs=1e-9)


@pytest.mark.parametrize("kind", ALL)
def test_words_stand_all_over_the_text(kind: type[Task]) -> None:
    """No tenth of the text has noticeably more of what is asked for, over many samples."""
    tenths = Counter()
    for seed in range(40):
        task = made(kind, seed)
        read = " ".join(task.pieces()).split()
        tenths.update(10 * at // len(read) for at, word in enumerate(read) if word in task.answers())
    share = [tenths[tenth] / tenths.total() for tenth in range(10)]
    assert min(share) > 0.08
    assert max(share) < 0.12


def test_other_words_are_spread_over_the_list() -> None:
    places: dict[str, list[int]] = {}
    for at, word in enumerate(listed(list(made(CommonWords, tokens=20_000).pieces()))):
        places.setdefault(word, []).append(at)
    gaps = [max(at) - min(at) for at in places.values() if len(at) == 3]
    # Of three places drawn at random, the outer ones are half of the length apart on average.
    assert sum(gaps) / len(gaps) == pytest.approx(10_000 / 2, rel=0.1)
    assert len(set(gaps)) > 0.8 * len(gaps)


def test_scatter_reaches_every_place_once() -> None:
    for size in (1, 2, 12, 333, 1000):
        scatter = Scatter.drawn(made(CommonWords).draw(size), size)
        assert sorted(map(scatter, range(size))) == list(range(size))


def test_scores_of_common_words_by_hand() -> None:
    for tokens in (1000, 20_000):
        task = made(CommonWords, tokens=tokens, count=words)
        answers = list(task.answers())
        other = next(word for word in listed(list(task.pieces())) if word not in answers)
        for answer, official, strict in (
            (" ".join(f"{at}. {word}" for at, word in enumerate(answers, 1)), 1.0, 1.0),
            (f"The most common words in general: {', '.join(answers).title()}.", 1.0, 1.0),
            (" ".join(answers[:4]), 0.4, 0.4),
            (" ".join([*answers, other]), 1.0, 0.0),
            (f"{answers[0]}s", 0.1, 0.0),
            ("", 0.0, 0.0),
        ):
            assert task.scores(answer) == {"official": pytest.approx(official), "strict": pytest.approx(strict)}


def test_scores_of_frequent_words_by_hand() -> None:
    task = made(FrequentWords)
    assert isinstance(task, FrequentWords)
    first, second, third = task.answers()
    for answer, official, strict in (
        (f"{first}, {second}, {third}", 1.0, 1.0),
        (f"The words are: {first.upper()} and {second}.", 2 / 3, 2 / 3),
        (f"{first} {second} {third} {task._words[3]}", 1.0, 0.0),
        (" ".join(task.pieces()), 1.0, 0.0),
        (f"{first}{second}{third}", 1.0, 0.0),
        ("", 0.0, 0.0),
    ):
        assert task.scores(answer) == {"official": pytest.approx(official), "strict": pytest.approx(strict)}


def test_needed_words_stand_out_by_what_was_read() -> None:
    task, times = made(CommonWords), Counter()
    for piece in task.pieces():
        times.update(piece.split(" ")[1::2])
        assert list(task.needed()) == [word for word in task.answers() if times[word] > 3]
    task, times = made(FrequentWords), Counter()
    for piece in task.pieces():
        times.update(word for word in piece.split() if word != "...")
        top = {number for _, number in times.most_common(3)}
        assert all(times[word] in top for word in task.needed())


def test_no_noun_is_said_in_passing() -> None:
    said = "the words that stand most often in the list text table above here is are of in general not nice".split()
    assert not set(said) & set(NOUNS)
    assert len(set(NOUNS)) == len(NOUNS)
    assert all(noun.isalpha() for noun in NOUNS)


def test_refusals() -> None:
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"often": 3, "seldom": 3}, "often is 3, must be more than seldom"),
        ({"common": 0}, "common is 0, must be a whole number"),
        ({"often": "many"}, "often is 'many', must be a whole number"),
        ({"often": 10_000}, "ask for a longer sample, or lower often"),
    )
    for options, message in wrong:
        with pytest.raises(UserError, match=message):
            made(CommonWords, **options)
    with pytest.raises(UserError, match=r"alpha is 1\.0, must be more than 1"):
        made(FrequentWords, alpha=1.0)
    with pytest.raises(UserError, match="too short for three words to stand out"):
        made(FrequentWords, tokens=60)
