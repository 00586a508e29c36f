"""The ledger: adding up all lines gives the answer, and only numbers beside their names score."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from eval.tasks.ledger import Ledger, strict
from summarization.resolve import UserError
from tests.eval.tasks.samples import ask, quarters, words

NAMES = ("Ada", "Bo", "Cy", "Anna", "Ann")


def balances(text: str) -> dict[str, int]:
    """Adds up the lines, one after the other: slow, and obvious."""
    found: dict[str, int] = {}
    for line in text.split("\n"):
        number = re.search(r"\d+", line)
        assert number, line
        amount = int(number[0])
        if opens := re.fullmatch(r"The account of (\w+) opens with \d+ coins\.", line):
            assert opens[1] not in found
            found[opens[1]] = amount
        elif gets := re.fullmatch(r"(\w+) deposits .*|.* are paid into the account of (\w+)\.", line):
            found[gets[1] or gets[2]] += amount
        elif pays := re.fullmatch(r"(\w+) withdraws .*|.* are taken out of the account of (\w+)\.", line):
            found[pays[1] or pays[2]] -= amount
        elif sent := re.fullmatch(r"(\w+) sends \d+ coins to (\w+)\.", line):
            found[sent[1]] -= amount
            found[sent[2]] += amount
        else:
            received = re.fullmatch(r"(\w+) receives \d+ coins from (\w+)\.", line)
            assert received, line
            found[received[1]] += amount
            found[received[2]] -= amount
        assert min(found.values()) >= 0
    return found


def asked(task: Ledger) -> list[str]:
    found = re.search(r"accounts: (.+?)\?", task.question)
    assert found
    return found[1].split(", ")


@pytest.mark.parametrize("options", [{}, {"accounts": 1, "asked": 1}, {"accounts": 12, "asked": 12}])
def test_a_reader_finds_the_answer(options: dict[str, int]) -> None:
    for seed in range(30):
        task = Ledger(ask(seed, 2000, options=options))
        found = balances("\n".join(task.pieces()))
        lines = [f"{name}: {found[name]}" for name in asked(task)]
        assert tuple(lines) == tuple(task.answers())
        assert task.scores("\n".join(lines)) == {"official": 1.0, "strict": 1.0}
        assert task.scores("") == {"official": 0.0, "strict": 0.0}


@pytest.mark.parametrize("count", [words, quarters, len])
@pytest.mark.parametrize("tokens", [1000, 8000, 100_000])
def test_length(count: Callable[[str], int], tokens: int) -> None:
    pieces = Ledger(ask(1, tokens, count)).pieces()
    # A character for a token is out of all proportion, and a line is then more than 2 % of 1,000 tokens.
    assert sum(map(count, pieces)) == pytest.approx(tokens, rel=0.03 if count is len else 0.02)


@pytest.mark.slow
def test_length_of_a_million() -> None:
    task = Ledger(ask(1, 1_000_000))
    assert sum(map(words, task.pieces())) == pytest.approx(1_000_000, rel=0.02)


def test_all_follows_from_the_seed() -> None:
    first, again, other = (Ledger(ask(seed)) for seed in (3, 3, 4))
    assert list(first.pieces()) == list(again.pieces()) != list(other.pieces())
    assert first.question == again.question != other.question


def test_accounts_that_matter_change_often_and_others_are_there() -> None:
    task = Ledger(ask(0, 20_000))
    lines = list(task.pieces())
    for name in asked(task):
        assert sum(name in line for line in lines) > len(lines) / 20
    others = [line for line in lines if not any(name in line for name in re.findall(r"[A-Z]\w+", task.wait)[1:])]
    assert len(others) > len(lines) / 4


def test_balances_are_as_hard_to_guess_in_a_long_ledger() -> None:
    found: list[int] = []
    for seed in range(10):
        task = Ledger(ask(seed, 20_000, options={"asked": 4}))
        assert list(task.pieces())
        found += [int(answer.split(": ")[1]) for answer in task.answers()]
    assert len(set(found)) > 0.9 * len(found)
    assert max(found) - min(found) > 300
    assert 100 < sorted(found)[len(found) // 2] < 2000


def test_needed_is_the_balance_after_what_was_read() -> None:
    task = Ledger(ask(1))
    assert not task.needed()
    read: list[str] = []
    for piece in task.pieces():
        if read:
            now = balances("\n".join(read))
            assert tuple(task.needed()) == tuple(str(now[name]) for name in asked(task) if name in now)
        read.append(piece)


def test_who_is_asked_only_at_the_end_knows_what_to_keep() -> None:
    task = Ledger(ask(1))
    assert all(name in task.wait for name in asked(task))


def test_a_dump_gets_no_strict_credit_but_by_chance() -> None:
    for seed in range(20):
        task = Ledger(ask(seed))
        text = "\n".join(task.pieces())
        assert task.scores(text)["strict"] < 1
        assert task.scores(" ".join(map(str, range(10_000)))) == {"official": 1.0, "strict": 0.0}


@pytest.mark.parametrize(
    ("answer", "as_meant"),
    [
        ("Ada: 512\nBo: 7", 1),
        ("bo = 7, ada = 512.", 1),
        ("Ada: 1512\nBo: 7", 0.5),
        ("Ada: 5\nBo: 7\nAda: 512", 1),
        ("Ada: 512\nBo: 7\nAda: 5", 0.5),
        ("Ada: 512\nCy: 7\nBo", 0.5),
        ("Ada: 500 + 12 = 512, Bo: $7.00", 1),
        ("Ada: **512** coins; Bo: **7** coins", 1),
        ("Adalbert: 512, Bo7", 0),
        ("Ada: -512, Bo: - 7", 0.5),
        ("512, 7", 0),
        ("Ada: 7, Bo: 512", 0),
    ],
)
def test_strict(answer: str, as_meant: float) -> None:
    assert strict(answer, {"Ada": 512, "Bo": 7}, NAMES) == as_meant


def test_strict_with_one_account() -> None:
    assert strict("512", {"Ada": 512}, NAMES) == 1
    assert strict("It is 1,512 coins.", {"Ada": 1512}, NAMES) == 1
    assert strict("Cy: 512", {"Ada": 512}, NAMES) == 0
    assert strict("Anna: 512", {"Ann": 512}, NAMES) == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"accounts": 0}, "task 'ledger': accounts is 0, must be between 1 and"),
        ({"accounts": 500}, "task 'ledger': accounts is 500, must be between 1 and"),
        ({"asked": 5}, "task 'ledger': asked is 5, must be between 1 and accounts, which is 4"),
        ({"asked": 0}, "task 'ledger': asked is 0, must be between 1 and accounts, which is 4"),
        ({"asked": "two"}, "asked is 'two', must be like its default 2"),
    ],
)
def test_mistakes(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        Ledger(ask(options=options))


def test_a_sample_too_short_for_its_accounts() -> None:
    with pytest.raises(UserError, match="length is 20 tokens, too few to open 4 accounts"):
        list(Ledger(ask(tokens=20)).pieces())
