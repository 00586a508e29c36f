"""What an evaluation is to play: which samples of which cells are missing, what does not fit, and what it will take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval.arguments import FULL_CONTEXT, SHUFFLED_SUMMARY, EvalArguments
from eval.folder import RunFolder
from eval.grid import CellKey, cells, rows
from eval.reading import Reading
from eval.setup import Setup, Way
from eval.shuffled import check_texts
from rollouts.jobs import task_id

UNKNOWN_SHARE = 0.02
LOOKED_AT_PAGES = 4


@dataclass(frozen=True)
class Plan:
    """What there is to do.

    Attributes:
        ways: How each strategy is played.
        rows: All samples of each cell that fits.
        left: Those of them that are not in the folder yet.
        unfit: Cells whose samples do not fit into the window.
    """

    ways: Mapping[str, Way]
    rows: Mapping[CellKey, Sequence[Mapping[str, Any]]]
    left: Mapping[CellKey, Sequence[Mapping[str, Any]]]
    unfit: Sequence[CellKey]

    @property
    def tokens(self) -> int:
        """Tokens of pages still to be read; those of files are not known beforehand."""
        return sum(self.ways[key.strategy].cost(key.length) * len(missing) for key, missing in self.left.items())


def plan(arguments: EvalArguments, setup: Setup, folder: RunFolder) -> Plan:
    """What is missing in a folder.

    Raises:
        UserError: A file cannot be read, a stored cell is broken, or a control has nothing to work with.
    """
    wanted = list(cells(arguments))
    ways = {key.strategy: setup.way(key.strategy) for key in wanted}
    # Every strategy reads the same samples, and a file need not be read for each of them.
    samples: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    every: dict[CellKey, Sequence[Mapping[str, Any]]] = {}
    left: dict[CellKey, Sequence[Mapping[str, Any]]] = {}
    unfit: list[CellKey] = []
    for key in wanted:
        way = ways[key.strategy]
        if not way.fits(key.length):
            unfit.append(key)
            continue
        place = (key.task, key.asked, key.length)
        if place not in samples:
            samples[place] = rows(arguments, key)
        every[key] = samples[place]
        if way.kind == SHUFFLED_SUMMARY:
            check_texts(key.task, key.strategy, every[key])
        done = {episode.task_id for episode in folder.episodes(key)}
        left[key] = [row for row in every[key] if task_id(row) not in done]
    return Plan(ways, every, left, unfit)


def in_words(made: Plan, seconds: Mapping[CellKey, float]) -> str:
    """A plan for people; ``seconds`` are estimates, for those cells that have one."""
    lines = [
        f"{_cell(key)} {len(missing):>4} episodes to play"
        + (f"  about {duration(seconds[key])}" if key in seconds else "")
        for key, missing in made.left.items()
    ]
    for key in made.unfit:
        way = made.ways[key.strategy]
        name = "full_window" if way.kind == FULL_CONTEXT else "window"
        lines.append(f"{_cell(key)} left out: does not fit into {name} ({way.limits.window:,} tokens)")
    episodes = sum(map(len, made.left.values()))
    files = " (those of files not counted)" if any(key.length == 0 for key in made.left) else ""
    lines.append(f"{episodes:,} episodes, {made.tokens:,} tokens of pages to read{files}")
    return "\n".join(lines)


def unknown_tokens(made: Plan, setup: Setup) -> str | None:
    """A warning that the policy's tokenizer does not know the words of some tasks; None where it does.

    Looks at the question and the first pages of one sample of each task.
    """
    unknown = setup.tokenizer.unk_token_id
    shares: dict[str, float] = {}
    for key, samples in made.rows.items():
        if unknown is None or key.task in shares or not samples:
            continue
        reading = Reading(setup.renderer.count, setup.arguments.page_tokens, setup.arguments.haystack)
        texts = [message.content for message in reading.reset(samples[0]).messages[1:]]
        for _ in range(LOOKED_AT_PAGES):
            observation = reading.advance(None)
            texts += [message.content for message in observation.messages]
            if observation.needs_act:
                break
        reading.close()
        ids = [token for text in texts for token in setup.renderer.content_ids(text)]
        shares[key.task] = sum(token == unknown for token in ids) / max(1, len(ids))
    bad = [f"{share:.0%} of task '{task}'" for task, share in shares.items() if share > UNKNOWN_SHARE]
    if not bad:
        return None
    return (
        f"warning: the tokenizer of policy '{setup.arguments.policy}' does not know the words of {', '.join(bad)}: "
        "they are unknown tokens to it, and scores there say nothing of the policy"
    )


def _cell(key: CellKey) -> str:
    return f"{key.task:<16} {key.asked:<5} {key.length:>9,} tokens  {key.strategy:<20}"


def duration(seconds: float) -> str:
    """Seconds as a person would say them."""
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )
