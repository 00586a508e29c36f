"""Figures about summaries: compression, retention of known facts, growth over a chain."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol


def held(fact: str, text: str) -> bool:
    """Whether ``text`` holds every word of ``fact`` as a whole word, in order and next to each other, case ignored."""
    words = fact.split()
    if not words:
        return True
    pattern = r"(?<!\w)" + r"\s+".join(re.escape(word) for word in words) + r"(?!\w)"
    return re.search(pattern, text, re.IGNORECASE) is not None


class Compacted(Protocol):
    """What these figures need to know of a compaction."""

    @property
    def tokens_before(self) -> int: ...
    @property
    def tokens_after(self) -> int: ...
    @property
    def summary_tokens(self) -> int: ...
    @property
    def needed(self) -> tuple[str, ...]: ...
    @property
    def kept(self) -> tuple[bool, ...]: ...


def compression(compactions: Sequence[Compacted]) -> float | None:
    """Mean of tokens after over tokens before; None without a compaction."""
    if not compactions:
        return None
    return sum(c.tokens_after / c.tokens_before for c in compactions) / len(compactions)


def retention(compactions: Sequence[Compacted]) -> float | None:
    """Share of needed facts that a compaction kept, over all that it could have; None where no fact was needed.

    A fact that an earlier compaction lost can not be kept by a later one, so it counts only where it was still held.
    """
    kept = total = 0
    lost: set[str] = set()
    for compaction in compactions:
        for fact, is_kept in zip(compaction.needed, compaction.kept, strict=True):
            if is_kept:
                lost.discard(fact)
            if fact in lost:
                continue
            total += 1
            kept += is_kept
            if not is_kept:
                lost.add(fact)
    return kept / total if total else None


def growth(compactions: Sequence[Compacted]) -> float | None:
    """Tokens of the last summary over those of the first; None with fewer than two summaries."""
    if len(compactions) < 2 or not compactions[0].summary_tokens:
        return None
    return compactions[-1].summary_tokens / compactions[0].summary_tokens
