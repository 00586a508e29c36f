"""Small worlds: the answer is what a slow reader of the text finds, and the scores tell right from wrong."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from eval.tasks.base import Ask
from eval.tasks.small_worlds import OBJECTS, PLACES
from eval.tasks.worlds import NAMES, Counting, Lists, OneFact, SmallWorld, ThreeFacts, TwoFacts, YesNo, official, strict
from summarization.resolve import UserError
from tests.eval.tasks.samples import ask, quarters, words

TASKS = (OneFact, TwoFacts, ThreeFacts, YesNo, Counting, Lists)
EVENT = re.compile(
    rf"({'|'.join(NAMES)}) (?:(?:went|moved|travelled|walked over) to the (\w+)"
    r"|(took|picked up|grabbed|dropped|put down|left) the (\w+) there"
    r"|(?:gave|handed|passed) the (\w+) to (\w+))\."
)


def solved(text: str, question: str) -> str:
    """Reads every sentence and writes down the place of everyone and everything after each: slow, and obvious."""
    people: dict[str, str] = {}
    hands: dict[str, set[str]] = {}
    seen: dict[str, list[str]] = {thing: [] for thing in OBJECTS}
    for person, place, verb, thing, given, receiver in EVENT.findall(text):
        if place:
            people[person] = place
        elif given:
            hands[person].remove(given)
            hands.setdefault(receiver, set()).add(given)
            assert people[person] == people[receiver]
        elif verb in ("took", "picked up", "grabbed"):
            assert not any(thing in held for held in hands.values())
            assert not seen[thing] or seen[thing][-1] == people[person]
            hands.setdefault(person, set()).add(thing)
        else:
            hands[person].remove(thing)
        for holder, held in hands.items():
            for each in held:
                if seen[each][-1:] != [people[holder]]:
                    seen[each].append(people[holder])
    if found := re.search(r"Where is (\w+)\?", question):
        return people[found[1]]
    if found := re.search(r"Where is the (\w+)\?", question):
        return seen[found[1]][-1]
    if found := re.search(r"Where was the (\w+) before the (\w+)\?", question):
        trail = seen[found[1]]
        return [earlier for earlier, later in pairwise(trail) if later == found[2]][-1]
    if found := re.search(r"Is (\w+) in the (\w+)\?", question):
        return "yes" if people[found[1]] == found[2] else "no"
    if found := re.search(r"How many objects is (\w+) carrying\?", question):
        return ("none", "one", "two", "three")[len(hands.get(found[1], ()))]
    found = re.search(r"What is (\w+) carrying\?", question)
    assert found
    return ",".join(sorted(hands.get(found[1], ()))) or "nothing"


@pytest.mark.parametrize("kind", TASKS)
def test_a_reader_finds_the_answer(kind: type[SmallWorld]) -> None:
    for seed in range(40):
        task = kind(ask(seed))
        text = "\n".join(task.pieces())
        found = solved(text, task.question)
        assert found == ",".join(task.answers())
        assert task.scores(found)["strict"] == 1
        assert task.scores(found)["official"] == (found != "none")
        assert task.scores("")["strict"] == task.scores("")["official"] == 0


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("count", [words, quarters])
@pytest.mark.parametrize("tokens", [1000, 8000, 100_000])
def test_length(kind: type[SmallWorld], count: Callable[[str], int], tokens: int) -> None:
    task = kind(ask(1, tokens, count))
    assert sum(map(count, task.pieces())) == pytest.approx(tokens, rel=0.02)


@pytest.mark.slow
def test_length_of_a_million() -> None:
    task = ThreeFacts(ask(1, 1_000_000))
    assert sum(map(words, task.pieces())) == pytest.approx(1_000_000, rel=0.02)


def test_all_follows_from_the_seed() -> None:
    first, again, other = (TwoFacts(ask(seed)) for seed in (3, 3, 4))
    assert list(first.pieces()) == list(again.pieces()) != list(other.pieces())
    assert first.question == again.question


@pytest.mark.parametrize("kind", TASKS)
def test_no_answer_is_much_more_frequent_than_others(kind: type[SmallWorld]) -> None:
    found = Counter(tuple(kind(ask(seed)).answers()) for seed in range(300))
    possible = {YesNo: 2, Counting: 4, Lists: 8}.get(kind, len(PLACES))
    assert len(found) == possible
    assert max(found.values()) < 300 * min(0.6, 2 / possible + 0.1)


def test_needed_is_the_state_after_what_was_read() -> None:
    task = TwoFacts(ask(5))
    assert not task.needed()
    pages = list(task.pieces())
    assert task.needed()[0] == task.answers()[0]
    assert any(task.needed()[0] in page for page in pages)


def test_needed_follows_the_object() -> None:
    for seed in range(20):
        task = ThreeFacts(ask(seed))
        for _ in task.pieces():
            assert all(word in (*PLACES, *NAMES) for word in task.needed())
        assert task.needed()[0] == task.answers()[0]
        hands = Lists(ask(seed))
        assert list(hands.pieces())
        assert hands.needed() == tuple(each for each in hands.answers() if each != "nothing")


@pytest.mark.parametrize(
    ("answer", "wanted", "question", "labels", "as_public", "as_meant"),
    [
        ("Garden.", ["garden"], "Where is Ada?", PLACES, 1, 1),
        ("She is in the garden, not in the office.", ["garden"], "Where is Ada?", PLACES, 0, 0),
        ("She is in the garden. The office is empty.", ["garden"], "Where is Ada?", PLACES, 1, 0),
        ("St. Ada is in the garden", ["garden"], "Where is Ada?", PLACES, 0, 1),
        ("The officers know", ["office"], "Where is Ada?", PLACES, 1, 0),
        ("Before the kitchen, in the garden", ["garden"], "Where was it before the kitchen?", PLACES, 1, 1),
        ("none", ["none"], "How many?", ("none", "one", "two"), 0, 1),
        ("0", ["none"], "How many?", ("none", "one", "two"), 0, 1),
        ("two", ["two"], "How many?", ("none", "one", "two"), 1, 1),
        ("I know: yes", ["yes"], "Is she?", ("yes", "no"), 0, 1),
        ("yes or no", ["yes"], "Is she?", ("yes", "no"), 0, 0),
        ("milk and the apple", ["apple", "milk"], "What?", ("apple", "football", "milk", "nothing"), 1, 1),
        ("milk", ["apple", "milk"], "What?", ("apple", "football", "milk", "nothing"), 0, 0),
        ("apple, football, milk", ["apple", "milk"], "What?", ("apple", "football", "milk", "nothing"), 0, 0),
        ("garden <example> kitchen", ["garden"], "Where?", PLACES, 1, 0),
    ],
)
def test_scores(
    answer: str, wanted: list[str], question: str, labels: tuple[str, ...], as_public: int, as_meant: int
) -> None:
    assert official(answer, wanted, question, labels) == as_public
    assert strict(answer, wanted, question, labels) == as_meant


def test_every_answer_can_be_right_by_name() -> None:
    """A name that holds a label would make the official score 0 whatever is answered."""
    for kind in TASKS:
        if not set(kind.labels) & set(PLACES):
            assert not any(label in name.lower() for name in NAMES for label in kind.labels)


@pytest.mark.parametrize(("kind", "facts"), [(OneFact, 1), (YesNo, 1), (TwoFacts, 2), (ThreeFacts, 3), (Lists, 1)])
def test_as_few_facts_as_a_question_needs(kind: type[SmallWorld], facts: int) -> None:
    task = kind(ask(2, options={"facts": facts}))
    assert solved("\n".join(task.pieces()), task.question) == ",".join(task.answers())


@pytest.mark.parametrize(
    ("kind", "options", "sentence"),
    [
        (OneFact, {"facts": 0}, "task 'world_one_fact': facts is 0, must be at least 1"),
        (OneFact, {"people": 0}, "task 'world_one_fact': people is 0, must be between 1 and"),
        (OneFact, {"people": 500}, "task 'world_one_fact': people is 500, must be between 1 and"),
        (TwoFacts, {"facts": 1}, "task 'world_two_facts': facts is 1, too few for a question: ask for more facts"),
    ],
)
def test_mistakes(kind: type[SmallWorld], options: dict[str, int], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        kind(ask(options=options))


def test_filler_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "novel.txt"
    path.write_text("It rained all day. The dog slept.\n\nNobody came.")
    task = OneFact(Ask(0, 1000, words, {}, str(path)))
    text = "\n".join(task.pieces())
    assert "The dog slept." in text
    assert solved(text, task.question) == task.answers()[0]
