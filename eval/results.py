"""What an evaluation found: one outcome an episode, one cell a policy, strategy and length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """What a report needs of one episode.

    Attributes:
        task_id: Identity of the task; the same for every policy and strategy that played it.
        cluster: Episodes of one cluster share their text, so they are not independent.
        success: 1 for a success, 0 for none, or a share between.
        summary_tokens: Tokens of all its summaries together.
        compactions: How often the context was compacted.
        peak_context: The longest context the policy was given, in tokens.
        tokens: Tokens of all windows together, prompts included.
        seconds: From its first to its last step, while others were played beside it.
        retention: Share of needed facts that its compactions kept; None where none was needed.
        status: How it ended.
        official: As the public scorer of the task scores it; None where there is none.
        empty: It ended without an answer, or with an empty one.
        cut_off: Its answer ran into the token limit.
        read_tokens: Tokens of the pages that it read.
    """

    task_id: str
    cluster: str
    success: float
    summary_tokens: int
    compactions: int
    peak_context: int
    tokens: int
    seconds: float
    retention: float | None
    status: str
    official: float | None = None
    empty: bool = False
    cut_off: bool = False
    read_tokens: int = 0


@dataclass(frozen=True)
class Cell:
    """The outcomes of one policy with one strategy on tasks of one length.

    Attributes:
        stage: Which policy: ``before`` or ``after`` training.
        strategy: Name of the strategy.
        length: Of the tasks, in words.
        outcomes: One an episode.
    """

    stage: str
    strategy: str
    length: int
    outcomes: tuple[Outcome, ...]

    @property
    def success(self) -> float:
        """Mean success; 0 where there are no outcomes."""
        return sum(outcome.success for outcome in self.outcomes) / max(1, len(self.outcomes))

    @property
    def by_task(self) -> dict[str, float]:
        """Success by task, for paired comparisons."""
        return {outcome.task_id: outcome.success for outcome in self.outcomes}

    @property
    def tokens_of_a_summary(self) -> float | None:
        """Mean length of one summary, in tokens; None where nothing was summarized."""
        count = sum(outcome.compactions for outcome in self.outcomes)
        return sum(outcome.summary_tokens for outcome in self.outcomes) / count if count else None


def cell_to_dict(cell: Cell) -> dict[str, Any]:
    """As JSON stores it."""
    return asdict(cell)


def cell_from_dict(stored: Mapping[str, Any]) -> Cell:
    """The inverse of :func:`cell_to_dict`."""
    outcomes = tuple(Outcome(**outcome) for outcome in stored["outcomes"])
    return Cell(stored["stage"], stored["strategy"], stored["length"], outcomes)
