"""The control ``shuffled_summary``: which other sample's summaries a sample is given.

A sample is given the summaries that the source strategy wrote for the nearest sample before it on another text (for the
first ones, the nearest after it), in the order of the cell's samples; samples without a compaction are passed over. At
its k-th compaction it carries that sample's k-th summary, and its last one where it had fewer. So a sample's giver
depends on nothing but the samples and what is stored of the source's cell: a run that was stopped, or that was given
more samples, goes on with the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from rollouts.episode import Episode
from rollouts.jobs import task_id
from summarization.resolve import UserError


def check_texts(task: str, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Refuse samples that are all on one text.

    Raises:
        UserError: No sample has another text's summary to carry.
    """
    if len({_text(row) for row in rows}) < 2:
        raise UserError(
            f"strategies: '{name}' takes summaries of samples on another text, but those of '{task}' are on one: "
            "ask for more samples, or leave it out"
        )


def givers(rows: Sequence[Mapping[str, Any]], wrote: Collection[str]) -> dict[str, str]:
    """By the id of each sample, the id of the one whose summaries it carries; no entry where no other wrote any."""
    order = [(task_id(row), _text(row)) for row in rows]
    found: dict[str, str] = {}
    for index, (name, text) in enumerate(order):
        others = (*reversed(order[:index]), *order[index + 1 :])
        giver = next((other for other, its in others if its != text and other in wrote), None)
        if giver is not None:
            found[name] = giver
    return found


def shuffled(rows: Sequence[Mapping[str, Any]], episodes: Iterable[Episode]) -> Callable[[str, int], str]:
    """What a sample carries, by its id and the number of its compaction.

    Args:
        rows: All samples of the cell.
        episodes: Those of the source's cell. Their summaries are held; nothing else is.
    """
    summaries = {e.task_id: tuple(c.summary for c in e.compactions) for e in episodes if e.compactions}
    giver = givers(rows, summaries)

    def written(sample: str, number: int) -> str:
        of_other = summaries.get(giver.get(sample, ""), ())
        return of_other[min(number, len(of_other)) - 1] if of_other else ""

    return written


def _text(row: Mapping[str, Any]) -> str:
    return str(row.get("cluster") or task_id(row))
