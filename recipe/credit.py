"""Episode rewards -> an advantage for every sampled turn. Pure functions over light carriers; no tensors, no TRL.

For episode i of a group with reward R_i, joint credit gives ``A_i = R_i - mean(R)`` to every turn of every segment,
acts and summaries alike (Cursor's self-summarization; Dr. GRPO leaves out the division by the deviation). The mean is
over the episodes of the group, never over rows.

Deliberately left out: who spreads a turn's number over its tokens (``batching``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rollouts.episode import Episode, Status, TurnKind
from summarization.metrics import retention

SCALE_EPSILON = 1e-4
"""Added to a group's standard deviation before dividing by it, as TRL does."""


@dataclass(frozen=True)
class TurnCredit:
    """A turn as credit sees it: its kind and how many tokens the trained policy sampled in it."""

    kind: TurnKind
    tokens: int


@dataclass(frozen=True)
class EpisodeCredit:
    """An episode without its tokens, so that a group can be gathered over ranks.

    Attributes:
        reward: None where the environment gave none: such an episode is in neither baseline nor loss.
        status: How it ended.
        turns: Its trained turns, in order over all segments.
        malformed: Summaries that broke the form or were cut off.
        retention: Share of needed facts that its compactions kept; None where unknown.
        metrics: The episode's own.
    """

    reward: float | None
    status: Status
    turns: tuple[TurnCredit, ...]
    malformed: int = 0
    retention: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def summary_tokens(self) -> int:
        """Tokens sampled in summaries."""
        return sum(turn.tokens for turn in self.turns if turn.kind is TurnKind.SUMMARY)


def with_advantages(episode: Episode, turn_advantages: Sequence[float]) -> Episode:
    """The episode with what credit gave each of its trained turns, in order over all segments."""
    remaining = iter(turn_advantages)
    segments = tuple(
        replace(
            segment,
            turns=tuple(replace(turn, advantage=next(remaining)) if turn.trained else turn for turn in segment.turns),
        )
        for segment in episode.segments
    )
    return replace(episode, segments=segments)


CreditRule = Callable[[Sequence[EpisodeCredit], Sequence[float]], list[list[float]]]
"""``(episodes of a group, their advantages) -> one number for each turn of each episode``."""


def lighten(episode: Episode) -> EpisodeCredit:
    """The part of an episode that credit needs."""
    return EpisodeCredit(
        reward=episode.reward,
        status=episode.status,
        turns=tuple(
            TurnCredit(turn.kind, len(turn.sampled_ids))
            for segment in episode.segments
            for turn in segment.turns
            if turn.trained
        ),
        malformed=sum(compaction.malformed or compaction.cut_off for compaction in episode.compactions),
        retention=retention(episode.compactions),
        metrics=dict(episode.metrics),
    )


def joint(episodes: Sequence[EpisodeCredit], advantages: Sequence[float]) -> list[list[float]]:
    """Every turn of an episode gets the episode's advantage."""
    return [[advantage] * len(e.turns) for e, advantage in zip(episodes, advantages, strict=True)]


def episode_mean(episodes: Sequence[EpisodeCredit], advantages: Sequence[float]) -> list[list[float]]:
    """Each episode weighs the same however long: its advantage over its tokens, times the group's mean length.

    The loss divides by all tokens N, so the sum over an episode's tokens is A_i * mean length / N for each episode.
    """
    lengths = [sum(turn.tokens for turn in e.turns) for e in episodes]
    mean = sum(lengths) / max(1, sum(length > 0 for length in lengths))
    return [
        [advantage * mean / max(1, length)] * len(e.turns)
        for e, advantage, length in zip(episodes, advantages, lengths, strict=True)
    ]


def summaries_only(episodes: Sequence[EpisodeCredit], advantages: Sequence[float]) -> list[list[float]]:
    """Only summaries are credited: an ablation."""
    return _by_kind(episodes, advantages, {TurnKind.SUMMARY: 1.0, TurnKind.ACT: 0.0})


def acts_only(episodes: Sequence[EpisodeCredit], advantages: Sequence[float]) -> list[list[float]]:
    """Only acts are credited: what training without self-summarization does. An ablation."""
    return _by_kind(episodes, advantages, {TurnKind.SUMMARY: 0.0, TurnKind.ACT: 1.0})


