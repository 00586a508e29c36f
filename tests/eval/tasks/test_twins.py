"""Twins: the same question on a text without the answer, or that first says something else. One test for all tasks."""

from __future__ import annotations

import re

import pytest

from eval.reading import task_class
from eval.tasks.base import Ask, Task
from eval.tasks.known import BUILTIN
from eval.tasks.worlds import SmallWorld
from summarization.metrics import held
from summarization.resolve import UserError
from tests.eval.tasks.samples import words

# An empty list is the answer of GraphWalks to a question that nothing answers.
EMPTY = ("graphwalks_bfs", "graphwalks_parents")
ABSENT = [name for name in BUILTIN if "absent" in task_class(name).defaults]
CONTRADICTED = [name for name in ABSENT if "contradicted" in task_class(name).defaults and name != "niah_multivalue"]
WITHOUT = ("cwe", "fwe", "world_counting", "world_lists", "entropy")
PROSE = {"recall": {"style": "prose"}, "chain": {"style": "prose"}}


def made(name: str, seed: int = 0, **options: object) -> Task:
    return task_class(name)(Ask(seed, 4000, words, {**PROSE.get(name, {}), **options}))


def abstaining(name: str) -> str:
    return "Final Answer: []" if name in EMPTY else "The text does not mention it."


def stated(task: Task) -> str:
    """A right answer in the form that both scores want."""
    right = task.answers()
    return f"Final Answer: [{', '.join(right)}]" if task.name in EMPTY else "\n".join(right)


def test_every_task_has_a_twin_or_a_reason_to_have_none() -> None:
    assert set(BUILTIN) == {*ABSENT, *WITHOUT}
    assert len(CONTRADICTED) == 10


@pytest.mark.parametrize("name", ABSENT)
def test_the_absent_twin(name: str) -> None:
    for seed in range(4):
        full, twin = made(name, seed, may_abstain=True), made(name, seed, may_abstain=True, absent=True)
        before = full.question
        assert "does not give it" in before
        assert (full.answer_prefix, full.system, full.wait) == (twin.answer_prefix, twin.system, twin.wait)
        text = list(full.pieces())
        lacking = list(twin.pieces())
        assert twin.question == full.question == before
        assert text != lacking
        assert abs(sum(map(words, lacking)) / 4000 - 1) <= 0.02
        assert tuple(twin.needed()) == ()
        assert tuple(twin.answers()) == (() if name in EMPTY else ("unknown",))
        assert twin.scores(abstaining(name)) == {"official": 1.0, "strict": 1.0}
        assert twin.scores(stated(full))["strict"] == 0.0
        assert twin.scores(stated(full))["official"] == 0.0
        # BABILong's scorer finds the "no" in "not".
        assert full.scores(abstaining(name)) == {
            "official": float(name == "world_yes_no" and full.answers() == ("no",)),
            "strict": 0.0,
        }
        assert full.scores(stated(full)) == {"official": 1.0, "strict": 1.0}
        assert twin.scores("")["strict"] == 0.0
        # A function's name may be an English word: it counts where it is written as code.
        hedged = f"{abstaining(name)} Perhaps {'`' + stated(full) + '`' if name == 'codebase' else stated(full)}"
        assert twin.scores(hedged)["strict"] == 0.0


@pytest.mark.parametrize("name", [name for name in ABSENT if name not in ("codebase", "recall", "chain")])
def test_without_what_is_asked_for_everything_else_stays(name: str) -> None:
    """What is left stands in the same order, and filler takes the place of what is gone at the end."""
    task = made(name, 1)
    full, lacking = list(task.pieces()), list(made(name, 1, absent=True).pieces())
    there = set(lacking)
    left = [piece for piece in full if piece in there]
    assert 0 < len(full) - len(left) < (0.5 if name == "ledger" else 0.3) * len(full)
    if isinstance(task, SmallWorld):
        # A depth is a share of what there is of filler, so a sentence may stand one paragraph further on.
        told = {event.text for event in task._story}
        assert [piece for piece in lacking if piece in told] == [piece for piece in left if piece in told]
        left, lacking = ([piece for piece in pieces if piece not in told] for pieces in (left, lacking))
    # The last piece of filler is cut to fit.
    assert lacking[: len(left) - 1] == left[:-1]


@pytest.mark.parametrize("name", ["recall", "chain"])
def test_only_the_page_with_the_fact_differs(name: str) -> None:
    full, lacking = (list(made(name, 1, absent=absent).pieces()) for absent in (False, True))
    assert sum(one != other for one, other in zip(full, lacking, strict=True)) == 1


def test_what_is_gone_in_each_family() -> None:
    for seed in range(10):
        for name, subject in (
            ("world_one_fact", r"Where is (\w+)\?"),
            ("world_two_facts", r"Where is the (\w+)\?"),
            ("world_three_facts", r"Where was the (\w+) before"),
            ("world_yes_no", r"Is (\w+) in the"),
            ("vt", r"hold the value (\d+)\?"),
        ):
            task = made(name, seed, absent=True)
            (about,) = re.findall(subject, task.question)
            # Objects are words of everyday prose too, which is no sentence of the story.
            told = re.findall(rf"[A-Z]\w+ (?:took|picked up|left|gave|dropped) the {about}\b", " ".join(task.pieces()))
            assert not told
            if name in ("world_one_fact", "world_yes_no", "vt"):
                assert not held(about, " ".join(made(name, seed, absent=True).pieces()))
        ledger = made("ledger", seed, absent=True)
        found = re.search(r"accounts: (.+?)\?", ledger.question)
        assert found
        text = " ".join(ledger.pieces())
        assert not any(held(name, text) for name in found[1].split(", "))
        assert sum(name in text for name in ledger.wait.split("accounts of ")[1].split(":")[0].split(", ")) == 2
        for name in EMPTY:
            graph = made(name, seed, absent=True)
            (node,) = re.findall(r"\b[0-9a-f]{10}\b", graph.question)
            lines = "\n".join(graph.pieces())
            assert not re.search(rf"{node} ->" if name == "graphwalks_bfs" else rf"-> {node}", lines)
            assert len(lines.splitlines()) > 100
        chat = made("mrcr", seed, absent=True)
        (number, request) = re.findall(r"Reproduce the (\d+)\w\w (.+) that", chat.question)[0]
        assert "\n".join(chat.pieces()).count(f"{request}\n") == int(number) - 1


