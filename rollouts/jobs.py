"""From task rows to jobs: who plays what, in which environment, with which strategy."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from rollouts.environment import BUILTIN, Environment
from rollouts.environments.trl import TRLEnvironment, check_trl_class, is_trl_style
from rollouts.runner import Job
from summarization.resolve import UserError, closest, resolve
from summarization.strategies import Strategy

Maker = Callable[[], Environment]
Makers = Maker | Mapping[str, Maker]
COLUMN = "environment"
"""The column of a task row that says in which of several environments it is played."""


def task_id(task: Mapping[str, Any]) -> str:
    """A short name of a task row that depends on its content alone."""
    text = json.dumps(task, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def environment_maker(name: str, kwargs: Mapping[str, Any], unsent: Sequence[str] = ()) -> Maker:
    """What makes one environment an episode. One is made and closed at once, to see whether it can be.

    Args:
        name: A built-in name, or the import path of an :class:`Environment` or of a class for TRL's
            ``environment_factory``.
        kwargs: What its constructor takes.
        unsent: Columns of a row that the ``reset`` of a TRL class is not given.

    Raises:
        UserError: The name is unknown, or the environment refuses its arguments or cannot be made.
    """
    try:
        kind = resolve(name, BUILTIN, "environment")
    except (UserError, KeyboardInterrupt):
        raise
    except BaseException as error:
        # A module may fail in any way while it is imported, sys.exit included.
        raise UserError(f"environment: '{name}' cannot be imported ({type(error).__name__}: {error})") from error
    foreign = not (isinstance(kind, type) and issubclass(kind, Environment)) and is_trl_style(kind)
    if foreign:
        check_trl_class(kind, name)
    if refused := _refused(kind, kwargs):
        raise UserError(f"environment_kwargs: environment '{name}' does not take them ({refused})")
    try:
        made = kind(**kwargs)
        if not foreign and isinstance(made, Environment):
            made.close()
    except (UserError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise UserError(
            f"environment: '{name}' cannot be made with {dict(kwargs)} ({type(error).__name__}: {error}); correct "
            "it, or environment_kwargs"
        ) from error
    if foreign:
        return partial(TRLEnvironment, kind, dict(kwargs), tuple(unsent))
    if not isinstance(made, Environment):
        raise UserError(
            f"environment: '{name}' is a {type(made).__name__}, not a rollouts.environment.Environment, nor a class "
            "with a method reset"
        )
    return partial(kind, **kwargs)


def _refused(kind: Any, kwargs: Mapping[str, Any]) -> str | None:
    """Why a class or function does not take arguments; None where it does, or tells no signature."""
    try:
        signature = inspect.signature(kind)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(**kwargs)
    except TypeError as error:
        return str(error)
    return None


def environment_makers(
    names: Mapping[str, str], kwargs: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Maker]:
    """What makes the environments of a run that has several, each for the rows that name it in their column
    ``environment``.

    Args:
        names: What rows say, and the built-in name or import path that it stands for.
        kwargs: What each constructor takes, by what rows say.

    Raises:
        UserError: One of them cannot be made, or arguments are given for one that is not there.
    """
    for name in kwargs or {}:
        if name not in names:
            raise UserError(f"environment_kwargs: there is no environment '{name}'; {closest(name, list(names))}")
    return {name: environment_maker(path, (kwargs or {}).get(name, {}), (COLUMN,)) for name, path in names.items()}


def maker_for(task: Mapping[str, Any], environment: Makers) -> Maker:
    """What makes the environment of a task row.

    Raises:
        UserError: There are several, and the row names none of them.
    """
    if not isinstance(environment, Mapping):
        return environment
    named = task.get(COLUMN)
    if not isinstance(named, str) or named not in environment:
        raise UserError(
            f"a task row has {COLUMN} = {named!r}, which this run does not have; "
            f"{closest(str(named), list(environment))}"
        )
    return environment[named]


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
    environment: Makers,
    strategy: Strategy,
    seed: int,
    attempts: Sequence[int] | None = None,
) -> Iterator[Job]:
    """One job for each row.

    Args:
        environment: Makes an environment; or several that do, by what rows name in their column ``environment``.
        attempts: The index of each within its group; by default equal rows are counted in their order.
    """
    names = [task_id(task) for task in tasks]
    for task, name, attempt in zip(tasks, names, attempts_of(names) if attempts is None else attempts, strict=True):
        yield Job(task, name, attempt, maker_for(task, environment), strategy, seed)
