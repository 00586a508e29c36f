"""``recall``: reproducible, seeded, splits apart, any length, and a reward that cannot be had by hedging."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.environments.lexicon import KINDS
from rollouts.environments.recall import SPLITS, TASK_KINDS, Fact, Recall, in_split, tasks
from summarization.resolve import UserError


def row(**changes: Any) -> dict[str, Any]:
    return {"seed": 5, "split": "train", "kind": "find", "words": 400, **changes}


def opened(task: dict[str, Any], **settings: Any) -> Recall:
    environment = Recall(**settings)
    environment.reset(task)
    return environment


def read(environment: Recall) -> tuple[list[str], str]:
    """All pages, and the question at the end."""
    pages: list[str] = []
    while True:
        observation = environment.advance(None)
        (message,) = observation.messages
        if observation.needs_act:
            return pages, message.content
        pages.append(message.content)


@pytest.mark.parametrize("kind", TASK_KINDS)
@pytest.mark.parametrize("style", ["tiny", "prose"])
def test_a_row_gives_the_same_pages_every_time(kind: str, style: str) -> None:
    first, second = (read(opened(row(kind=kind), style=style)) for _ in range(2))
    assert first == second
    assert first != read(opened(row(kind=kind, seed=6), style=style))


@pytest.mark.parametrize("kind", TASK_KINDS)
@pytest.mark.parametrize("settings", [{}, {"style": "prose"}, {"style": "prose", "filler": "python"}])
@pytest.mark.parametrize("words", [500, 4000])
def test_documents_have_the_length_asked_for(kind: str, settings: dict[str, Any], words: int) -> None:
    environment = opened(row(kind=kind, words=words), page_words=50, facts_per_page=3, **settings)
    pages, _ = read(environment)
    assert sum(len(page.split()) for page in pages) == pytest.approx(words, rel=0.02)
    assert all(len(page.split()) == 50 for page in pages)


@pytest.mark.parametrize("kind", TASK_KINDS)
@given(seed=st.integers(0, 2**40))
def test_the_right_answer_is_in_the_pages_and_earns_the_reward(kind: str, seed: int) -> None:
    environment = opened(row(kind=kind, seed=seed, words=300))
    pages, question = read(environment)
    assert question == environment.plan.question
    text = " ".join(pages)
    for fact in environment.plan.facts:
        said = f"a letter came for {fact.key}" if kind == "count" else fact.statement
        assert text.count(said) == (len(environment.plan.facts) if kind == "count" else 1)
    assert environment.advance("it is " + " ".join(environment.plan.answers) + " .").done
    assert environment.reward() == 1.0
    assert environment.metrics()["success"] == 1.0


def test_the_latest_value_stands_last() -> None:
    environment = opened(row(kind="latest", words=900), changes=4)
    text = " ".join(read(environment)[0])
    places = [text.index(fact.statement) for fact in environment.plan.facts]
    assert places == sorted(places)
    assert len({fact.key for fact in environment.plan.facts}) == 1
    assert environment.plan.answers == (environment.plan.facts[-1].value,)


def test_nothing_else_is_said_of_what_is_asked() -> None:
    for seed in range(50):
        environment = opened(row(seed=seed, words=600))
        (fact,) = environment.plan.facts
        assert " ".join(read(environment)[0]).split().count(fact.key) == 1


@pytest.mark.parametrize(
    ("act", "reward"),
    [
        ("{right}", 1.0),
        ("{key} {right} .", 1.0),
        ("{right} or {wrong}", 0.0),
        ("{wrong}", 0.0),
        ("unknown", 0.0),
        ("", 0.0),
        ("un{right}", 0.0),
    ],
)
def test_rewards(act: str, reward: float) -> None:
    environment = opened(row())
    fact = environment.plan.facts[0]
    wrong = next(value for value in KINDS[fact.kind].values if value != fact.value)
    environment.advance(act.format(right=fact.value, wrong=wrong, key=fact.key))
    assert environment.reward() == reward


def test_collecting_some_earns_a_share_and_is_no_success() -> None:
    environment = opened(row(kind="collect"), items=2)
    environment.advance(environment.plan.answers[0])
    assert environment.reward() == 0.5
    assert environment.metrics()["success"] == 0.0


def test_without_an_answer_there_is_no_reward() -> None:
    assert opened(row()).reward() == 0.0


def test_splits_share_no_task() -> None:
    asked: dict[str, set[Fact]] = {}
    for split in SPLITS:
        drawn = (opened(task).plan for task in tasks(split, 400, 200, ["find", "latest", "collect"]))
        asked[split] = {fact for plan in drawn for fact in plan.facts}
        assert len(asked[split]) > 300
        assert all(in_split(fact, split) for fact in asked[split])
    for one, other in itertools.combinations(SPLITS, 2):
        assert not asked[one] & asked[other]


def test_a_row_depends_on_its_index_alone() -> None:
    assert list(tasks("eval", 3, (100, 900), ["find"], 4)) == list(tasks("eval", 9, (100, 900), ["find"], 4))[:3]
    assert list(tasks("eval", 3, 100, ["find"], 4)) != list(tasks("eval", 3, 100, ["find"], 5))
    assert [task["kind"] for task in tasks("train", 4, 100, ["find", "count"])] == ["find", "count", "find", "count"]


def test_a_billion_words_are_never_held() -> None:
    environment = opened(row(words=10**9))
    page = environment.page(12_345_678)
    assert page == environment.page(12_345_678)
    assert len(page.split()) == environment.page_words
    assert environment.advance(None).messages[0].content == environment.page(0)


def test_what_is_needed_is_what_was_read() -> None:
    environment = opened(row(kind="latest", words=900))
    seen: list[str] = []
    while len(seen) < environment.plan.page_count:
        seen.append(environment.advance(None).messages[0].content)
        said = [fact.statement for fact in environment.plan.facts if fact.statement in " ".join(seen)]
        assert list(environment.needed()) == said[-1:]


@pytest.mark.parametrize(
    ("asked", "opening", "ending"), [("both", True, True), ("first", True, False), ("last", False, True)]
)
def test_where_the_question_stands(asked: str, opening: bool, ending: bool) -> None:
    environment = Recall(asked=asked)
    start = environment.reset(row())
    question = environment.plan.question
    assert (start.messages[1].content == question) is opening
    assert (read(environment)[1] == question) is ending
    assert environment.task_text() == (question if opening else "")


def test_a_document_without_words_asks_at_once() -> None:
    environment = opened(row(words=0))
    assert environment.advance(None).needs_act


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seed": None}, "no column 'seed'"),
        ({"words": -1}, "column 'words' is -1"),
        ({"words": "many"}, "column 'words' is 'many'"),
        ({"split": "trian"}, "did you mean 'train'"),
        ({"kind": "fnd"}, "did you mean 'find'"),
    ],
)
def test_a_bad_row_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        opened(row(**changes))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"style": "prosa"}, "did you mean 'prose'"),
        ({"page_words": 0}, "page_words is 0"),
        ({"asked": "x"}, "asked is 'x'"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        Recall(**settings)
    assert said in str(caught.value)
