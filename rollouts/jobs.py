"""From task rows to jobs: who plays what, in which environment, with which strategy."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rollouts.environment import BUILTIN, Environment
from rollouts.runner import Job
from summarization.resolve import UserError, resolve
from summarization.strategies import Strategy


def task_id(task: Mapping[str, Any]) -> str:
    """A short name of a task row that depends on its content alone."""
    text = json.dumps(task, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def environment_maker(name: str, kwargs: Mapping[str, Any]) -> Callable[[], Environment]:
    """What makes one environment an episode.

    Raises:
        UserError: The name is unknown, or the environment refuses its arguments.
    """
    kind = resolve(name, BUILTIN, "environment")

    def make() -> Environment:
        try:
            return kind(**kwargs)
        except TypeError as error:
            raise UserError(f"environment_kwargs: environment '{name}' does not take them ({error})") from error

    made = make()
    if not isinstance(made, Environment):
        raise UserError(f"environment: '{name}' is a {type(made).__name__}, not a rollouts.environment.Environment")
    made.close()
    return make


def attempts_of(names: Sequence[str]) -> list[int]:
    """For each task name, how often it stood before: the index within its group."""
    seen: Counter[str] = Counter()
    attempts: list[int] = []
    for name in names:
        attempts.append(seen[name])
        seen[name] += 1
    return attempts


def jobs(
    tasks: Sequence[Mapping[str, Any]],
    environment: Callable[[], Environment],
    strategy: Strategy,
    seed: int,
    attempts: Sequence[int] | None = None,
) -> Iterator[Job]:
    """One job for each row.

    Args:
        attempts: The index of each within its group; by default equal rows are counted in their order.
    """
    names = [task_id(task) for task in tasks]
    for task, name, attempt in zip(tasks, names, attempts_of(names) if attempts is None else attempts, strict=True):
        yield Job(task, name, attempt, environment, strategy, seed)
