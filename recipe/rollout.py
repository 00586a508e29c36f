"""Where the trainer's episodes come from: task rows in, episodes out."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from recipe.config import EpisodeArguments
from rollouts.checks import failures
from rollouts.collect import collect
from rollouts.engines.transformers import TransformersEngine
from rollouts.episode import Episode
from rollouts.jobs import Makers, jobs
from rollouts.rendering import Renderer
from rollouts.runner import Limits
from summarization.strategies import Strategy

logger = logging.getLogger(__name__)


def embedded_engine(
    model: PreTrainedModel, renderer: Renderer, episodes: EpisodeArguments, temperature: float, bf16: bool
) -> TransformersEngine:
    """The engine of a run, for training (which samples as the loss will score) and for evaluations.

    Args:
        temperature: Of sampling; 0 is greedy.
        bf16: Compute in bfloat16, as training does where the YAML says so.
    """
    return TransformersEngine(
        model,
        window=episodes.window,
        stop_ids=renderer.stop_ids,
        temperature=temperature,
        max_sessions=episodes.sessions,
        autocast=torch.bfloat16 if bf16 else None,
    )


class Collector:
    """Plays the episodes of one generation batch with the policy as it is now.

    Args:
        engine: Of the policy; what it kept is dropped before each batch, since the weights have changed.
        renderer: For the policy's tokenizer.
        environment: Makes one environment an episode.
        strategy: How the context is compacted.
        limits: Of every episode.
        seed: Of the run; with the number of the batch it determines every draw.
        frozen: Engine of the policy that writes the summaries, where the strategy asks for one.

    Attributes:
        figures: Of the latest batch: seconds spent sampling, and in environments, rendering and bookkeeping; tokens
            forwarded, with their padding, and those that siblings shared.
    """

    def __init__(
        self,
        engine: TransformersEngine,
        renderer: Renderer,
        environment: Makers,
        strategy: Strategy,
        limits: Limits,
        seed: int,
        frozen: TransformersEngine | None = None,
    ) -> None:
        self.engine, self.renderer, self.environment = engine, renderer, environment
        self.strategy, self.limits, self.seed, self.frozen = strategy, limits, seed, frozen
        self.figures: dict[str, float] = {}

    def __call__(self, tasks: Sequence[Mapping[str, Any]], attempts: Sequence[int], batch: int) -> list[Episode]:
        """Play one episode for each row; see :class:`recipe.trainer.Collect`."""
        began, before = time.perf_counter(), self._counts()
        self.engine.reset()
        engines = {"policy": self.engine}
        if self.frozen is not None:
            engines["frozen"] = self.frozen
        made = jobs(tasks, self.environment, self.strategy, self.seed * 1_000_003 + batch, attempts)
        episodes = collect(made, engines, self.renderer, self.limits)
        if told := failures(episodes):
            logger.warning(told)
        self.figures = {name: value - before[name] for name, value in self._counts().items()}
        self.figures["time/environment"] = time.perf_counter() - began - self.figures["time/sampling"]
        return episodes

    def _counts(self) -> dict[str, float]:
        engines = [self.engine, self.frozen] if self.frozen is not None else [self.engine]
        return {
            "time/sampling": sum(engine.seconds for engine in engines),
            "engine/forwarded_tokens": sum(engine.forwarded_tokens for engine in engines),
            "engine/padded_tokens": sum(engine.padded_tokens for engine in engines),
            "engine/shared_tokens": sum(engine.shared_tokens for engine in engines),
        }
