"""A run goes on from a checkpoint that was written to its end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from recipe.checkpoints import last_whole_checkpoint


def checkpoint(folder: Path, step: int, state: str | None) -> Path:
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "config.json").write_text("{}")
    if state is not None:
        (path / "trainer_state.json").write_text(state)
    return path


def whole(step: int) -> str:
    return json.dumps({"global_step": step, "log_history": []})


def test_the_newest_by_number(tmp_path: Path) -> None:
    for step in (9, 100, 20):
        checkpoint(tmp_path, step, whole(step))
    (tmp_path / "checkpoint-101").write_text("a file")
    (tmp_path / "checkpoint-best").mkdir()
    assert last_whole_checkpoint(tmp_path, Console(quiet=True)) == str(tmp_path / "checkpoint-100")


@pytest.mark.parametrize("cut", [None, "", '{"global_step": 3', "[]", "{}"])
def test_one_that_was_cut_off_is_passed_over_and_named(
    tmp_path: Path, cut: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint(tmp_path, 28, whole(28))
    broken = checkpoint(tmp_path, 30, cut)
    assert last_whole_checkpoint(tmp_path, Console()) == str(tmp_path / "checkpoint-28")
    assert f"{broken}: was cut off" in capsys.readouterr().out.replace("\n", " ")


def test_none_where_there_is_none(tmp_path: Path) -> None:
    assert last_whole_checkpoint(tmp_path / "nowhere", Console(quiet=True)) is None
    checkpoint(tmp_path, 30, None)
    assert last_whole_checkpoint(tmp_path, Console(quiet=True)) is None
