"""What an episode happens in. To add one: a subclass of :class:`Environment` and its import path in a YAML."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from summarization.messages import Message

if TYPE_CHECKING:
    from rollouts.tools import ToolSettings


@dataclass(frozen=True)
class Observation:
    """What the environment says next.

    Attributes:
        messages: To be appended to the context, in order; they are delivered together.
        needs_act: The policy owes an act after them. False means that more comes without one (``advance(None)``).
        done: The episode is over; nothing is sampled any more.
        answer_prefix: What the act begins with: written after the policy's turn has opened, and not sampled.
        compact: The policy asked for a compaction: the window is closed once the messages are delivered.
    """

    messages: tuple[Message, ...] = ()
    needs_act: bool = False
    done: bool = False
    answer_prefix: str = ""
    compact: bool = False


class Environment(ABC):
    """One instance plays one episode. Only ``reset``, ``advance`` and ``reward`` must be written.

    Attributes:
        concurrent: Its steps may be slow or hang: each instance is called in a thread of its own, beside those of other
            episodes, and held to ``Limits.call_seconds``. If False it is called in the driver's thread, and waited for.
        call_format: How its tools are called, a name of ``rollouts.tools.FORMATS``; ``auto`` is as the policy's chat
            template has it.
    """

    concurrent: ClassVar[bool] = False
    call_format: ClassVar[str] = "auto"

    def equip(self, settings: ToolSettings) -> None:
        """Told before ``reset`` how the policy calls tools. An environment without tools has no use for it."""
        return

    @abstractmethod
    def reset(self, task: Mapping[str, Any]) -> Observation:
        """Start on a task row; the messages returned (system, task) open every window of the episode.

        Raises:
            UserError: The row lacks a column; the text names it.
        """

    @abstractmethod
    def advance(self, act: str | None) -> Observation:
        """Take the policy's act, or None where the last observation needed none."""

    @abstractmethod
    def reward(self) -> float | None:
        """The episode's reward so far; None where it cannot be scored."""

    def task_text(self) -> str:
        """The task in one line, for the request to summarize. Empty where it need not be restated."""
        return ""

    def needed(self) -> Sequence[str]:
        """Facts read so far that the task still needs, each as words a summary must hold. Empty where unknown."""
        return ()

    def keep(self) -> str:
        """What the state block must carry verbatim."""
        return ""

    def metrics(self) -> Mapping[str, float]:
        """The environment's own counts, for logs."""
        return {}

    def tools(self) -> Sequence[Mapping[str, Any]]:
        """JSON schemas of its tools, for the chat template; asked once, after ``reset``."""
        return ()

    def close(self) -> None:
        """Give back what it holds. Called once, however the episode ended."""
        return


BUILTIN = {
    "recall": "rollouts.environments.recall:Recall",
    "quest": "rollouts.environments.quest:Quest",
}
