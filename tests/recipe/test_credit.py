"""Every credit rule against loops over tokens."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recipe.batching import rows_of
from recipe.credit import (
    BUILTIN,
    SCALE_EPSILON,
    CreditRule,
    EpisodeCredit,
    Penalties,
    TurnCredit,
    acts_only,
    concave_length,
    credit_group,
    episode_mean,
    joint,
    lighten,
    summaries_only,
    with_advantages,
)
from rollouts.episode import Compaction, Episode, Segment, Status, Turn, TurnKind
from summarization.resolve import resolve
from tests.recipe.worlds import random_episode

TURNS = st.lists(st.builds(TurnCredit, st.sampled_from(list(TurnKind)), st.integers(1, 30)), max_size=6).map(tuple)
EPISODES = st.builds(
    EpisodeCredit,
    reward=st.one_of(st.none(), st.sampled_from([0.0, 0.25, 1.0])),
    status=st.sampled_from([Status.FINISHED, Status.FINISHED, Status.OUT_OF_TURNS]),
    turns=TURNS,
    malformed=st.integers(0, 2),
)
GROUPS = st.lists(EPISODES, min_size=2, max_size=6)
PENALTIES = st.builds(
    Penalties,
    per_summary_token=st.sampled_from([0.0, 0.01]),
    per_malformed=st.sampled_from([0.0, 0.2]),
    length_weight=st.sampled_from([0.0, 0.003]),
    length_scale=st.just(0.01),
    length_power=st.just(0.5),
)


def finished(reward: float | None, *turns: tuple[TurnKind, int]) -> EpisodeCredit:
    return EpisodeCredit(reward, Status.FINISHED, tuple(TurnCredit(*turn) for turn in turns))


def by_tokens(
    group: Sequence[EpisodeCredit], rule: CreditRule, unfinished: str, penalties: Penalties, scale: bool
) -> list[list[float]]:
    """What each sampled token should get, said as plainly as can be."""
    rewards: list[float | None] = []
    for episode in group:
        reward = episode.reward
        if episode.status is not Status.FINISHED:
            reward = {"zero_reward": 0.0, "mask_loss": reward, "drop": None}[unfinished]
        if reward is not None:
            for turn in episode.turns:
                for _ in range(turn.tokens):
                    if turn.kind is TurnKind.SUMMARY:
                        reward -= penalties.per_summary_token
            for _ in range(episode.malformed):
                reward -= penalties.per_malformed
            # The length penalty for k = 0.01 and q = 1/2, worked out by hand.
            length = sum(turn.tokens for turn in episode.turns)
            reward -= penalties.length_weight * 200 * (math.sqrt(1 + 0.01 * length) - 1)
        rewards.append(reward)
    scored = [reward for reward in rewards if reward is not None]
    lengths = [sum(turn.tokens for turn in episode.turns) for episode in group]
    spoken = [length for length in lengths if length]
    tokens: list[list[float]] = []
    for episode, reward, length in zip(group, rewards, lengths, strict=True):
        mine: list[float] = []
        for turn in episode.turns:
            for _ in range(turn.tokens):
                advantage = 0.0
                if reward is not None and len(scored) >= 2:
                    advantage = reward - sum(scored) / len(scored)
                    if scale:
                        advantage /= statistics.stdev(scored) + 1e-4
                if episode.status is not Status.FINISHED and unfinished == "mask_loss":
                    advantage = 0.0
                if rule is summaries_only and turn.kind is TurnKind.ACT:
                    advantage = 0.0
                if rule is acts_only and turn.kind is TurnKind.SUMMARY:
                    advantage = 0.0
                if rule is episode_mean:
                    advantage *= (sum(spoken) / len(spoken)) / length
                mine.append(advantage)
        tokens.append(mine)
    return tokens


@pytest.mark.parametrize("rule", [joint, episode_mean, summaries_only, acts_only])
@pytest.mark.parametrize("unfinished", ["zero_reward", "mask_loss", "drop"])
@settings(deadline=None)
@given(group=GROUPS, penalties=PENALTIES, scale=st.booleans())
def test_rules_equal_the_reference(
    rule: CreditRule, unfinished: str, group: list[EpisodeCredit], penalties: Penalties, scale: bool
) -> None:
    credit = credit_group(group, rule, unfinished, penalties, scale)
    spread = [
        [advantage for turn, advantage in zip(episode.turns, turns, strict=True) for _ in range(turn.tokens)]
        for episode, turns in zip(group, credit.turns, strict=True)
    ]
    expected = by_tokens(group, rule, unfinished, penalties, scale)
    assert [len(mine) for mine in spread] == [len(mine) for mine in expected]
    for mine, right in zip(spread, expected, strict=True):
        # The deviation of equal rewards is of the order of rounding errors, which 1 / epsilon enlarges.
        assert mine == pytest.approx(right, rel=1e-9, abs=1e-10)
    assert credit.flat == all(advantage == 0.0 for mine in credit.turns for advantage in mine)


def test_the_baseline_is_over_episodes_never_rows() -> None:
    """Rewards 1, 1, 1, 0 over rows, where the three rows of reward 1 are one episode: the baseline is 0.5, not 0.75."""
    long = finished(1.0, (TurnKind.SUMMARY, 9), (TurnKind.SUMMARY, 9), (TurnKind.ACT, 3))
    short = finished(0.0, (TurnKind.ACT, 3))
    assert credit_group([long, short]).turns == [[0.5, 0.5, 0.5], [-0.5]]


def test_every_row_of_three_has_the_advantage_of_its_episode() -> None:
    """The same example from episodes to rows: none of the three is left without, not even the first."""
    acted = Turn((5,), (6, 7), (-0.1, -0.2), TurnKind.ACT)
    summed = Turn((5,), (6, 7), (-0.1, -0.2), TurnKind.SUMMARY)
    long = Episode(
        {}, "t", 0, tuple(Segment((1, 2), (turn,)) for turn in (summed, summed, acted)), (), 1.0, Status.FINISHED
    )
    short = Episode({}, "t", 1, (Segment((1, 2), (acted,)),), (), 0.0, Status.FINISHED)
    credit = credit_group([lighten(long), lighten(short)])
    rows = [row.advantages for e, turns in zip((long, short), credit.turns, strict=True) for row in rows_of(e, turns)]
    assert rows == [(0.0, 0.5, 0.5)] * 3 + [(0.0, -0.5, -0.5)]


@pytest.mark.parametrize("rule", [joint, episode_mean, summaries_only, acts_only])
@settings(deadline=None)
@given(seed=st.integers(0, 10_000), size=st.integers(2, 5))
def test_cutting_an_episode_into_segments_changes_no_credit(rule: CreditRule, seed: int, size: int) -> None:
    """An episode of many windows and the same turns one window each get the same numbers (pitfalls 1 and 2)."""
    whole = [random_episode({"row": seed}, attempt, seed, turns=(1, 3)) for attempt in range(size)]
    cut = [
        replace(
            episode,
            segments=tuple(Segment(s.prompt_ids, (turn,)) for s in episode.segments for turn in s.turns),
        )
        for episode in whole
    ]
    first, second = ([lighten(episode) for episode in group] for group in (whole, cut))
    assert credit_group(first, rule) == credit_group(second, rule)


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(-5, 5)), max_size=6))
def test_joint_advantages_sum_to_nothing_over_scored_episodes(rewards: list[float | None]) -> None:
    turns = credit_group([finished(reward, (TurnKind.ACT, 1)) for reward in rewards]).turns
    assert sum(advantage for (advantage,) in turns) == pytest.approx(0.0, abs=1e-12)


def test_an_episode_that_was_not_scored_is_not_a_zero() -> None:
    group = [finished(1.0, (TurnKind.ACT, 1)), finished(None, (TurnKind.ACT, 1)), finished(0.0, (TurnKind.ACT, 1))]
    credit = credit_group(group)
    assert credit.turns == [[0.5], [0.0], [-0.5]]
    assert credit.scored == 2


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_no_number_is_not_scored(reward: float) -> None:
    group = [finished(1.0, (TurnKind.ACT, 1)), finished(reward, (TurnKind.ACT, 1)), finished(0.0, (TurnKind.ACT, 1))]
    assert credit_group(group).turns == [[0.5], [0.0], [-0.5]]


@pytest.mark.parametrize("rewards", [[], [1.0], [1.0, None], [None, None]])
def test_without_two_scored_episodes_there_is_no_baseline_and_no_gradient(rewards: list[float | None]) -> None:
    credit = credit_group([finished(reward, (TurnKind.ACT, 1)) for reward in rewards])
    assert credit.flat
    assert credit.turns == [[0.0]] * len(rewards)


def test_unfinished_episodes_under_each_switch() -> None:
    group = [
        finished(1.0, (TurnKind.ACT, 1)),
        finished(0.0, (TurnKind.ACT, 1)),
        EpisodeCredit(0.5, Status.OUT_OF_TURNS, (TurnCredit(TurnKind.ACT, 1),)),
    ]
    third = 1 / 3
    assert credit_group(group, unfinished="zero_reward").turns == [[1 - third], [-third], [-third]]
    assert credit_group(group, unfinished="mask_loss").turns == [[0.5], [-0.5], [0.0]]
    assert credit_group(group, unfinished="drop").turns == [[0.5], [-0.5], [0.0]]
    assert [credit_group(group, unfinished=how).scored for how in ("zero_reward", "mask_loss", "drop")] == [3, 3, 2]


def test_the_deviation_divides_only_where_asked() -> None:
    group = [finished(reward, (TurnKind.ACT, 1)) for reward in (1.0, 0.0, 0.0, 0.0)]
    assert credit_group(group, scale=False).turns[0] == [0.75]
    assert credit_group(group, scale=True).turns[0] == [pytest.approx(0.75 / (0.5 + SCALE_EPSILON))]


def test_each_episode_weighs_the_same_under_episode_mean() -> None:
    long = finished(1.0, (TurnKind.SUMMARY, 30), (TurnKind.ACT, 10))
    short = finished(0.0, (TurnKind.ACT, 8))
    turns = credit_group([long, short], episode_mean).turns
    assert sum(a * t.tokens for a, t in zip(turns[0], long.turns, strict=True)) == pytest.approx(0.5 * 24)
    assert sum(a * t.tokens for a, t in zip(turns[1], short.turns, strict=True)) == pytest.approx(-0.5 * 24)


@settings(deadline=None)
@given(st.floats(0, 1e6), st.floats(1e-5, 1), st.floats(0, 3).filter(lambda q: abs(q - 1) > 1e-3))
def test_the_length_penalty_is_the_integral_of_its_slope(x: float, k: float, q: float) -> None:
    """C(0) = 0 and C'(x) = (1 + kx)^-q: linear at first, ever flatter after."""
    assert concave_length(0.0, k, q) == 0.0
    step = max(1.0, x) * 1e-4
    slope = (concave_length(x + step, k, q) - concave_length(x, k, q)) / step
    assert slope == pytest.approx((1 + k * x) ** -q, rel=1e-2, abs=1e-6)


