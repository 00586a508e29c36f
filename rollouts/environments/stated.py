"""What scripted writers of summaries share: facts stated as a name and its value, and a budget to keep them in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise


def latest_values(text: str, values: Mapping[str, Collection[str]]) -> dict[str, str]:
    """The latest value that a text states of each name, in order of their last mention.

    Args:
        values: By name, the values that it may have.
    """
    found: dict[str, str] = {}
    for name, value in pairwise(text.split()):
        if value in values.get(name, ()):
            found.pop(name, None)
            found[name] = value
    return found


def within(budget: int, kept: Sequence[str]) -> str:
    """As many of the statements as the budget holds, in their order; the reply's end takes one token."""
    room = budget - 1
    said: list[str] = []
    for statement in kept:
        room -= len(statement.split()) + 1
        if room < 0:
            break
        said.append(statement + " .")
    return " ".join(said) or "none ."
