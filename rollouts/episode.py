"""The carriers that everything else speaks in: Turn, Segment, Compaction, Episode.

One segment is one training row. An episode with one compaction::

    segment 0   [prompt............][appended..|act][appended....|act][request|summary]
    segment 1   [prompt with summary..][appended...|act]

    loss_mask    0000000000000000000 0000000000|111 000000000000|111 0000000|1111111

Deliberately left out: how episodes are made (``runner``), stored (``storage``), and turned into tensors
(``recipe.batching``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any


class TurnKind(StrEnum):
    """What the policy was asked for."""

    ACT = "act"
    SUMMARY = "summary"


class Finish(StrEnum):
    """Why sampling stopped."""

    STOP = "stop"
    LENGTH = "length"


class Status(StrEnum):
    """How an episode ended. Only ``FINISHED`` means that the environment said so."""

    FINISHED = "finished"
    OUT_OF_TURNS = "out_of_turns"
    OUT_OF_COMPACTIONS = "out_of_compactions"
    WINDOW_OVERFLOW = "window_overflow"
    INEFFECTIVE_COMPACTION = "ineffective_compaction"
    ENVIRONMENT_ERROR = "environment_error"
    ENGINE_ERROR = "engine_error"
    TIMED_OUT = "timed_out"
    ENDLESS = "endless"


@dataclass(frozen=True)
class Turn:
    """What was appended since the last sample, and then what was sampled.

    Attributes:
        appended_ids: Tokens appended before the sample (observations, request, generation prompt); never trained.
        sampled_ids: Tokens sampled, a final stop token included.
        logprobs: One log-probability for each of ``sampled_ids``, under the sampling temperature.
        kind: What was asked for.
        finish: Why sampling stopped.
        trained: False where another policy than the trained one sampled.
        advantage: What credit gave each sampled token; None where no credit was given, or none was kept.
    """

    appended_ids: tuple[int, ...]
    sampled_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    kind: TurnKind
    finish: Finish = Finish.STOP
    trained: bool = True
    advantage: float | None = None

    def __post_init__(self) -> None:
        if len(self.logprobs) != len(self.sampled_ids):
            raise ValueError(f"{len(self.logprobs)} log-probabilities for {len(self.sampled_ids)} sampled tokens")


@dataclass(frozen=True)
class Segment:
    """What happened in one window: one training row.

    Attributes:
        prompt_ids: The rendered messages that opened the window.
        turns: In order; only the last of a segment may be a summary.
        trailing_ids: What was appended after the last sample; never trained.
    """

    prompt_ids: tuple[int, ...]
    turns: tuple[Turn, ...]
    trailing_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if any(turn.kind is TurnKind.SUMMARY for turn in self.turns[:-1]):
            raise ValueError("a summary ends its segment, but turns follow it")

    @cached_property
    def completion_ids(self) -> tuple[int, ...]:
        """Everything after the prompt up to the last sampled token, (T,)."""
        return tuple(token for turn in self.turns for token in (*turn.appended_ids, *turn.sampled_ids))

    @cached_property
    def loss_mask(self) -> tuple[int, ...]:
        """1 where the trained policy sampled the token, (T,)."""
        return tuple(
            bit
            for turn in self.turns
            for bit in (*(0,) * len(turn.appended_ids), *(int(turn.trained),) * len(turn.sampled_ids))
        )

    @cached_property
    def logprobs(self) -> tuple[float, ...]:
        """Sampling log-probabilities, 0 where nothing was sampled, (T,)."""
        return tuple(value for turn in self.turns for value in (*(0.0,) * len(turn.appended_ids), *turn.logprobs))

    @cached_property
    def kinds(self) -> tuple[TurnKind | None, ...]:
        """The kind of turn that sampled each token, None where nothing was sampled, (T,)."""
        return tuple(
            kind
            for turn in self.turns
            for kind in (*(None,) * len(turn.appended_ids), *(turn.kind,) * len(turn.sampled_ids))
        )

    @property
    def length(self) -> int:
        """Tokens of the whole context at its longest."""
        return len(self.prompt_ids) + len(self.completion_ids) + len(self.trailing_ids)

    @property
    def sampled_tokens(self) -> int:
        """Tokens that the trained policy sampled here."""
        return sum(len(turn.sampled_ids) for turn in self.turns if turn.trained)


@dataclass(frozen=True)
class Compaction:
    """The step from one segment to the next.

    Attributes:
        segment: Index of the segment that it ended.
        tokens_before: Tokens in the window when it was due.
        tokens_after: Tokens of the prompt that opened the next window.
        summary: The summary carried over; empty where the strategy asks for none.
        summary_tokens: Tokens of the whole reply, scratch space and stop token included.
        malformed: The reply broke the form.
        cut_off: The reply ran into its token limit.
        needed: Facts shown to the policy so far that the task needs, as the environment knows them.
        kept: For each of ``needed``, whether the next window holds it.
        tokens_seen: Tokens read and sampled in the episode so far.
    """

    segment: int
    tokens_before: int
    tokens_after: int
    summary: str
    summary_tokens: int = 0
    malformed: bool = False
    cut_off: bool = False
    needed: tuple[str, ...] = ()
    kept: tuple[bool, ...] = ()
    tokens_seen: int = 0


@dataclass(frozen=True)
class Episode:
    """One attempt at one task.

    Attributes:
        task: The dataset row.
        task_id: Identity of the task; equal for the members of a group.
        attempt: Index within the group.
        segments: In order; empty where only the counts were kept.
        compactions: In order, one fewer than the windows that were opened.
        reward: The environment's reward; None where it gave none (not scored is not zero).
        status: How it ended.
        metrics: Counts and the environment's own metrics.
        error: What went wrong, for the error statuses.
        acts: The decoded acts, in order (the last 16 where only the counts were kept).
    """

    task: Mapping[str, Any]
    task_id: str
    attempt: int
    segments: tuple[Segment, ...]
    compactions: tuple[Compaction, ...]
    reward: float | None
    status: Status
    metrics: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None
    acts: tuple[str, ...] = ()

    @property
    def sampled_tokens(self) -> int:
        """Tokens that the trained policy sampled in the episode."""
        return sum(segment.sampled_tokens for segment in self.segments)