def test_the_length_penalty_meets_its_limit_at_one() -> None:
    assert concave_length(500, 0.01, 1.0) == pytest.approx(concave_length(500, 0.01, 1.0 + 1e-7), rel=1e-4)
    episode = finished(1.0, (TurnKind.ACT, 100), (TurnKind.SUMMARY, 50))
    assert Penalties(length_weight=0.1).of(episode) == pytest.approx(0.1 * concave_length(150, 0.001, 0.5))


def test_an_episode_is_lightened_to_its_trained_turns() -> None:
    turns = (Turn((1, 2), (3, 4, 5), (0.0,) * 3, TurnKind.SUMMARY),)
    foreign = (Turn((), (9,), (0.0,), TurnKind.ACT, trained=False), Turn((1,), (6,), (0.0,), TurnKind.ACT))
    segments = (Segment((7,), turns), Segment((7,), foreign))
    compactions = (
        Compaction(0, 20, 9, "", malformed=True, cut_off=True, needed=("a", "b"), kept=(True, False)),
        Compaction(1, 20, 9, "", cut_off=True),
        Compaction(2, 20, 9, ""),
    )
    light = lighten(Episode({}, "t", 0, segments, compactions, 0.5, Status.FINISHED, {"acts": 2.0}))
    assert light.turns == (TurnCredit(TurnKind.SUMMARY, 3), TurnCredit(TurnKind.ACT, 1))
    assert (light.reward, light.summary_tokens, light.metrics) == (0.5, 3, {"acts": 2.0})
    # A summary that is malformed and cut off counts once.
    assert (light.malformed, light.retention) == (2, 0.5)


def test_advantages_go_to_the_trained_turns_in_their_order() -> None:
    own, foreign = Turn((1,), (2,), (0.0,), TurnKind.ACT), Turn((), (9,), (0.0,), TurnKind.SUMMARY, trained=False)
    episode = Episode({}, "t", 0, (Segment((7,), (own, foreign)), Segment((7,), (own,))), (), 1.0, Status.FINISHED)
    credited = with_advantages(episode, [0.25, -0.5])
    assert [turn.advantage for segment in credited.segments for turn in segment.turns] == [0.25, None, -0.5]
    assert with_advantages(credited, [0.25, -0.5]) == credited
    assert replace(credited, segments=episode.segments) == episode


def test_every_builtin_is_there() -> None:
    assert [resolve(name, BUILTIN, "credit").__name__ for name in BUILTIN] == list(BUILTIN)
