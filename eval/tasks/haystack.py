"""Filler text: prose that every machine with Python has, or a file that the user names."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from rollouts.environments.real_text import paragraphs
from summarization.resolve import UserError

LONGEST_WORDS = 120


def filler(seed: str, source: str | None = None) -> Iterator[str]:
    """Paragraphs of the haystack without end, in an order drawn from ``seed``; after the last they begin again.

    Args:
        source: A text file (UTF-8); None for the prose of Python's documentation.

    Raises:
        UserError: The file cannot be read, or holds no text.
    """
    found = paragraphs() if source is None else _file(source)
    rng = random.Random(f"haystack/{seed}")
    while True:
        for index in rng.sample(range(len(found)), len(found)):
            words = found[index].split()
            for start in range(0, len(words), LONGEST_WORDS):
                yield " ".join(words[start : start + LONGEST_WORDS])


@cache
def _file(path: str) -> tuple[str, ...]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"haystack is '{path}': it cannot be read ({error})") from error
    found = tuple(" ".join(part.split()) for part in text.split("\n\n") if part.strip())
    if not found:
        raise UserError(f"haystack is '{path}': the file holds no text")
    return found
