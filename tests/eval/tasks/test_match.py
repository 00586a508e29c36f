"""Both kinds of measure, on answers worked out by hand."""

from __future__ import annotations

import re

import pytest

from eval.tasks.match import (
    ABSTENTIONS,
    NUMBERS,
    UUIDS,
    any_of,
    plain_numbers,
    strict_abstention,
    strict_all,
    strict_part,
    string_match_all,
    string_match_part,
)

UUID = "0723a8c0-a9cf-4237-8461-18ee6b51b25b"
OTHER_UUID = "d44dff7d-46a6-4f94-a7c5-7a82fef45271"


@pytest.mark.parametrize(
    ("answer", "official", "strict"),
    [
        ("1234567, 2345678", 1.0, 1.0),
        ("1234567,2345678", 1.0, 1.0),
        ("They are **1234567** and 2345678.", 1.0, 1.0),
        ("1. 1234567\n2. 2345678", 1.0, 1.0),
        ("-1234567\n-2345678", 1.0, 1.0),
        ("2345678", 0.5, 0.5),
        ("12345678", 1.0, 0.0),
        ("12345678 9", 1.0, 0.0),
        ("1234567 2345678 3456789", 1.0, 0.0),
        ("1234567 or 3456789", 0.5, 0.0),
        ("1234567.5", 0.5, 0.0),
        ("", 0.0, 0.0),
        ("no idea", 0.0, 0.0),
    ],
)
def test_numbers(answer: str, official: float, strict: float) -> None:
    wanted = ("1234567", "2345678")
    assert string_match_all(answer, wanted) == official
    assert strict_all(answer, wanted, NUMBERS) == strict


@pytest.mark.parametrize(
    ("answer", "official", "strict"),
    [
        (UUID, 1.0, 1.0),
        (UUID.upper(), 1.0, 1.0),
        (f"The uuid for {OTHER_UUID} is {UUID}.", 1.0, 1.0),
        (UUID + "0", 1.0, 0.0),
        (UUID[:8], 0.0, 0.0),
        (f"{UUID} or {UUID[:-1]}0", 1.0, 0.0),
    ],
)
def test_what_the_question_names_may_be_repeated(answer: str, official: float, strict: float) -> None:
    assert string_match_all(answer, [UUID]) == official
    assert strict_all(answer, [UUID], UUIDS, beside=[OTHER_UUID]) == strict


@pytest.mark.parametrize(
    ("answer", "official", "strict"),
    [
        ("the pear", 1.0, 1.0),
        ("PEAR!", 1.0, 1.0),
        ("pearl", 1.0, 0.0),
        ("pear-tree", 1.0, 0.0),
        ("pear and plum", 1.0, 0.0),
        ("red  plum", 0.0, 0.0),
        ("", 0.0, 0.0),
    ],
)
def test_any_alias_will_do(answer: str, official: float, strict: float) -> None:
    kind = any_of(["pear", "plum", "red plum"])
    assert string_match_part(answer, ["pear", "yellow pear"]) == official
    assert strict_part(answer, ["pear", "yellow pear"], kind) == strict


def test_a_candidate_inside_the_right_answer_is_none_of_its_own() -> None:
    assert strict_all("red plum", ["red plum"], any_of(["plum", "red plum"])) == 1.0
    assert strict_all("red plum, plum", ["red plum"], any_of(["plum", "red plum"])) == 0.0


def test_an_answer_wanted_twice_counts_once() -> None:
    assert strict_all("pear", ["pear", "Pear"], re.compile("plum")) == 1.0


@pytest.mark.parametrize(
    "answer",
    [
        "unknown",
        "Unknown.",
        "It is not mentioned.",
        "The text does not mention it.",
        "The text doesn't say.",
        "The text doesn’t give any number for this.",
        "It isn't in the text.",
        "There is no such number.",
        "No special magic number is given.",
        "It cannot be determined.",
        "I can't find it.",
        "None",
        "n/a",
    ],
)
def test_abstentions(answer: str) -> None:
    assert strict_abstention(answer, NUMBERS) == 1.0


@pytest.mark.parametrize("answer", ["", "1234567", "unknown, perhaps 1234567", "yes", "The number is known.", "note"])
def test_no_abstentions(answer: str) -> None:
    assert strict_abstention(answer, NUMBERS) == 0.0


def test_abstentions_by_substring_take_a_guess_as_well() -> None:
    answer = "unknown, perhaps 1234567"
    assert (string_match_part(answer, ABSTENTIONS), strict_abstention(answer, NUMBERS)) == (1.0, 0.0)


def test_numbers_are_read_with_and_without_commas() -> None:
    assert plain_numbers("1,234,567") == "1234567"
    assert plain_numbers("1234567,2345678") == "1234567,2345678"
    assert plain_numbers("1234567, 234") == "1234567, 234"
