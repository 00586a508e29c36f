"""Every credit rule against loops over tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
)
from rollouts.episode import Episode, Segment, Status, Turn, TurnKind
from summarization.resolve import resolve

TURNS = st.lists(st.builds(TurnCredit, st.sampled_from(list(TurnKind)), st.integers(1, 30)), max_size=6).map(tuple)
EPISODES = st.builds(
    EpisodeCredit,
    reward=st.one_of(st.none(), st.sampled_from([0.0, 0.25, 1.0])),
    status=st.sampled_from([Status.FINISHED, Status.FINISHED, Status.OUT_OF_TURNS]),
    turns=TURNS,
    malformed=st.integers(0, 2),
)
GROUPS = st.lists(EPISODES, min_size=2, max_size=6)


def finished(reward: float | None, *turns: tuple[TurnKind, int], **more: int) -> EpisodeCredit:
    return EpisodeCredit(reward, Status.FINISHED, tuple(TurnCredit(*turn) for turn in turns), **more)


def by_tokens(
    group: Sequence[EpisodeCredit], rule: CreditRule, unfinished: str, penalties: Penalties
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
            reward -= penalties.per_malformed * episode.malformed
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
@given(group=GROUPS, per_token=st.sampled_from([0.0, 0.01]), per_malformed=st.sampled_from([0.0, 0.2]))
def test_rules_equal_the_reference(
    rule: CreditRule, unfinished: str, group: list[EpisodeCredit], per_token: float, per_malformed: float
) -> None:
    penalties = Penalties(per_summary_token=per_token, per_malformed=per_malformed)
    credit = credit_group(group, rule, unfinished, penalties)
    spread = [
        [advantage for turn, advantage in zip(episode.turns, turns, strict=True) for _ in range(turn.tokens)]
        for episode, turns in zip(group, credit.turns, strict=True)
    ]
    expected = by_tokens(group, rule, unfinished, penalties)
    assert [len(mine) for mine in spread] == [len(mine) for mine in expected]
    for mine, right in zip(spread, expected, strict=True):
        assert mine == pytest.approx(right, abs=1e-12)


def test_the_baseline_is_over_episodes_never_rows() -> None:
    """Rewards 1, 1, 1, 0 over rows, where the three rows of reward 1 are one episode: the baseline is 0.5, not 0.75."""
    long = finished(1.0, (TurnKind.SUMMARY, 9), (TurnKind.SUMMARY, 9), (TurnKind.ACT, 3))
    short = finished(0.0, (TurnKind.ACT, 3))
    assert credit_group([long, short]).turns == [[0.5, 0.5, 0.5], [-0.5]]


@given(GROUPS)
def test_joint_advantages_sum_to_nothing_over_scored_episodes(group: list[EpisodeCredit]) -> None:
    turns = credit_group(
        [EpisodeCredit(e.reward, Status.FINISHED, (TurnCredit(TurnKind.ACT, 1),)) for e in group]
    ).turns
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
    episode = Episode(
        {}, "t", 0, (Segment((7,), turns), Segment((7,), foreign)), (), 0.5, Status.FINISHED, {"acts": 2.0}
    )
    light = lighten(episode)
    assert light.turns == (TurnCredit(TurnKind.SUMMARY, 3), TurnCredit(TurnKind.ACT, 1))
    assert (light.reward, light.summary_tokens, light.metrics) == (0.5, 3, {"acts": 2.0})


def test_every_builtin_is_there() -> None:
    assert [resolve(name, BUILTIN, "credit").__name__ for name in BUILTIN] == list(BUILTIN)
