"""Real text that every machine with Python has: the prose of its own documentation (``pydoc_data.topics``)."""

from __future__ import annotations

import importlib
from functools import cache


@cache
def paragraphs(least_words: int = 12) -> tuple[str, ...]:
    """Paragraphs of Python's reference documentation with at least ``least_words`` words, white space folded."""
    topics: dict[str, str] = importlib.import_module("pydoc_data.topics").topics
    found = [" ".join(part.split()) for name in sorted(topics) for part in topics[name].split("\n\n")]
    return tuple(part for part in found if len(part.split()) >= least_words)
