"""Plays one cell of an evaluation, or what is missing of it, and keeps every episode as it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from eval.arguments import SHUFFLED_SUMMARY
from eval.evaluate import evaluate, outcome_of
from eval.folder import RunFolder
from eval.frequent import most_frequent
from eval.grid import CellKey
from eval.results import Cell
from eval.setup import Setup, Way
from eval.shuffled import shuffled
from rollouts.episode import Episode
from rollouts.runner import Job
from rollouts.storage import EpisodeWriter
from summarization.controls import ShuffledSummary
from summarization.strategies import SelfSummary


class Player:
    """Plays cells into a folder, which is claimed with the first episode, when all that can be wrong was looked at.

    Args:
        setup: Of the evaluation.
        folder: Where episodes go.
        about: What the folder notes of the run.
    """

    def __init__(self, setup: Setup, folder: RunFolder, about: Mapping[str, Any]) -> None:
        self.setup, self.folder, self.about = setup, folder, about
        self.begun = False

    def begin(self) -> None:
        """Claim the folder, once."""
        if not self.begun:
            self.folder.begin(self.about)
            self.begun = True

    def play(
        self, key: CellKey, way: Way, rows: Sequence[Mapping[str, Any]], missing: Sequence[Mapping[str, Any]]
    ) -> Cell:
        """Play ``missing``, which are some of a cell's ``rows``; returns what came of them.

        Raises:
            UserError: The window is too small, the engine refuses, or the folder cannot be written.
        """
        if not way.plays:
            # The most frequent answer may be another one where samples came in, so all are answered anew.
            episodes = most_frequent(rows, way.environment)
            self.begin()
            self.folder.replace(key, episodes)
            return Cell("", key.strategy, key.length, tuple(map(outcome_of, episodes)))
        if way.kind == SHUFFLED_SUMMARY:
            way = self._with_summaries(key, way, rows)
        a = self.setup.arguments
        with ExitStack() as stack:
            writer: EpisodeWriter | None = None

            def keep(job: Job, episode: Episode) -> None:
                nonlocal writer
                if writer is None:
                    self.begin()
                    writer = stack.enter_context(self.folder.writer(key))
                with self.folder.writing():
                    writer.append(episode)

            return evaluate(
                "",
                key.strategy,
                way.strategy,
                missing,
                key.length,
                way.environment,
                self.setup.engines(way),
                self.setup.renderer,
                way.limits,
                a.seed,
                keep,
            )

    def _with_summaries(self, key: CellKey, way: Way, rows: Sequence[Mapping[str, Any]]) -> Way:
        """The way, with the summaries that the source's cell holds; the grid plays that cell first."""
        source = way.strategy
        assert isinstance(source, SelfSummary)
        written = shuffled(
            rows, self.folder.episodes(replace(key, strategy=self.setup.arguments.source_of(key.strategy)))
        )
        return replace(way, strategy=ShuffledSummary(source, written, self.setup.room))
