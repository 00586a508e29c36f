"""Upper and lower bounds, and the memory rewritten at every page; with strings and counts alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from summarization.controls import KeepRecent, MemoryRewrite, OracleSummary, Unsampled
from summarization.parse import Summary
from summarization.prompts import TINY
from summarization.resolve import resolve
from summarization.strategies import BUILTIN, SelfSummary
from tests.summarization.test_strategies import OPENING, PAGES, STATE


def test_a_memory_is_rewritten_before_whatever_comes() -> None:
    assert MemoryRewrite(8).due(replace(STATE, in_use=1))
    assert not MemoryRewrite(8).due(replace(STATE, incoming=0))
    assert MemoryRewrite(8).reopen(STATE, Summary("x")) == SelfSummary(8).reopen(STATE, Summary("x"))


def test_recent_messages_are_kept() -> None:
    assert KeepRecent(8).reopen(STATE, Summary("x"))[-1] == PAGES[-1]
    assert KeepRecent(8).due(STATE) == SelfSummary(8).due(STATE)


@pytest.mark.parametrize("strategy", [Unsampled(), OracleSummary()])
def test_nobody_samples_and_no_room_is_kept_for_it(strategy: Unsampled) -> None:
    assert strategy.request(STATE) is None
    assert strategy.summary_tokens == 0
    assert strategy.due(replace(STATE, incoming=11))
    assert not strategy.due(STATE)


def test_the_oracle_carries_what_is_needed_and_the_empty_summary_nothing() -> None:
    state = replace(STATE, needed=("ada oslo", "ham 3"))
    oracle = OracleSummary(style=TINY).reopen(state, None)
    assert oracle[:2] == OPENING
    assert oracle[2].content.endswith("summary ada oslo . ham 3 .")
    assert OracleSummary(style=TINY).reopen(STATE, None)[2].content.endswith("summary none .")
    assert Unsampled(style=TINY).reopen(state, None)[2].content.endswith("summary ")


def test_they_have_names() -> None:
    for name in ("keep_recent", "memory_rewrite", "oracle_summary", "empty_summary"):
        assert resolve(name, BUILTIN, "strategy")().name == name
