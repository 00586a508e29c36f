"""When a compaction is due."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summarization.trigger import TokenBudget, uniform_draw


def test_the_fixed_trigger_fires_exactly_when_the_window_would_overflow() -> None:
    trigger = TokenBudget()
    limit = trigger.limit(100, 0, "task", 0)
    assert limit == 100
    assert not trigger.fires(in_use=60, incoming=20, reserve=20, limit=limit)
    assert trigger.fires(in_use=61, incoming=20, reserve=20, limit=limit)


@given(st.integers(0, 99), st.text(), st.integers(0, 1000))
def test_a_drawn_trigger_is_a_function_of_seed_task_and_compaction(seed: int, task: str, compaction: int) -> None:
    trigger = TokenBudget(0.5, 0.9)
    limit = trigger.limit(1000, seed, task, compaction)
    assert 500 <= limit <= 900
    assert limit == TokenBudget(0.5, 0.9).limit(1000, seed, task, compaction)


def test_draws_differ_between_compactions_and_fill_the_range() -> None:
    draws = [uniform_draw("trigger", 0, "task", index) for index in range(1000)]
    assert len(set(draws)) == 1000
    assert 0.45 < sum(draws) / 1000 < 0.55
    assert min(draws) < 0.01
    assert max(draws) > 0.99


def test_a_draw_is_the_same_on_every_machine() -> None:
    assert uniform_draw("trigger", 1, "a", 2) == pytest.approx(0.3523195711434871, abs=1e-12)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.9, 0.5), (0.5, 1.1), (-1.0, 0.5)])
def test_impossible_shares_are_refused(low: float, high: float) -> None:
    with pytest.raises(ValueError, match="trigger shares"):
        TokenBudget(low, high)
