"""The figures logged of a batch: what the episodes did, beside what they earned."""

from __future__ import annotations

import math
from collections.abc import Sequence

from recipe.credit import EpisodeCredit, GroupCredit
from rollouts.episode import Status, TurnKind


def mean(values: Sequence[float]) -> float:
    """The mean; NaN, which TRL's log leaves out, where there is nothing."""
    return math.fsum(values) / len(values) if values else math.nan


def episode_metrics(episodes: Sequence[EpisodeCredit], groups: Sequence[GroupCredit]) -> dict[str, float]:
    """Means over the episodes of a batch, over all ranks. A policy can also learn to do less: acts and compactions
    stand beside every reward."""
    rewards = [reward for group in groups for reward in group.rewards if reward is not None]
    average = mean(rewards)
    spread = [(reward - average) ** 2 for reward in rewards]
    figures = {
        "reward": average,
        "reward_std": math.sqrt(math.fsum(spread) / (len(spread) - 1)) if len(spread) > 1 else math.nan,
        "frac_reward_zero_std": mean([float(group.flat) for group in groups]),
        "rollout/groups_without_baseline": mean([float(group.scored < 2) for group in groups]),
        "rollout/scored": mean([float(episode.reward is not None) for episode in episodes]),
    }
    for status in Status:
        share = mean([float(episode.status is status) for episode in episodes])
        if status is Status.FINISHED or share:
            figures[f"rollout/{status.value}"] = share
    for name in ("acts", "compactions", "tokens_forwarded", "peak_context"):
        figures[f"rollout/{name}"] = mean([episode.metrics.get(name, 0.0) for episode in episodes])
    own = sorted({name for e in episodes for name in e.metrics if name.startswith("environment/")})
    for name in own:
        figures[f"rollout/{name.removeprefix('environment/')}"] = mean(
            [episode.metrics[name] for episode in episodes if name in episode.metrics]
        )
    for kind in TurnKind:
        turns = [turn.tokens for episode in episodes for turn in episode.turns if turn.kind is kind]
        figures[f"{kind.value}/tokens"] = mean(turns)
        cut_off = sum(episode.metrics.get(f"cut_off_{'acts' if kind is TurnKind.ACT else 'summaries'}", 0.0) for episode in episodes)
        figures[f"{kind.value}/cut_off_share"] = cut_off / len(turns) if turns else math.nan
    retained = [episode.retention for episode in episodes if episode.retention is not None]
    figures["summary/retention"] = mean(retained)
    compactions = sum(episode.metrics.get("compactions", 0.0) for episode in episodes)
    figures["summary/malformed_share"] = (
        sum(episode.malformed for episode in episodes) / compactions if compactions else math.nan
    )
    return figures
