"""Figures about summaries."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from summarization.metrics import compression, growth, held, retention


@dataclass(frozen=True)
class Step:
    """A compaction, as far as these figures care."""

    tokens_before: int = 100
    tokens_after: int = 20
    summary_tokens: int = 10
    needed: tuple[str, ...] = ()
    kept: tuple[bool, ...] = ()


@pytest.mark.parametrize(
    ("fact", "text", "expected"),
    [
        ("ada is in oslo", "x ada is in oslo .", True),
        ("ada is in oslo", "Ada  is\nin Oslo.", True),
        ("123456", "it costs 1234567", False),
        ("is in oslo", "this in oslo", False),
        ("ada oslo", "ada is in oslo", False),
        ("", "anything", True),
        ("a.b", "axb", False),
    ],
)
def test_held_means_whole_words_in_a_row(fact: str, text: str, expected: bool) -> None:
    assert held(fact, text) is expected


def test_compression_is_the_mean_of_after_over_before() -> None:
    assert compression([Step(), Step(tokens_after=40)]) == pytest.approx(0.3)
    assert compression([]) is None


def test_a_lost_fact_counts_once() -> None:
    kept, lost = Step(needed=("a",), kept=(True,)), Step(needed=("a",), kept=(False,))
    assert retention([kept, kept, lost, lost, lost]) == pytest.approx(2 / 3)
    assert retention([Step()]) is None
    assert retention([lost]) == 0.0


def test_a_fact_that_was_met_again_counts_again() -> None:
    kept, lost = Step(needed=("a",), kept=(True,)), Step(needed=("a",), kept=(False,))
    assert retention([kept, lost, kept, lost]) == pytest.approx(2 / 4)


def test_growth_is_last_over_first() -> None:
    assert growth([Step(), Step(summary_tokens=15)]) == pytest.approx(1.5)
    assert growth([Step()]) is None
    assert growth([Step(summary_tokens=0), Step()]) is None
