"""When to compact: a token budget, fixed or drawn per compaction.

Deliberately left out: what to ask and what to keep (``strategies``), and any count of tokens (the runner counts).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


def uniform_draw(*key: object) -> float:
    """A number in [0, 1) that depends on ``key`` alone, on every machine and in every process."""
    digest = hashlib.blake2b("\x1f".join(map(str, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


@dataclass(frozen=True)
class TokenBudget:
    """Fires when the window would overflow, or earlier where a share of the window is drawn for training.

    Attributes:
        low: Smallest share of the window at which a compaction may be due, in (0, 1].
        high: Largest such share. ``low == high == 1`` compacts only when it must.
    """

    low: float = 1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.low <= self.high <= 1.0:
            raise ValueError(f"trigger shares are low={self.low}, high={self.high}; need 0 < low <= high <= 1")

    def limit(self, window: int, seed: int, task: str, compaction: int) -> int:
        """Tokens that may be in use before this compaction is due; a replay with the same arguments draws the same."""
        share = self.low
        if self.high > self.low:
            share += (self.high - self.low) * uniform_draw("trigger", seed, task, compaction)
        return int(window * share)

    def fires(self, in_use: int, incoming: int, reserve: int, limit: int) -> bool:
        """Whether appending ``incoming`` tokens and keeping ``reserve`` free would pass ``limit`` tokens."""
        return in_use + incoming + reserve > limit
