"""The figures of a batch: means over episodes, weighted by tokens where tokens are meant."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from recipe.credit import EpisodeCredit, TurnCredit, credit_group
from recipe.measures import episode_metrics, mismatch, over_ranks
from rollouts.episode import Status, TurnKind


def episode(reward: float | None, summaries: int, status: Status = Status.FINISHED, **metrics: float) -> EpisodeCredit:
    turns = (*(TurnCredit(TurnKind.SUMMARY, 4) for _ in range(summaries)), TurnCredit(TurnKind.ACT, 2))
    return EpisodeCredit(
        reward, status, turns, malformed=summaries, metrics={"compactions": float(summaries), **metrics}
    )


def test_rewards_and_shares_are_over_episodes() -> None:
    group = [episode(1.0, 3), episode(0.0, 1), episode(0.0, 0, Status.OUT_OF_TURNS), episode(None, 0)]
    figures = episode_metrics(group, [credit_group(group)])
    assert figures["reward"] == pytest.approx(1 / 3)
    assert figures["rollout/scored"] == 0.75
    assert figures["rollout/finished"] == 0.75
    assert figures["rollout/out_of_turns"] == 0.25
    assert "rollout/timed_out" not in figures
    assert figures["rollout/compactions"] == 1.0
    assert figures["summary/tokens"] == 4.0
    assert figures["act/tokens"] == 2.0
    assert figures["summary/malformed_share"] == 1.0


def test_the_environments_own_figures_keep_their_names() -> None:
    group = [replace(episode(reward, 0), metrics={"environment/success": reward}) for reward in (1.0, 0.0)]
    assert episode_metrics(group, [credit_group(group)])["rollout/success"] == 0.5


def test_what_there_is_none_of_is_not_zero() -> None:
    group = [episode(1.0, 0), episode(0.0, 0)]
    figures = episode_metrics(group, [credit_group(group)])
    assert math.isnan(figures["summary/tokens"])
    assert math.isnan(figures["summary/malformed_share"])


def test_the_mismatch_is_nil_where_both_compute_alike() -> None:
    figures = mismatch(torch.zeros(10), cap=2.0)
    assert {name: pairs[0][0] for name, pairs in figures.items()} == {
        "mismatch/kl": 0.0,
        "mismatch/p99_max": 0.0,
        "mismatch/truncated_share": 0.0,
    }
    assert mismatch(torch.zeros(0), cap=2.0) == {}


def test_the_mismatch_by_its_definition() -> None:
    ratios = torch.linspace(-1.0, 1.0, 201)
    figures = mismatch(ratios, cap=2.0)
    values = ratios.tolist()
    assert figures["mismatch/kl"][0][0] == pytest.approx(sum(math.exp(x) - 1 - x for x in values) / 201, abs=1e-6)
    assert figures["mismatch/p99_max"][0][0] == pytest.approx(0.99)
    assert figures["mismatch/truncated_share"][0] == (pytest.approx(sum(math.exp(x) > 2 for x in values) / 201), 201.0)


def test_ranks_are_weighted_by_their_tokens() -> None:
    first = {"entropy": [(1.0, 30.0), (2.0, 10.0)], "low_min": [(0.3, 1.0)], "high_max": [(0.3, 1.0)]}
    second = {
        "entropy": [(5.0, 60.0), (math.nan, 0.0)],
        "low_min": [(0.1, 1.0)],
        "high_max": [(math.nan, 1.0)],
        "own": [(1.0, 0.0)],
    }
    figures = over_ranks([first, second])
    assert figures["entropy"] == pytest.approx((30 + 20 + 300) / 100)
    assert (figures["low_min"], figures["high_max"], figures["own"]) == (0.1, 0.3, 0.0)
