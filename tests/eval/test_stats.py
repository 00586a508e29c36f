"""Intervals: values worked out by hand, and whether they cover what they should."""

from __future__ import annotations

import math

import numpy as np
import pytest

from eval.stats import (
    Interval,
    clustered,
    mean_interval,
    paired_difference,
    ratio_interval,
    student_quantile,
    wilson,
    within,
)


def test_wilson_by_hand() -> None:
    # z = 1.959964: (0.8 + z^2/20) / (1 + z^2/10) -+ z / (1 + z^2/10) * sqrt(0.016 + z^2/400)
    interval = wilson(8, 10)
    assert (interval.low, interval.high) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))
    assert wilson(0, 10).low == 0.0
    assert wilson(0, 10).high == pytest.approx(0.2775, abs=1e-4)
    assert wilson(10, 10).high == 1.0
    for successes, n in ((1, 0), (3, 2), (-1, 2)):
        with pytest.raises(ValueError, match="no share"):
            wilson(successes, n)


@pytest.mark.parametrize(
    ("degrees", "quantile"), [(1, 12.706), (2, 4.303), (3, 3.182), (5, 2.571), (10, 2.228), (30, 2.042), (1000, 1.962)]
)
def test_students_quantiles_are_those_of_the_tables(degrees: int, quantile: float) -> None:
    assert student_quantile(0.975, degrees) == pytest.approx(quantile, rel=0.01)


def test_clusters_by_hand() -> None:
    # Clusters {1, 1}, {0, 0}: residual sums +1 and -1, variance 2/1 * 2/16 = 1/4, t(1) = 12.706.
    interval = clustered([1, 1, 0, 0], ["a", "a", "b", "b"])
    assert interval is not None
    assert interval.low == pytest.approx(0.5 - 12.706 * 0.5, abs=1e-2)
    assert clustered([1, 0], ["a", "a"]) is None
    assert clustered([], []) is None


def test_single_episodes_get_wilson_and_shared_ones_do_not() -> None:
    assert mean_interval([1.0, 0.0, 1.0], ["a", "b", "c"]) == wilson(2, 3)
    half = [0.5, 0.6, 0.4, 0.5]
    assert mean_interval(half, ["a", "b", "c", "d"]) == clustered(half, ["a", "b", "c", "d"])
    mixed = [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    assert mean_interval(mixed, ["a", "b", "b", "a", "c", "c"]) == clustered(mixed, ["a", "b", "b", "a", "c", "c"])


def test_an_interval_ends_where_scores_do() -> None:
    scores, names = [1.0, 0.5, 1.0], ["a", "b", "c"]
    reached, cut = clustered(scores, names), mean_interval(scores, names)
    assert reached is not None
    assert reached.high > 1
    assert cut == Interval(reached.low, 1.0)
    first = {"a": 1.0, "b": 1.0, "c": 1.0, "d": 0.0}
    difference = paired_difference(first, dict.fromkeys(first, 0.0))[1]
    assert difference is not None
    assert (difference.low, difference.high) == (pytest.approx(-0.0455, abs=2e-3), 1.0)
    assert within(Interval(1.0, 1.0), 0.0, 1.0) == Interval(1.0, 1.0)
    assert within(None, 0.0, 1.0) is None


def test_no_values_have_no_interval() -> None:
    assert mean_interval([], []) is None


def test_clustered_intervals_cover_where_naive_ones_do_not() -> None:
    rng = np.random.default_rng(0)
    covered = naive = 0
    for _ in range(400):
        clusters = np.repeat(np.arange(20), 10)
        values = rng.normal(0, 1, 20)[clusters] + rng.normal(0, 1, 200)
        interval = clustered(values.tolist(), [str(c) for c in clusters])
        assert interval is not None
        covered += interval.low <= 0 <= interval.high
        naive += abs(values.mean()) <= 1.96 * values.std(ddof=1) / math.sqrt(200)
    assert 0.92 < covered / 400 < 0.98
    assert naive / 400 < 0.75


def test_pairs_are_compared_over_the_tasks_both_have() -> None:
    difference, interval, n = paired_difference({"a": 1, "b": 1, "c": 0, "x": 0}, {"a": 0, "b": 1, "c": 0, "y": 1})
    assert (difference, n) == (pytest.approx(1 / 3), 3)
    assert interval is not None
    assert interval.low < 0 < interval.high
    with pytest.raises(ValueError, match="no task in common"):
        paired_difference({"a": 1}, {"b": 1})


def test_ratios_have_intervals_where_the_denominator_allows() -> None:
    few = {str(n): float(n % 10 == 0) for n in range(100)}
    many = {str(n): float(n % 2 == 0) for n in range(100)}
    interval = ratio_interval(few, many)
    assert interval is not None
    assert interval.low < 0.2 < interval.high < 0.5
    assert ratio_interval(few, many) == interval
    assert ratio_interval(few, dict.fromkeys(few, 0.0)) is None
    assert ratio_interval({}, {}) is None
    assert ratio_interval(few, {**dict.fromkeys(few, 0.0), "0": 1.0}) is None
