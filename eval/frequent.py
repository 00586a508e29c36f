"""The control ``most_frequent_answer``: no policy at all, and so the floor under every score.

Every sample of a cell is answered with the right answer that most of them have (of equally frequent ones, the one that
comes first in the order of the samples). Where all answers differ it is right once in n samples, not never.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eval.reading import Reading, replayed
from eval.tasks.base import Task
from rollouts.environment import Environment
from rollouts.episode import Episode, Status
from rollouts.jobs import task_id
from summarization.resolve import UserError

# Tasks name the parts of an answer, and scorers want them in one of these forms.
FORMS: tuple[Callable[[Sequence[str]], str], ...] = (
    ", ".join,
    lambda parts: parts[0],
    lambda parts: f"Final Answer: [{', '.join(parts)}]",
    lambda parts: f"the answer is {parts[0]}",
)


def most_frequent(rows: Sequence[Mapping[str, Any]], environment: Callable[[], Environment]) -> list[Episode]:
    """An episode for each sample of a cell, all with the same answer.

    Raises:
        UserError: No sample tells its answer.
    """
    counts: Counter[str] = Counter()
    for row in rows:
        reading = _reading(environment)
        reading.reset(row)
        while not reading.advance(None).needs_act:
            continue
        counts.update([text] if (text := written(reading.task)) else [])
    if not counts:
        raise UserError(f"strategies: 'most_frequent_answer' finds no answer in the {len(rows)} samples: leave it out")
    ((answer, _),) = counts.most_common(1)
    return [_episode(row, answer, replayed(_reading(environment), row, answer)) for row in rows]


def written(task: Task) -> str:
    """The right answer of a sample that was read, in the form that its scorer likes best; empty where none is told."""
    parts = [part for part in task.answers() if part.strip()]
    if not parts:
        return ""

    def liked(form: Callable[[Sequence[str]], str]) -> tuple[float, float]:
        scores = task.scores(form(parts))
        return scores["strict"], scores["official"]

    return max(FORMS, key=liked)(parts)


def _reading(environment: Callable[[], Environment]) -> Reading:
    made = environment()
    assert isinstance(made, Reading)
    return made


def _episode(row: Mapping[str, Any], answer: str, scores: Mapping[str, float]) -> Episode:
    return Episode(
        task=row,
        task_id=task_id(row),
        attempt=0,
        segments=(),
        compactions=(),
        reward=scores["strict"],
        status=Status.FINISHED,
        metrics={f"environment/{name}": float(value) for name, value in scores.items()},
        acts=(answer,),
    )
