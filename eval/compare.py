"""Differences between two runs, sample by sample: the same tasks, two policies."""

from __future__ import annotations

from pathlib import Path

from eval.evaluate import outcome_of
from eval.folder import RunFolder
from eval.stats import paired_difference
from summarization.resolve import UserError


def compare(first: Path, second: Path) -> str:
    """The score of ``first`` minus that of ``second`` in every cell that both have, with its 95 % interval.

    Raises:
        UserError: One of them is no folder of an evaluation, or they have no sample in common.
    """
    mine, theirs = _scores(first), _scores(second)
    lines = [f"{first} minus {second}"]
    for cell in mine:
        if cell not in theirs or not set(mine[cell]) & set(theirs[cell]):
            continue
        mean, interval, n = paired_difference(mine[cell], theirs[cell])
        bounds = "interval not available" if interval is None else f"{interval.low:+.3f} to {interval.high:+.3f}"
        task, asked, length, strategy = cell
        lines.append(f"{task:<16} {asked:<5} {length:>9,} tokens  {strategy:<18} {mean:+.3f}  {bounds}  n {n}")
    if len(lines) == 1:
        raise UserError(
            f"compare: '{first}' and '{second}' have no sample in common: use equal tasks, lengths and seed"
        )
    return "\n".join(lines)


def _scores(path: Path) -> dict[tuple[str, str, int, str], dict[str, float]]:
    folder = RunFolder(path)
    folder.arguments()
    return {
        (key.task, key.asked, key.length, key.strategy): {
            outcome.task_id: outcome.success for outcome in map(outcome_of, folder.episodes(key))
        }
        for key in folder.cells()
    }
