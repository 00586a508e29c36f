"""Strategies, with strings and counts alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from summarization.messages import Message
from summarization.parse import Summary
from summarization.prompts import TINY, Progress, PromptStyle, carry_message, request_message
from summarization.strategies import (
    BUILTIN,
    ContextState,
    FrozenSummary,
    NoCompaction,
    SelfSummary,
    SlidingWindow,
    Strategy,
)
from summarization.trigger import TokenBudget

OPENING = (Message("system", "read"), Message("user", "where is ada ?"))
PAGES = tuple(Message("user", f"page {index}") for index in range(5))
STATE = ContextState(
    window=100,
    in_use=70,
    incoming=10,
    reserve=20,
    opening=OPENING,
    messages=PAGES,
    message_tokens=(10, 10, 10, 10, 10),
    task_text="where is ada ?",
    seed=0,
    task_id="t",
    progress=Progress(compactions=3, turns=4, tokens=560),
)


@pytest.mark.parametrize("strategy", [SelfSummary(8), FrozenSummary(8), SlidingWindow()])
def test_due_exactly_when_the_window_would_overflow(strategy: Strategy) -> None:
    assert not strategy.due(STATE)
    assert strategy.due(replace(STATE, incoming=11))
    assert strategy.due(replace(STATE, in_use=71))
    assert strategy.due(replace(STATE, reserve=21))


def test_a_summary_opens_the_next_window_after_system_and_task() -> None:
    messages = SelfSummary(8).reopen(STATE, Summary("ada is in oslo"))
    assert messages[:2] == OPENING
    (carried,) = messages[2:]
    assert carried.role == "user"
    for part in ("ada is in oslo", "Compactions so far: 3", "Turns so far: 4", "Tokens so far: 560"):
        assert part in carried.content


def test_the_last_messages_are_kept_verbatim_where_asked() -> None:
    assert SelfSummary(8, keep_last=2).reopen(STATE, Summary("x"))[3:] == PAGES[-2:]
    assert SelfSummary(8, keep_last=99).reopen(STATE, Summary("x"))[3:] == PAGES


def test_without_a_reply_the_next_window_opens_all_the_same() -> None:
    assert SelfSummary(8).reopen(STATE, None)[:2] == OPENING


def test_the_request_names_budget_and_task() -> None:
    request = SelfSummary(123).request(STATE)
    assert request is not None
    assert "123 tokens" in request.content
    assert "where is ada ?" in request.content


def test_the_frozen_summary_is_sampled_by_the_other_policy() -> None:
    assert SelfSummary(8).sampler == "policy"
    assert FrozenSummary(8).sampler == "frozen"
    assert FrozenSummary(8).request(STATE) == SelfSummary(8).request(STATE)
    assert FrozenSummary(8).reopen(STATE, Summary("x")) == SelfSummary(8).reopen(STATE, Summary("x"))


def test_the_sliding_window_keeps_the_newest_that_fit_half_of_what_is_free() -> None:
    # The opening takes 70 - 50 = 20 of 100; 10 come and 20 are reserved: 50 are free, of which 25 may be kept.
    assert SlidingWindow().request(STATE) is None
    assert SlidingWindow().reopen(STATE, None) == (*OPENING, *PAGES[-2:])
    assert SlidingWindow(keep_share=0.0).reopen(STATE, None) == OPENING
    huge = replace(STATE, in_use=86, message_tokens=(10, 10, 10, 10, 26))
    assert SlidingWindow().reopen(huge, None) == OPENING


def test_none_never_compacts() -> None:
    assert not NoCompaction().due(replace(STATE, in_use=10_000))
    assert NoCompaction().request(STATE) is None
    with pytest.raises(RuntimeError, match="never due"):
        NoCompaction().reopen(STATE, None)


def test_a_drawn_trigger_compacts_earlier() -> None:
    early = SelfSummary(8, trigger=TokenBudget(0.5, 0.6))
    assert early.due(replace(STATE, in_use=40))
    assert not early.due(replace(STATE, in_use=15))


@pytest.mark.parametrize(
    "build",
    [lambda: SelfSummary(0), lambda: FrozenSummary(8, keep_last=-1), lambda: SlidingWindow(keep_share=1.0)],
)
def test_impossible_settings_are_refused(build: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        build()  # type: ignore[operator]


def test_every_builtin_is_there() -> None:
    from summarization.resolve import resolve

    assert {name: resolve(name, BUILTIN, "strategy")().name for name in BUILTIN} == {name: name for name in BUILTIN}


def test_the_tiny_style_spells_numbers_out() -> None:
    assert request_message(TINY, 40, "q").content == "summarize in 4 0 tokens : q"
    assert carry_message(TINY, "s", Progress(12, 3, 456)).content.startswith("1 2 compactions 3 turns 4 5 6 tokens")


def test_what_is_left_and_what_to_keep_stand_in_the_state() -> None:
    text = carry_message(PromptStyle(), "s", Progress(1, 2, 3, turns_left=7, keep="plan: go on")).content
    assert "Turns left: 7." in text
    assert "plan: go on" in text


def test_braces_in_a_summary_stay_braces() -> None:
    assert "{summary} {0}" in carry_message(PromptStyle(), "{summary} {0}", Progress(1, 2, 3)).content
    assert "{budget}" in request_message(PromptStyle(), 8, "what is {budget}?").content


def test_a_template_with_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValueError, match=r"prompt 'request'.*\{budget\}"):
        PromptStyle(request="summarize in {tokens}")