def _by_kind(
    episodes: Sequence[EpisodeCredit], advantages: Sequence[float], weights: Mapping[TurnKind, float]
) -> list[list[float]]:
    return [
        [advantage * weights[turn.kind] for turn in e.turns] for e, advantage in zip(episodes, advantages, strict=True)
    ]


BUILTIN = {
    "joint": "recipe.credit:joint",
    "episode_mean": "recipe.credit:episode_mean",
    "summaries_only": "recipe.credit:summaries_only",
    "acts_only": "recipe.credit:acts_only",
}


@dataclass(frozen=True)
class Penalties:
    """What is taken from a task reward.

    Attributes:
        per_summary_token: For each token sampled in summaries.
        per_malformed: For each summary that was malformed or cut off.
        length_weight: Weight of the concave penalty on all sampled tokens; ``length_scale`` is its k (per token),
            ``length_power`` its q.
    """

    per_summary_token: float = 0.0
    per_malformed: float = 0.0
    length_weight: float = 0.0
    length_scale: float = 0.001
    length_power: float = 0.5

    def of(self, episode: EpisodeCredit) -> float:
        """The sum of an episode's penalties."""
        tokens = sum(turn.tokens for turn in episode.turns)
        concave = concave_length(tokens, self.length_scale, self.length_power) if self.length_weight else 0.0
        return (
            self.per_summary_token * episode.summary_tokens
            + self.per_malformed * episode.malformed
            + self.length_weight * concave
        )


def concave_length(x: float, k: float, q: float) -> float:
    """C(x) = ((1 + kx)^(1-q) - 1) / (k(1-q)), the length penalty of the Composer 2 report; log(1+kx)/k for q = 1."""
    if q == 1.0:
        return math.log1p(k * x) / k
    return ((1 + k * x) ** (1 - q) - 1) / (k * (1 - q))


@dataclass(frozen=True)
class GroupCredit:
    """What credit says of one group.

    Attributes:
        turns: For each episode, one advantage a turn; zeros where the episode is in no loss.
        rewards: Each episode's reward after penalties and the treatment of unfinished ones; None if not scored.
        scored: Episodes in the baseline.
    """

    turns: list[list[float]]
    rewards: list[float | None]
    scored: int

    @property
    def flat(self) -> bool:
        """Whether the group gives no gradient."""
        return all(value == 0.0 for episode in self.turns for value in episode)


def credit_group(
    episodes: Sequence[EpisodeCredit],
    rule: CreditRule = joint,
    unfinished: str = "zero_reward",
    penalties: Penalties | None = None,
    scale: bool = False,
) -> GroupCredit:
    """Credit for one group.

    Args:
        episodes: All attempts at one task.
        rule: Spreads an episode's advantage over its turns.
        unfinished: What happens to episodes that did not finish: ``zero_reward`` (their reward is 0), ``mask_loss``
            (the reward they have is in the baseline, they are in no loss), ``drop`` (in neither).
        penalties: Taken from the rewards.
        scale: Divide by the group's standard deviation (with Bessel's correction, as TRL).
    """
    penalties = penalties or Penalties()
    rewards: list[float | None] = []
    in_loss: list[bool] = []
    for episode in episodes:
        finished = episode.status is Status.FINISHED
        reward = episode.reward
        if not finished and unfinished == "zero_reward":
            reward = 0.0
        if not finished and unfinished == "drop":
            reward = None
        if reward is not None and not math.isfinite(reward):
            reward = None
        rewards.append(None if reward is None else reward - penalties.of(episode))
        in_loss.append(reward is not None and (finished or unfinished == "zero_reward"))
    scored = [reward for reward in rewards if reward is not None]
    nothing = [[0.0] * len(episode.turns) for episode in episodes]
    if len(scored) < 2:
        return GroupCredit(nothing, rewards, len(scored))
    mean = math.fsum(scored) / len(scored)
    deviation = math.sqrt(math.fsum((reward - mean) ** 2 for reward in scored) / (len(scored) - 1))
    divisor = deviation + SCALE_EPSILON if scale else 1.0
    advantages = [
        (reward - mean) / divisor if reward is not None and trained else 0.0
        for reward, trained in zip(rewards, in_loss, strict=True)
    ]
    return GroupCredit(rule(episodes, advantages), rewards, len(scored))
