"""Cells become rows, tables and pictures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eval.evaluate import outcome_of, success_of
from eval.report import row, table
from eval.results import Cell, Outcome, cell_from_dict, cell_to_dict
from eval.stats import wilson
from rollouts.episode import Compaction, Status
from tests.recipe.worlds import random_episode

OUTCOME = Outcome("a", "a", 1.0, 30, 3, 200, 900, 1.0, 0.5, "finished")


def cell(*outcomes: Outcome) -> Cell:
    return Cell("after", "self_summary", 800, outcomes)


def test_a_row_has_mean_n_and_interval() -> None:
    other = replace(OUTCOME, task_id="b", cluster="b", success=0.0, summary_tokens=10, compactions=1, retention=None)
    made = row(cell(OUTCOME, other))
    assert (made["n"], made["success"]) == (2, 0.5)
    assert made["interval_95"] == [wilson(1, 2).low, wilson(1, 2).high]
    assert made["summary_tokens"] == pytest.approx(40 / 4)
    assert made["retention"] == 0.5
    assert made["peak_context"] == 200
    assert made["statuses"] == {"finished": 2}
    assert "| after | self_summary | 800 | 2 | 0.500 |" in table([made])


def test_an_empty_cell_is_no_error() -> None:
    made = row(cell())
    assert (made["n"], made["interval_95"], made["summary_tokens"]) == (0, None, None)
    assert table([made]).count("\n") == 3


def test_cells_come_back_from_disk() -> None:
    made = cell(OUTCOME, replace(OUTCOME, retention=None))
    assert cell_from_dict(cell_to_dict(made)) == made


def test_only_a_finished_episode_can_be_a_success() -> None:
    episode = replace(random_episode({"row": 1}, 0, 0), reward=1.0)
    assert success_of(episode) == 1.0
    assert success_of(replace(episode, status=Status.OUT_OF_TURNS)) == 0.0
    assert success_of(replace(episode, reward=0.5)) == 0.0
    assert success_of(replace(episode, reward=None)) == 0.0
    assert success_of(replace(episode, metrics={"environment/success": 0.0})) == 0.0


def test_an_outcome_counts_what_the_episode_did() -> None:
    compaction = Compaction(0, 90, 30, "x", 5, needed=("a",), kept=(True,))
    metrics = {"summary_tokens": 5, "peak_context": 90, "tokens_forwarded": 120, "seconds": 0.5}
    episode = replace(
        random_episode({"row": 1}, 0, 0), reward=1.0, compactions=(compaction,), metrics=metrics, acts=("ham 3",)
    )
    expected = Outcome("1", "1", 1.0, 5, 1, 90, 120, 0.5, 1.0, "finished")
    assert outcome_of(episode) == expected
    assert outcome_of(replace(episode, acts=(" ",))) == replace(expected, empty=True)
    more = {"environment/official": 0.5, "environment/read_tokens": 70.0, "cut_off_acts": 1.0}
    scored = replace(episode, metrics={**metrics, **more}, task={"cluster": "page"})
    assert outcome_of(scored) == replace(expected, cluster="page", official=0.5, read_tokens=70, cut_off=True)
    # What did not finish counts 0 by either score.
    assert outcome_of(replace(scored, status=Status.ENGINE_ERROR)).official == 0.0
