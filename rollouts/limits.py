"""What is played, and what bounds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rollouts.environment import Environment
from summarization.strategies import Strategy


@dataclass(frozen=True)
class Limits:
    """What bounds an episode.

    Attributes:
        window: W, the most tokens the context may ever hold.
        act_tokens: The most tokens of one act.
        max_turns: The most acts; 0 for no limit.
        max_compactions: The most compactions; 0 for no limit.
        oversize: What happens to an observation too large for a fresh window: ``split`` or ``cut``.
        seconds: The longest an episode may take; 0 for no limit.
        call_seconds: The longest that a call into an environment may take which is ``concurrent``; 0 for no limit, and
            then no environment has a thread of its own. An asynchronous tool that takes longer is cancelled, and the
            policy is told; any other call can't be interrupted, so it ends the episode.
        max_idle: The most observations in a row that need no act; 0 for no limit.
        result_tokens: Kept free for the results of a call, where there are tools, so that a compaction comes before a
            call or after its results; 0 is an eighth of the window. Larger results are split or cut (``oversize``).
        result_characters: The longest result of a tool; what is longer is cut, with a mark. 0 for no limit.
        ask_to_compact: Whether a policy with tools may ask for a compaction, by the tool ``compact_context``.
        keep_segments: Whether the episode keeps its token ids (training needs them; a long evaluation does not).
    """

    window: int = 4096
    act_tokens: int = 256
    max_turns: int = 0
    max_compactions: int = 0
    oversize: str = "split"
    seconds: float = 0.0
    call_seconds: float = 600.0
    max_idle: int = 1_000_000
    result_tokens: int = 0
    result_characters: int = 50_000
    ask_to_compact: bool = False
    keep_segments: bool = True

    def __post_init__(self) -> None:
        for name in ("window", "act_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, must be at least 1")
        for name in ("call_seconds", "max_idle", "result_tokens", "result_characters"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}, must be at least 0")
        if self.oversize not in ("split", "cut"):
            raise ValueError(f"oversize is '{self.oversize}', must be 'split' or 'cut'")


@dataclass(frozen=True)
class Job:
    """One episode to play.

    Attributes:
        task: The dataset row.
        task_id: Identity of the task.
        attempt: Index within the group.
        environment: Makes the environment.
        strategy: How the context is compacted.
        seed: Of the run; with task and attempt it determines every draw.
    """

    task: Mapping[str, Any]
    task_id: str
    attempt: int
    environment: Callable[[], Environment]
    strategy: Strategy
    seed: int = 0

    @property
    def key(self) -> str:
        """Names the episode among all of the run."""
        return f"{self.task_id}#{self.attempt}"
