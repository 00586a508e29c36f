"""What became of each needed fact: after how many compactions it was still there, and which compaction lost it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rollouts.episode import Compaction, Episode


@dataclass(frozen=True)
class Loss:
    """A needed fact that was gone at the end.

    Attributes:
        task_id: Of the episode.
        fact: What was lost.
        compaction: Index of the compaction that lost it, from 1.
        compactions: How many the episode had.
        before: The last summary that held it; empty where none did.
        after: The summary that lost it.
    """

    task_id: str
    fact: str
    compaction: int
    compactions: int
    before: str
    after: str


@dataclass(frozen=True)
class Kept:
    """Compactions number ``first`` to ``last`` of their episodes, and the share of needed facts that they kept.

    Attributes:
        held: Of the facts that the window held before, how many the summary did.
        total: Of how many.
        surviving: Of all facts needed at those compactions, the share that was there after them.
    """

    first: int
    last: int
    held: int
    total: int
    surviving: float


def losses(episode: Episode) -> list[Loss]:
    """The needed facts that the last compaction's window no longer held, and where each was lost."""
    found: list[Loss] = []
    last = episode.compactions[-1] if episode.compactions else None
    for fact, kept in zip(last.needed, last.kept, strict=True) if last else ():
        if kept:
            continue
        at = _lost_at(episode.compactions, fact)
        before = episode.compactions[at - 1].summary if at and _holds(episode.compactions[at - 1], fact) else ""
        found.append(
            Loss(episode.task_id, fact, at + 1, len(episode.compactions), before, episode.compactions[at].summary)
        )
    return found


def _lost_at(compactions: Sequence[Compaction], fact: str) -> int:
    """Index of the compaction after which the fact was never held again."""
    at = len(compactions)
    while at > 0 and fact in compactions[at - 1].needed and not _holds(compactions[at - 1], fact):
        at -= 1
    return at


def _holds(compaction: Compaction, fact: str) -> bool:
    return any(kept for needed, kept in zip(compaction.needed, compaction.kept, strict=True) if needed == fact)


def survival(episodes: Iterable[Sequence[Compaction]]) -> list[Kept]:
    """Retention by the number of the compaction, in bins that double: 1, 2 to 3, 4 to 7, 8 to 15, ..."""
    held: dict[int, list[int]] = {}
    for compactions in episodes:
        lost: set[str] = set()
        for number, compaction in enumerate(compactions, 1):
            counts = held.setdefault(number.bit_length() - 1, [0, 0, 0, 0])
            for fact, kept in zip(compaction.needed, compaction.kept, strict=True):
                counts[2] += kept
                counts[3] += 1
                # What was lost before cannot be kept now.
                if kept or fact not in lost:
                    counts[0] += kept
                    counts[1] += 1
                (lost.discard if kept else lost.add)(fact)
    return [
        Kept(2**bin_, 2 ** (bin_ + 1) - 1, kept, total, there / every)
        for bin_, (kept, total, there, every) in sorted(held.items())
        if total and every
    ]
