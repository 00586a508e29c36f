"""Means with intervals that do not claim more than the tasks allow. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np


@dataclass(frozen=True)
class Interval:
    """A confidence interval."""

    low: float
    high: float


def bounds(interval: Interval | None) -> list[float] | None:
    """An interval as JSON stores it; None where there is none."""
    return None if interval is None else [interval.low, interval.high]


def wilson(successes: int, n: int, level: float = 0.95) -> Interval:
    """Wilson's score interval of a share (Wilson 1927, Journal of the American Statistical Association 22, 209-212).

    Raises:
        ValueError: ``n`` is 0, or ``successes`` is not between 0 and ``n``.
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n} is no share")
    z = NormalDist().inv_cdf((1 + level) / 2)
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # At the ends the bound is exact, and rounding would put it a little beside.
    return Interval(centre - half if successes else 0.0, centre + half if successes < n else 1.0)


def clustered(values: Sequence[float], clusters: Sequence[str], level: float = 0.95) -> Interval | None:
    """Interval of a mean whose values are independent between clusters only.

    The cluster-robust variance of a mean with the correction G/(G-1) for G clusters (Cameron and Miller 2015, Journal
    of Human Resources 50, 317-372), and Student's t with G-1 degrees of freedom.

    Returns:
        None where there are fewer than two clusters, from which no variance can be had.
    """
    sums: dict[str, float] = {}
    mean = math.fsum(values) / len(values) if values else 0.0
    for value, cluster in zip(values, clusters, strict=True):
        sums[cluster] = sums.get(cluster, 0.0) + value - mean
    count = len(sums)
    if count < 2:
        return None
    variance = count / (count - 1) * math.fsum(total * total for total in sums.values()) / len(values) ** 2
    half = student_quantile((1 + level) / 2, count - 1) * math.sqrt(variance)
    return Interval(mean - half, mean + half)


def student_quantile(probability: float, degrees: int) -> float:
    """Quantile of Student's t by Cornish-Fisher's expansion (Abramowitz and Stegun 26.7.5); exact for 1 and 2 degrees.

    With 3 and more degrees of freedom, it is off by less than 1 % at 97.5 %.
    """
    if degrees == 1:
        return math.tan(math.pi * (probability - 0.5))
    if degrees == 2:
        return (2 * probability - 1) / math.sqrt(2 * probability * (1 - probability))
    z = NormalDist().inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / degrees**power for power, term in enumerate(terms, 1))


def within(interval: Interval | None, low: float, high: float) -> Interval | None:
    """The part of an interval that is possible: a mean of scores lies in [0, 1], a difference of two in [-1, 1].

    With few clusters Student's interval reaches beyond; what is cut off could not be the truth, so the level stays.
    """
    if interval is None:
        return None
    return Interval(min(max(interval.low, low), high), max(min(interval.high, high), low))


def mean_interval(values: Sequence[float], clusters: Sequence[str]) -> Interval | None:
    """Of a mean of scores in [0, 1]: Wilson's interval where they are 0 or 1 and every one is a cluster of its own;
    else the clustered one, cut to what is possible."""
    if not values:
        return None
    if len(set(clusters)) == len(values) and set(values) <= {0.0, 1.0}:
        return wilson(round(sum(values)), len(values))
    return within(clustered(values, clusters), 0.0, 1.0)


def paired_difference(
    first: Mapping[str, float], second: Mapping[str, float], level: float = 0.95
) -> tuple[float, Interval | None, int]:
    """Mean of ``first`` minus ``second`` over the tasks that both have, its interval, and how many tasks those are.

    Both are scores in [0, 1], so the interval is cut to [-1, 1].

    Raises:
        ValueError: They have no task in common.
    """
    shared = [task for task in first if task in second]
    if not shared:
        raise ValueError("the two have no task in common")
    differences = [first[task] - second[task] for task in shared]
    interval = within(clustered(differences, shared, level), -1.0, 1.0)
    return math.fsum(differences) / len(shared), interval, len(shared)


def ratio_interval(
    numerator: Mapping[str, float],
    denominator: Mapping[str, float],
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval | None:
    """Interval of a ratio of two means over the same tasks: percentiles of a bootstrap over tasks (Efron 1979).

    Returns:
        None where a denominator is zero, in the data or in more than ``1 - level`` of the resamples.
    """
    shared = [task for task in numerator if task in denominator]
    above, below = (np.array([side[task] for task in shared], dtype=float) for side in (numerator, denominator))
    if not shared or below.sum() == 0:
        return None
    picks = np.random.default_rng(seed).integers(0, len(shared), (resamples, len(shared)))
    tops, bottoms = above[picks].sum(1), below[picks].sum(1)
    real = bottoms > 0
    if real.mean() < level:
        return None
    low, high = np.quantile(tops[real] / bottoms[real], [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))
