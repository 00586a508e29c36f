"""The figures logged of a batch: what the episodes did, beside what they earned."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

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
    counts = [episode.metrics.get("compactions", 0.0) for episode in episodes]
    figures["rollout/compactions_min"] = min(counts, default=math.nan)
    own = sorted({name for e in episodes for name in e.metrics if name.startswith("environment/")})
    for name in own:
        figures[f"rollout/{name.removeprefix('environment/')}"] = mean(
            [episode.metrics[name] for episode in episodes if name in episode.metrics]
        )
    for kind in TurnKind:
        turns = [turn.tokens for episode in episodes for turn in episode.turns if turn.kind is kind]
        figures[f"{kind.value}/tokens"] = mean(turns)
        cut_off = sum(
            episode.metrics.get(f"cut_off_{'acts' if kind is TurnKind.ACT else 'summaries'}", 0.0)
            for episode in episodes
        )
        figures[f"{kind.value}/cut_off_share"] = cut_off / len(turns) if turns else math.nan
    retained = [episode.retention for episode in episodes if episode.retention is not None]
    figures["summary/retention"] = mean(retained)
    compactions = math.fsum(counts)
    figures["summary/malformed_share"] = (
        sum(episode.malformed for episode in episodes) / compactions if compactions else math.nan
    )
    return figures


Weighted = list[tuple[float, float]]


def mismatch(log_ratios: torch.Tensor, cap: float) -> dict[str, Weighted]:
    """How far the sampler's log-probabilities are from the trainer's, with the weight of each figure.

    Args:
        log_ratios: Trainer's minus sampler's log-probability of each sampled token, (N,).
        cap: Where importance weights are truncated.

    Returns:
        ``mismatch/kl``: the estimate r - 1 - log r of KL(sampler || trainer), http://joschu.net/blog/kl-approx.html;
        ``mismatch/p99``: the 99th percentile of the absolute differences (over ranks, the largest);
        ``mismatch/truncated_share``: share of tokens whose weight passes the cap.
    """
    if not log_ratios.numel():
        return {}
    ratios, count = log_ratios.double().exp(), float(log_ratios.numel())
    ordered = log_ratios.abs().sort().values
    return {
        "mismatch/kl": [(float((ratios - 1 - log_ratios).mean()), count)],
        "mismatch/p99": [(float(ordered[math.ceil(0.99 * len(ordered)) - 1]), count)],
        "mismatch/truncated_share": [(float((ratios > cap).double().mean()), count)],
    }


def over_ranks(everyone: Sequence[Mapping[str, Weighted]]) -> dict[str, float]:
    """Figures with weights, from every rank, made one each: extremes by their name, else the weighted mean."""
    figures: dict[str, float] = {}
    for name in dict.fromkeys(name for mine in everyone for name in mine):
        pairs = [(value, weight) for mine in everyone for value, weight in mine.get(name, []) if not math.isnan(value)]
        values, weight = [value for value, _ in pairs], math.fsum(weight for _, weight in pairs)
        if not pairs:
            figures[name] = math.nan
        elif name.endswith(("min", "max", "p99")):
            figures[name] = min(values) if name.endswith("min") else max(values)
        else:
            figures[name] = math.fsum(v * w for v, w in pairs) / weight if weight else 0.0
    return figures
