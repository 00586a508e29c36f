"""What a run is refused for before anything is trained, beyond what its YAML shows by itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from recipe.arguments import Arguments
from recipe.credit import BUILTIN as CREDIT_RULES
from recipe.credit import EpisodeCredit, TurnCredit
from rollouts.environment import Environment
from rollouts.episode import Status, TurnKind
from rollouts.jobs import COLUMN, maker_for
from summarization.resolve import UserError, resolve

# The environment whose tasks are generated here; any other brings its rows in a file.
GENERATED = "recall"


def check_whole_copy() -> None:
    """Refuse GRPO where no process has the whole policy.

    Raises:
        UserError: accelerate was told to split the weights.
    """
    for variable, name in (("ACCELERATE_USE_FSDP", "FSDP"), ("ACCELERATE_USE_DEEPSPEED", "DeepSpeed")):
        if os.environ.get(variable, "false").lower() in ("true", "1"):
            raise UserError(
                f"the launch config asks for {name}: stage 'grpo' samples with the embedded engine, which needs a "
                "whole copy of the policy in each process; use configs/accelerate/ddp.yaml, and keep it for 'midtrain'"
            )


def check_tasks(arguments: Arguments) -> None:
    """Refuse a run that asks for tasks nobody makes.

    Raises:
        UserError: The environment needs a file of rows, or held-out tasks were asked for where there are none.
    """
    several = arguments.episodes.environments
    name = ", ".join(several) or arguments.episodes.environment
    if not several and name == GENERATED:
        return
    if several and "midtrain" in arguments.stages.stages:
        raise UserError(
            f"environments is {several}: demonstrations are written for one environment alone; leave 'midtrain' out of "
            "stages"
        )
    if arguments.episodes.train_file is None:
        raise UserError(
            f"train_file is not set: environment '{name}' needs task rows; name a file with one JSON object a line"
        )
    if "eval" in arguments.stages.stages or arguments.stages.eval_every:
        raise UserError(
            f"environment is '{name}': held-out tasks are generated for '{GENERATED}' alone; leave 'eval' out of "
            "stages and set eval_every to 0"
        )


def check_credit_rule(name: str) -> None:
    """Try the credit rule on a group of two.

    Raises:
        UserError: It is unknown, no function, or does not give a number for each turn.
    """
    rule: Any = resolve(name, CREDIT_RULES, "credit")
    turns = (TurnCredit(TurnKind.SUMMARY, 3), TurnCredit(TurnKind.ACT, 1))
    group = [EpisodeCredit(reward, Status.FINISHED, turns) for reward in (0.0, 1.0)]
    what = "a function from the episodes of a group and their advantages to one number for each turn"
    if not callable(rule) or isinstance(rule, type):
        raise UserError(f"credit is '{name}': must name {what}, is a {type(rule).__name__}")
    try:
        given: Any = rule(group, [-0.5, 0.5])
        fits = [[float(number) for number in numbers] for numbers in given]
    except Exception as error:
        raise UserError(
            f"credit is '{name}': must name {what}, but it fails on a group of two ({type(error).__name__}: {error})"
        ) from error
    if [len(numbers) for numbers in fits] != [2, 2]:
        raise UserError(f"credit is '{name}': must name {what}, but two episodes of two turns got {given!r}")


def check_strategy_kind(kind: Any, name: str) -> None:
    """Refuse a strategy that is no dataclass with the methods of ``Strategy``.

    Raises:
        UserError: It is something else.
    """
    lacking = [method for method in ("due", "request", "reopen") if not callable(getattr(kind, method, None))]
    if not isinstance(kind, type) or not is_dataclass(kind) or lacking:
        found = f"lacks {lacking[0]}" if isinstance(kind, type) and lacking else f"is a {type(kind).__name__}"
        if isinstance(kind, type) and not lacking:
            found = "is no dataclass"
        raise UserError(
            f"strategy is '{name}': must name a dataclass with due, request and reopen "
            f"(summarization.strategies.Strategy), but it {found}"
        )


def first_rows(
    rows: Sequence[Mapping[str, Any]], environments: Mapping[str, Callable[[], Environment]], path: Path
) -> list[Mapping[str, Any]]:
    """The first row of each of several environments.

    Raises:
        UserError: A row names none of them; the text names its number, empty lines not counted.
    """
    first: dict[str, Mapping[str, Any]] = {}
    for number, row in enumerate(rows, 1):
        try:
            maker_for(row, environments)
        except UserError as error:
            raise UserError(f"{path}, task {number}: {error}") from error
        first.setdefault(str(row[COLUMN]), row)
    return list(first.values())


def check_rows(rows: Sequence[Mapping[str, Any]], environment: Callable[[], Environment], path: Path) -> None:
    """Reset an environment with every row; for environments whose reset costs nothing.

    Raises:
        UserError: A row is refused; the text names its number, empty lines not counted.
    """
    for number, row in enumerate(rows, 1):
        made = environment()
        try:
            made.reset(row)
        except UserError as error:
            raise UserError(f"{path}, task {number}: {error}") from error
        finally:
            made.close()