def test_the_absent_twin_of_an_article_lacks_the_answering_one_alone() -> None:
    for seed in range(10):
        task = made("qa_2", seed, absent=True)
        text = "\n".join(task.pieces())
        person = re.findall(r"town where (.+) was born", task.question)[0]
        assert f"Article: {person}\n" in text
        (town,) = re.findall(rf"{person} was born in (\w+)|birth of {person}, in the town of (\w+)", text)
        assert f"Article: {''.join(town)}\n" not in text


@pytest.mark.parametrize("kind", ["defined_in", "default_of", "constant", "caller_of"])
def test_the_absent_twin_of_code_lacks_the_file(kind: str) -> None:
    for seed in range(3):
        full, twin = made("codebase", seed, kind=kind), made("codebase", seed, kind=kind, absent=True)
        names = [{re.findall(r"# (\S+), part", piece)[0] for piece in task.pieces()} for task in (full, twin)]
        assert len(names[0] - names[1]) >= 1
        text = "\n".join(twin.pieces())
        (about,) = re.findall(r"`([^`]+)`", twin.question)[:1]
        if kind == "defined_in":
            assert not re.search(rf"^\s*(?:def|class) {about}\b", text, re.MULTILINE)
            assert twin.scores(f"Not found, unless in {full.answers()[0]}") == {"official": 1.0, "strict": 0.0}
        elif kind != "caller_of":
            assert f"# {about}, part" not in text
            assert twin.scores(f"The value in `{about}` is not given.") == {"official": 1.0, "strict": 1.0}


@pytest.mark.parametrize("name", CONTRADICTED)
def test_what_is_contradicted_is_stated_twice_and_the_last_holds(name: str) -> None:
    for seed in range(6):
        plain, twin = made(name, seed), made(name, seed, contradicted=True)
        seen: list[tuple[str, ...]] = []
        size = 0
        for piece in twin.pieces():
            size += words(piece)
            if not seen or seen[-1] != tuple(twin.needed()):
                seen.append(tuple(twin.needed()))
        seen.append(tuple(twin.needed()))
        assert abs(size / 4000 - 1) <= 0.02
        list(plain.pieces())
        assert twin.scores(stated(twin)) == {"official": 1.0, "strict": 1.0}
        if name != "ledger":
            # The balances of a ledger go on changing, as many entries as there is room for.
            assert twin.answers() == plain.answers()
            assert set(twin.needed()) >= set(twin.answers())
            outdated = {fact for facts in seen for fact in facts} - set(twin.answers())
            wrong = [fact for fact in outdated if fact not in plain.needed()]
            assert wrong
            assert any(twin.scores(fact)["strict"] == 0.0 for fact in wrong)


def test_a_ledger_that_corrects_its_openings_adds_up() -> None:
    for seed in range(10):
        task = made("ledger", seed, contradicted=True)
        text = "\n".join(task.pieces())
        found = re.search(r"accounts: (.+?)\?", task.question)
        assert found
        for name in found[1].split(", "):
            (opened,) = re.findall(rf"The account of {name} opens with (\d+) coins", text)
            ((right, wrong),) = re.findall(rf"account of {name} opened with (\d+) coins, not with (\d+)", text)
            assert opened == wrong
            assert int(wrong) > int(right)
            balance = int(right)
            for line in text.splitlines():
                amount = int(re.findall(r"\d+", line)[0])
                if re.match(
                    rf"{name} deposits|.*paid into the account of {name}\.|.*coins to {name}\.", line
                ) or re.match(rf"{name} receives", line):
                    balance += amount
                elif re.match(
                    rf"{name} (?:withdraws|sends)|.*out of the account of {name}\.|.*coins from {name}\.", line
                ):
                    balance -= amount
            assert f"{name}: {balance}" in task.answers()


def test_a_ledger_too_short_for_its_corrections_is_refused() -> None:
    with pytest.raises(UserError, match="ask for a longer sample"):
        list(task_class("ledger")(Ask(0, 30, words, {"contradicted": True})).pieces())


def test_absent_wins_where_both_twins_are_asked_for() -> None:
    for name in CONTRADICTED:
        task = made(name, absent=True, contradicted=True)
        list(task.pieces())
        assert (tuple(task.needed()), tuple(task.answers())) == ((), ("unknown",))


def test_counting_letters_has_no_absent_twin() -> None:
    with pytest.raises(UserError, match="of kind 'count' the answer would be 0"):
        made("recall", kind="count", absent=True)
    for name in WITHOUT:
        with pytest.raises(UserError, match="has no option 'absent'"):
            made(name, absent=True)
