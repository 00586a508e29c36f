"""Ways to compact, behind one protocol. A strategy never samples, so no summary token can escape the record.

It says when it is due, what to ask (or nothing), and how the next window opens. It sees messages and token counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from summarization.messages import Message
from summarization.parse import Summary
from summarization.prompts import Progress, PromptStyle, carry_message, request_message
from summarization.trigger import TokenBudget


@dataclass(frozen=True)
class ContextState:
    """What is in the window when a strategy is asked. Counts are tokens of the policy's own tokenizer.

    Attributes:
        window: W, the most tokens the context may ever hold.
        in_use: Tokens in the window now.
        incoming: Tokens about to be appended.
        reserve: Tokens to keep free: the request, the summary's limit, one act.
        opening: System and task messages, which open every window.
        messages: What followed them in this window, oldest first (sampled messages included).
        message_tokens: Tokens of each of ``messages``.
        task_text: The task in one line, for the request.
        seed: Seed of the run, for randomised triggers.
        task_id: Identity of the task, likewise.
        progress: Counts so far; ``progress.compactions`` counts those already made.
        needed: Facts read so far that the task still needs, where the environment knows them; for the oracle alone.
    """

    window: int
    in_use: int
    incoming: int
    reserve: int
    opening: tuple[Message, ...]
    messages: tuple[Message, ...]
    message_tokens: tuple[int, ...]
    task_text: str
    seed: int
    task_id: str
    progress: Progress
    needed: tuple[str, ...] = ()


def over_budget(trigger: TokenBudget, state: ContextState) -> bool:
    """Whether a trigger fires before the incoming tokens are appended."""
    limit = trigger.limit(state.window, state.seed, state.task_id, state.progress.compactions)
    return trigger.fires(state.in_use, state.incoming, state.reserve, limit)


def newest(messages: Sequence[Message], count: int) -> tuple[Message, ...]:
    """The last ``count`` messages, and those before them that they cannot stand without: a result's call."""
    start = max(0, len(messages) - count)
    while 0 < start < len(messages) and messages[start].is_result:
        start -= 1
    return tuple(messages[start:])


class Strategy(Protocol):
    """How a context is compacted.

    Attributes:
        name: As in reports.
        summary_tokens: The most tokens a summary reply may have; 0 where none is asked for.
        sampler: Which policy writes the summary: ``policy`` (trained) or ``frozen`` (another one, not trained).
    """

    @property
    def name(self) -> str: ...
    @property
    def summary_tokens(self) -> int: ...
    @property
    def sampler(self) -> str: ...

    def due(self, state: ContextState) -> bool:
        """Whether to compact before the incoming tokens are appended."""
        ...

    def request(self, state: ContextState) -> Message | None:
        """What to ask the summarizer; None where the next window needs no summary."""
        ...

    def reopen(self, state: ContextState, reply: Summary | None) -> tuple[Message, ...]:
        """All messages that open the next window, system and task included. ``state.progress`` counts this one."""
        ...


@dataclass(frozen=True)
class SelfSummary:
    """The policy summarizes itself; its summary tokens are trained like its acts.

    Attributes:
        summary_tokens: The most tokens a summary reply may have, scratch space included.
        trigger: When it is due.
        style: The words it uses.
        keep_last: Messages kept verbatim after the summary (the newest ones); where the oldest of them answers a call,
            the call is kept too.
    """

    summary_tokens: int = 1024
    trigger: TokenBudget = field(default_factory=TokenBudget)
    style: PromptStyle = field(default_factory=PromptStyle)
    keep_last: int = 0
    name: str = "self_summary"
    sampler: str = "policy"

    def __post_init__(self) -> None:
        if self.summary_tokens < 1:
            raise ValueError(f"summary_tokens is {self.summary_tokens}, must be at least 1")
        if self.keep_last < 0:
            raise ValueError(f"keep_last is {self.keep_last}, must be at least 0")

    def due(self, state: ContextState) -> bool:
        return over_budget(self.trigger, state)

    def request(self, state: ContextState) -> Message | None:
        return request_message(self.style, self.summary_tokens, state.task_text)

    def reopen(self, state: ContextState, reply: Summary | None) -> tuple[Message, ...]:
        text = reply.text if reply is not None else ""
        kept = newest(state.messages, self.keep_last)
        return (*state.opening, carry_message(self.style, text, state.progress), *kept)


@dataclass(frozen=True)
class FrozenSummary(SelfSummary):
    """As :class:`SelfSummary`, but another policy (or an earlier checkpoint) writes the summary, untrained."""

    name: str = "frozen_summary"
    sampler: str = "frozen"


@dataclass(frozen=True)
class SlidingWindow:
    """No summary: the newest messages that fit into half of the window's free part are kept, the rest is forgotten.

    Attributes:
        keep_share: Share of the window's free part that kept messages may fill, in [0, 1).
    """

    keep_share: float = 0.5
    trigger: TokenBudget = field(default_factory=TokenBudget)
    name: str = "sliding_window"
    summary_tokens: int = 0
    sampler: str = "policy"

    def __post_init__(self) -> None:
        if not 0.0 <= self.keep_share < 1.0:
            raise ValueError(f"keep_share is {self.keep_share}, must be in [0, 1)")

    def due(self, state: ContextState) -> bool:
        return over_budget(self.trigger, state)

    def request(self, state: ContextState) -> Message | None:
        return None

    def reopen(self, state: ContextState, reply: Summary | None) -> tuple[Message, ...]:
        opening_tokens = state.in_use - sum(state.message_tokens)
        room = (state.window - opening_tokens - state.incoming - state.reserve) * self.keep_share
        kept: list[Message] = []
        for message, tokens in zip(reversed(state.messages), reversed(state.message_tokens), strict=True):
            room -= tokens
            if room < 0:
                break
            kept.append(message)
        while kept and kept[-1].is_result:
            # Its call did not fit.
            kept.pop()
        return (*state.opening, *reversed(kept))


@dataclass(frozen=True)
class NoCompaction:
    """Never compacts. An episode that outgrows the window ends with a status."""

    name: str = "none"
    summary_tokens: int = 0
    sampler: str = "policy"

    def due(self, state: ContextState) -> bool:
        return False

    def request(self, state: ContextState) -> Message | None:
        return None

    def reopen(self, state: ContextState, reply: Summary | None) -> tuple[Message, ...]:
        raise RuntimeError("strategy 'none' was asked to reopen a window, but it is never due")


BUILTIN = {
    "self_summary": "summarization.strategies:SelfSummary",
    "frozen_summary": "summarization.strategies:FrozenSummary",
    "sliding_window": "summarization.strategies:SlidingWindow",
    "none": "summarization.strategies:NoCompaction",
    "keep_recent": "summarization.controls:KeepRecent",
    "memory_rewrite": "summarization.controls:MemoryRewrite",
    "oracle_summary": "summarization.controls:OracleSummary",
    "empty_summary": "summarization.controls:Unsampled",
}
