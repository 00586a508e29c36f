"""One cell of an evaluation: one policy, one strategy, tasks of one length."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eval.results import Cell, Outcome
from rollouts.collect import collect
from rollouts.engine import Engine
from rollouts.episode import Episode, Status
from rollouts.jobs import Makers, jobs
from rollouts.rendering import Renderer
from rollouts.runner import Job, Limits
from summarization.metrics import retention
from summarization.strategies import Strategy


def success_of(episode: Episode) -> float:
    """1 if the environment calls the episode a success, else 0; an episode that did not finish is none."""
    if episode.status is not Status.FINISHED:
        return 0.0
    own = episode.metrics.get("environment/success")
    return float(own if own is not None else (episode.reward or 0.0) >= 1.0)


def outcome_of(episode: Episode) -> Outcome:
    """What a report needs of an episode."""
    official = episode.metrics.get("environment/official")
    return Outcome(
        task_id=episode.task_id,
        cluster=str(episode.task.get("cluster", episode.task_id)),
        success=success_of(episode),
        summary_tokens=int(episode.metrics.get("summary_tokens", 0)),
        compactions=len(episode.compactions),
        peak_context=int(episode.metrics.get("peak_context", 0)),
        tokens=int(episode.metrics.get("tokens_forwarded", 0)),
        seconds=float(episode.metrics.get("seconds", 0.0)),
        retention=retention(episode.compactions),
        status=episode.status.value,
        official=None if official is None else float(official) if episode.status is Status.FINISHED else 0.0,
        empty=not episode.acts or not episode.acts[-1].strip(),
        cut_off=bool(episode.metrics.get("cut_off_acts", 0)),
        read_tokens=int(episode.metrics.get("environment/read_tokens", 0)),
    )


def evaluate(
    stage: str,
    name: str,
    strategy: Strategy,
    tasks: Sequence[Mapping[str, Any]],
    length: int,
    environment: Makers,
    engines: Mapping[str, Engine],
    renderer: Renderer,
    limits: Limits,
    seed: int,
    on_episode: Callable[[Job, Episode], None] | None = None,
) -> Cell:
    """Play every task once and report what came of it.

    Args:
        stage: ``before`` or ``after`` training.
        name: The strategy's name in reports.
        length: Length of the tasks, in words, for the report's axis.
        on_episode: Called as each episode ends, for progress and transcripts.
    """
    episodes = collect(jobs(tasks, environment, strategy, seed), engines, renderer, limits, on_episode)
    return Cell(stage, name, length, tuple(outcome_of(episode) for episode in episodes))
