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


SHARES = st.lists(st.floats(0.001, 1.0), min_size=2, max_size=2).map(sorted)


@given(SHARES, st.integers(1, 2**20), st.integers(), st.text(), st.integers(0, 1000))
def test_a_limit_lies_between_its_shares_of_the_window(
    shares: list[float], window: int, seed: int, task: str, compaction: int
) -> None:
    low, high = shares
    assert int(window * low) <= TokenBudget(low, high).limit(window, seed, task, compaction) <= window * high


def test_every_part_of_the_key_moves_the_draw() -> None:
    limits = [TokenBudget(0.1, 0.9).limit(10**9, *key) for key in [(0, "t", 0), (1, "t", 0), (0, "u", 0), (0, "t", 1)]]
    assert len(set(limits)) == 4


@given(st.floats(0.001, 1.0), st.integers(), st.text(), st.integers(0, 1000))
def test_equal_shares_draw_nothing(share: float, seed: int, task: str, compaction: int) -> None:
    assert TokenBudget(share, share).limit(1000, seed, task, compaction) == int(1000 * share)


def test_draws_differ_between_compactions_and_fill_the_range() -> None:
    draws = [uniform_draw("trigger", 0, "task", index) for index in range(1000)]
    assert len(set(draws)) == 1000
    assert 0.45 < sum(draws) / 1000 < 0.55
    assert min(draws) < 0.01
    assert max(draws) > 0.99


def test_a_draw_is_the_same_on_every_machine() -> None:
    assert uniform_draw("trigger", 1, "a", 2) == pytest.approx(0.3523195711434871, abs=1e-12)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.9, 0.5), (0.5, 1.1), (-1.0, 0.5), (float("nan"), 1.0)])
def test_impossible_shares_are_refused(low: float, high: float) -> None:
    with pytest.raises(ValueError, match="trigger shares"):
        TokenBudget(low, high)
