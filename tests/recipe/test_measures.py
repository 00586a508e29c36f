"""The figures of a batch: means over episodes, weighted by tokens where tokens are meant."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recipe.credit import EpisodeCredit, Penalties, TurnCredit, credit_group
from recipe.measures import episode_metrics, mismatch, over_ranks
from rollouts.episode import Status, TurnKind


def episode(
    reward: float | None,
    summaries: int,
    status: Status = Status.FINISHED,
    metrics: Mapping[str, float] | None = None,
    retention: float | None = None,
) -> EpisodeCredit:
    turns = (*(TurnCredit(TurnKind.SUMMARY, 4) for _ in range(summaries)), TurnCredit(TurnKind.ACT, 2))
    return EpisodeCredit(
        reward,
        status,
        turns,
        malformed=summaries,
        retention=retention,
        metrics={"compactions": float(summaries), **(metrics or {})},
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
    assert figures["rollout/compactions_min"] == 0.0
    assert figures["summary/tokens"] == 4.0
    assert figures["act/tokens"] == 2.0
    assert figures["summary/malformed_share"] == 1.0


def test_the_environments_own_figures_keep_their_names() -> None:
    """An episode without the figure, as one that failed to start, is not counted as a zero."""
    group = [episode(1.0, 0, metrics={"environment/success": success}) for success in (1.0, 0.0)]
    assert episode_metrics([*group, episode(None, 0)], [credit_group(group)])["rollout/success"] == 0.5


def test_groups_without_gradient_and_without_baseline_are_counted() -> None:
    groups = [
        [episode(1.0, 0), episode(0.0, 2), episode(0.25, 1)],
        [episode(1.0, 1), episode(1.0, 0)],
        [episode(0.5, 0), episode(None, 0)],
        [episode(None, 0), episode(None, 0)],
    ]
    figures = episode_metrics([e for group in groups for e in group], [credit_group(group) for group in groups])
    assert figures["frac_reward_zero_std"] == 0.75
    assert figures["rollout/groups_without_baseline"] == 0.5
    assert figures["reward_std"] == pytest.approx(statistics.stdev([1.0, 0.0, 0.25, 1.0, 1.0, 0.5]))
    assert figures["rollout/scored"] == pytest.approx(6 / 9)


def test_rewards_are_those_that_penalties_left() -> None:
    group = [episode(1.0, 2), episode(0.0, 0)]
    figures = episode_metrics(group, [credit_group(group, penalties=Penalties(per_summary_token=0.01))])
    assert figures["reward"] == pytest.approx((1.0 - 0.08) / 2)


def test_shares_of_turns_are_over_turns_and_retention_over_episodes_that_know_it() -> None:
    group = [
        episode(1.0, 3, metrics={"cut_off_summaries": 1.0}, retention=0.5),
        episode(0.0, 1, metrics={"cut_off_acts": 2.0}, retention=0.0),
        episode(0.0, 0),
    ]
    figures = episode_metrics(group, [credit_group(group)])
    assert figures["summary/cut_off_share"] == 0.25
    assert figures["act/cut_off_share"] == pytest.approx(2 / 3)
    assert figures["summary/retention"] == 0.25
    assert figures["summary/malformed_share"] == 1.0


def test_a_batch_of_nothing_has_no_figures_but_nan() -> None:
    figures = episode_metrics([], [])
    assert all(math.isnan(value) for value in figures.values())


def test_what_there_is_none_of_is_not_zero() -> None:
    group = [episode(1.0, 0), episode(0.0, 0)]
    figures = episode_metrics(group, [credit_group(group)])
    assert math.isnan(figures["summary/tokens"])
    assert math.isnan(figures["summary/malformed_share"])
    assert math.isnan(figures["summary/cut_off_share"])
    assert math.isnan(figures["summary/retention"])


def test_the_mismatch_is_nil_where_both_compute_alike() -> None:
    figures = mismatch(torch.zeros(10), cap=2.0)
    assert {name: pairs[0][0] for name, pairs in figures.items()} == {
        "mismatch/kl": 0.0,
        "mismatch/p99": 0.0,
        "mismatch/truncated_share": 0.0,
    }
    assert mismatch(torch.zeros(0), cap=2.0) == {}


def test_the_mismatch_by_its_definition() -> None:
    ratios = torch.linspace(-1.5, 1.0, 251)
    figures = mismatch(ratios[torch.randperm(251, generator=torch.Generator().manual_seed(0))], cap=2.0)
    values = ratios.tolist()
    assert figures["mismatch/kl"][0][0] == pytest.approx(sum(math.exp(x) - 1 - x for x in values) / 251, abs=1e-6)
    assert figures["mismatch/p99"][0][0] == pytest.approx(1.48)
    assert figures["mismatch/truncated_share"][0] == (pytest.approx(sum(math.exp(x) > 2 for x in values) / 251), 251.0)


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


PAIRS = st.lists(st.tuples(st.floats(-10, 10), st.integers(1, 50).map(float)), max_size=8)


@settings(deadline=None)
@given(pairs=PAIRS, ranks=st.integers(1, 4))
def test_figures_do_not_depend_on_how_many_ranks_there_are(pairs: list[tuple[float, float]], ranks: int) -> None:
    """Dealt over ranks, some of which may have nothing: the same as one rank that has all."""
    names = ("entropy", "clip_ratio/low_min", "clip_ratio/high_max")
    dealt = [{name: pairs[rank::ranks] for name in names if pairs[rank::ranks]} for rank in range(ranks)]
    figures = over_ranks(dealt)
    if not pairs:
        assert figures == {}
        return
    tokens = [value for value, weight in pairs for _ in range(int(weight))]
    assert figures["entropy"] == pytest.approx(sum(tokens) / len(tokens), abs=1e-9)
    assert figures["clip_ratio/low_min"] == min(tokens)
    assert figures["clip_ratio/high_max"] == max(tokens)


def test_a_figure_that_no_rank_has_is_not_zero() -> None:
    assert math.isnan(over_ranks([{"entropy": [(math.nan, 3.0)]}, {"entropy": []}])["entropy"])
