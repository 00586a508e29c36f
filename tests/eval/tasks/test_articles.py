"""Articles: lengths, that the text answers the question in one way, what is needed, and both scores by hand."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from eval.tasks.articles import OF_A_PERSON, OF_A_TOWN, Articles, Person, SingleHop, Town, TwoHop, _person, _town
from eval.tasks.base import Ask, Count
from summarization.metrics import held
from summarization.resolve import UserError
from tests.eval.tasks.samples import quarters, words

ALL = [SingleHop, TwoHop]


def made(kind: type[Articles], seed: int = 0, tokens: int = 4000, count: Count = words) -> Articles:
    return kind(Ask(seed, tokens, count))


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("count", [words, quarters])
@pytest.mark.parametrize("tokens", [1000, 8000, 100_000])
def test_length_and_scores(kind: type[Articles], count: Count, tokens: int) -> None:
    for seed in range(3):
        task = made(kind, seed, tokens, count)
        assert abs(sum(map(count, task.pieces())) / tokens - 1) <= 0.02
        assert task.scores(task.answers()[0]) == {"official": 1.0, "strict": 1.0}
        assert task.needed() == task.answers()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ALL)
def test_a_million_tokens(kind: type[Articles]) -> None:
    assert abs(sum(map(quarters, made(kind, tokens=1_000_000, count=quarters).pieces())) / 1_000_000 - 1) <= 0.02


@pytest.mark.parametrize("kind", ALL)
def test_ten_million_tokens_begin_at_once(kind: type[Articles]) -> None:
    assert len(list(islice(made(kind, tokens=10_000_000).pieces(), 50))) == 50


@pytest.mark.parametrize("kind", ALL)
def test_a_sample_follows_from_its_seed(kind: type[Articles]) -> None:
    assert list(made(kind, 1).pieces()) == list(made(kind, 1).pieces())
    assert len({made(kind, seed).question for seed in range(50)}) == 50


@pytest.mark.parametrize("seed", range(20))
def test_one_article_answers(seed: int) -> None:
    task = made(SingleHop, seed)
    pieces = list(task.pieces())
    (name,) = (source.name for source in task._sources())
    assert name in task.question
    (article,) = [piece for piece in pieces if piece.startswith(f"Article: {name}\n")]
    assert held(task.answers()[0], article)


@pytest.mark.parametrize("seed", range(20))
def test_two_articles_answer_and_neither_does_alone(seed: int) -> None:
    task = made(TwoHop, seed)
    pieces = list(task.pieces())
    person, town = task._person, task._town
    assert person.name in task.question
    assert town.name not in task.question
    (first,) = [piece for piece in pieces if piece.startswith(f"Article: {person.name}\n")]
    (second,) = [piece for piece in pieces if piece.startswith(f"Article: {town.name}\n")]
    assert held(town.name, first)
    assert held(task.answers()[0], second)
    assert not held(task.answers()[0], first)
    assert sum(town.name in piece for piece in pieces) == 2


def test_both_orders_occur_and_what_is_needed_was_read() -> None:
    first: set[str] = set()
    for seed in range(20):
        task, text = made(TwoHop, seed), ""
        for piece in task.pieces():
            text += piece + "\n"
            assert all(held(fact, text) for fact in task.needed())
            both = all(f"Article: {source.name}\n" in text for source in task._sources())
            assert (task.needed() == task.answers()) == both
        first.add(
            "person"
            if text.index(f"Article: {task._person.name}\n") < text.index(f"Article: {task._town.name}\n")
            else "town"
        )
    assert first == {"person", "town"}


def test_relatives_stand_among_the_others() -> None:
    task = made(SingleHop, tokens=20_000)
    family = task._person.name.split()[-1]
    titles = [piece.split("\n")[0] for piece in task.pieces()]
    assert sum(family in title for title in titles) > 5


@pytest.mark.parametrize("seed", range(10))
def test_articles_say_all_they_know(seed: int) -> None:
    rng = random.Random(seed)
    person: Person = _person(rng, "Baranford")
    town: Town = _town(rng)
    for subject, questions in ((person, OF_A_PERSON), (town, OF_A_TOWN)):
        article = subject.article(rng)
        for attribute, (_, kind) in questions.items():
            assert held(getattr(subject, attribute), article)
            assert kind.fullmatch(getattr(subject, attribute))


def test_scores_by_hand() -> None:
    task = next(
        task for seed in range(100) if "born?" in (task := made(SingleHop, seed)).question and "town" in task._asked
    )
    (town,) = task.answers()
    other = "Zelulthorpe"
    for answer, official, strict in (
        (town, 1.0, 1.0),
        (f"{task._person.name} was born in {town.upper()}.", 1.0, 1.0),
        (f"{town}s", 1.0, 0.0),
        (f"{town} or {other}", 1.0, 0.0),
        (other, 0.0, 0.0),
        (" ".join(task.pieces()), 1.0, 0.0),
        ("unknown", 0.0, 0.0),
        ("", 0.0, 0.0),
    ):
        assert task.scores(answer) == {"official": official, "strict": strict}


@pytest.mark.parametrize("seed", range(20))
def test_a_dump_of_the_text_pleases_the_official_score_only(seed: int) -> None:
    for kind in ALL:
        task = made(kind, seed)
        assert task.scores(" ".join(task.pieces())) == {"official": 1.0, "strict": 0.0}


def test_the_town_on_the_way_may_be_named() -> None:
    task = made(TwoHop)
    answer = f"{task._person.name} was born in {task._town.name}; the answer is {task.answers()[0]}."
    assert task.scores(answer) == {"official": 1.0, "strict": 1.0}


def test_too_short_a_text_is_refused() -> None:
    with pytest.raises(UserError, match="ask for a longer sample"):
        list(made(TwoHop, tokens=20).pieces())
