"""What the tests of tasks share: two ways to count tokens, and a sample to ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from eval.tasks.base import Ask


def words(text: str) -> int:
    """As a tokenizer with one token a word."""
    return len(text.split())


def quarters(text: str) -> int:
    """As a tokenizer with four characters a token."""
    return max(1, len(text) // 4)


def ask(
    seed: int = 0,
    tokens: int = 1000,
    count: Callable[[str], int] = words,
    options: Mapping[str, object] | None = None,
) -> Ask:
    """A sample, short unless said otherwise."""
    return Ask(seed, tokens, count, options or {})
