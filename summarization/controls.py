"""Ways to compact that policies are compared with: upper bound, lower bounds, and a memory rewritten at every page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from summarization.messages import Message
from summarization.parse import Summary
from summarization.prompts import PromptStyle, carry_message
from summarization.strategies import ContextState, SelfSummary, over_budget
from summarization.trigger import TokenBudget


@dataclass(frozen=True)
class MemoryRewrite(SelfSummary):
    """Rewrites the summary before whatever comes next, however much room is left: MemAgent's way (arXiv 2507.02259)."""

    name: str = "memory_rewrite"

    def due(self, state: ContextState) -> bool:
        return state.incoming > 0


@dataclass(frozen=True)
class KeepRecent(SelfSummary):
    """As :class:`SelfSummary`, with the newest messages kept verbatim after the summary."""

    keep_last: int = 1
    name: str = "keep_recent"


@dataclass(frozen=True)
class Unsampled:
    """A window that opens with a text which nobody samples: :meth:`text`, empty here (what is the state block worth?).

    Attributes:
        trigger: When it is due.
        style: The words it uses.
    """

    trigger: TokenBudget = field(default_factory=TokenBudget)
    style: PromptStyle = field(default_factory=PromptStyle)
    name: str = "empty_summary"
    summary_tokens: int = 0
    sampler: str = "policy"

    def due(self, state: ContextState) -> bool:
        """As self-summary, so that both compact at about the same places."""
        return over_budget(self.trigger, state)

    def request(self, state: ContextState) -> Message | None:
        """Nothing is asked."""
        return None

    def reopen(self, state: ContextState, reply: Summary | None) -> tuple[Message, ...]:
        """System and task, then the text with the state block."""
        return (*state.opening, carry_message(self.style, self.text(state), state.progress))

    def text(self, state: ContextState) -> str:
        """What stands where the summary would."""
        return ""


@dataclass(frozen=True)
class OracleSummary(Unsampled):
    """Carries the facts that the environment knows to be needed: the upper bound of any summary of any length.

    Attributes:
        joiner: What stands between two facts, and after the last.
        nothing: What it says where nothing needed was read.
    """

    name: str = "oracle_summary"
    joiner: str = " . "
    nothing: str = "none ."

    def text(self, state: ContextState) -> str:
        return (self.joiner.join(state.needed) + self.joiner).strip() if state.needed else self.nothing


@dataclass(frozen=True)
class ShuffledSummary:
    """As another strategy, but each window opens with a summary that was written for another sample.

    It compacts where ``source`` would, with the same room kept free for a request and its reply, so that windows hold
    as much text; nobody is asked, and only what is carried differs.

    Attributes:
        source: The strategy whose summaries are carried.
        written: The summary to carry, by the sample's ``task_id`` and the number of the compaction, from 1.
        room: Tokens that asking takes, the reply aside: the request with what the template writes around both.
    """

    source: SelfSummary
    written: Callable[[str, int], str]
    room: Callable[[Message], int]
    name: str = "shuffled_summary"
    sampler: str = "policy"

    @property
    def summary_tokens(self) -> int:
        """The most tokens of what is carried."""
        return self.source.summary_tokens

    def due(self, state: ContextState) -> bool:
        """When ``source`` would be, had it to ask."""
        request = self.source.request(state)
        asking = 0 if request is None else self.room(request) + self.summary_tokens
        return self.source.due(replace(state, reserve=state.reserve + asking))

    def request(self, state: ContextState) -> Message | None:
        """Nothing is asked."""
        return None

    def reopen(self, state: ContextState, reply: Summary | None) -> tuple[Message, ...]:
        """As ``source`` would, had it been given the other sample's summary."""
        return self.source.reopen(state, Summary(self.written(state.task_id, state.progress.compactions)))
