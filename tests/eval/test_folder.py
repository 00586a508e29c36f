"""What a user does to an evaluation's folder ends in one sentence, and a run that cannot work leaves no trace."""

from __future__ import annotations

import gzip
import json
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from eval.folder import stored
from eval.run import main
from tests.eval.test_run import config

ONE: dict[str, Any] = {"tasks": ["recall"], "lengths": [300], "samples": [1], "strategies": ["sliding_window"]}


def sentence(capsys: pytest.CaptureFixture[str]) -> str:
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("error: ")
    return line


def packed(*lines: Any) -> bytes:
    return b"".join(gzip.compress((json.dumps(line) + "\n").encode()) for line in lines)


HEAD = {"format": "palimpsest-episodes", "version": 1}
CELL = {"task": "recall", "asked": "both", "length": 300, "strategy": "sliding_window"}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a YAML and the run that it asked for."""
    folder = tmp_path_factory.mktemp("played")
    assert main(["--config", config(folder, **ONE)]) == 0
    return folder


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(b"no gzip at all", id="text"),
        pytest.param(packed({"format": "something else"}), id="another format"),
        pytest.param(packed({**HEAD, **CELL}, {"task": {}}), id="half an episode"),
        pytest.param(packed({**HEAD, **CELL}, [1, 2]), id="no episode"),
        pytest.param(packed({**HEAD, **CELL}) + b"garbage", id="garbage"),
    ],
)
def test_a_broken_cell_is_named(
    broken: bytes, played: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(played / "run", tmp_path / "run")
    (cell,) = (tmp_path / "run" / "samples").iterdir()
    cell.write_bytes(broken)
    for words in (
        ["--config", config(tmp_path, **ONE)],
        ["rescore", str(tmp_path / "run")],
        ["compare", *[str(tmp_path / "run")] * 2],
    ):
        assert main(words) == 2
        line = sentence(capsys)
        assert f"{cell}: is broken (" in line
        assert line.endswith("delete it to play its episodes again, or restore it")


def test_a_cell_that_was_deleted_is_played_again(played: Path, tmp_path: Path) -> None:
    shutil.copytree(played / "run", tmp_path / "run")
    (cell,) = (tmp_path / "run" / "samples").iterdir()
    before = [episode.acts for episode in stored(cell)]
    cell.unlink()
    assert main(["--config", config(tmp_path, **ONE)]) == 0
    assert [episode.acts for episode in stored(cell)] == before
    assert len(before) == 1


@pytest.mark.parametrize("broken", ["", "{", "[]", "{}", '{"arguments": 3}', "\x00"])
def test_broken_arguments_are_named(broken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = config(tmp_path, **ONE)
    noted = tmp_path / "run" / "arguments.json"
    noted.parent.mkdir()
    noted.write_text(broken)
    for words in (["--config", plan], ["rescore", str(tmp_path / "run")], ["compare", *[str(tmp_path / "run")] * 2]):
        assert main(words) == 2
        line = sentence(capsys)
        assert f"{noted}: is broken (" in line
        assert "restore it, or delete the whole folder" in line


def test_arguments_of_the_wrong_type_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    noted = tmp_path / "arguments.json"
    noted.write_text(json.dumps({"arguments": {"output_dir": "x", "policy": "tiny", "window": "wide"}}))
    assert main(["rescore", str(tmp_path)]) == 2
    assert f"{noted}: window is 'wide': must be a whole number" in sentence(capsys)


def test_an_output_dir_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for place in (str(file), str(file / "below"), "/dev/null/x", "/proc/x"):
        for dry in ([], ["--dry_run"]):
            assert main(["--config", config(tmp_path, **ONE), "--output_dir", place, *dry]) == 2
            assert f"output_dir is '{place}': it cannot be written" in sentence(capsys)
    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    "changes",
    [{"window": 30, "strategies": ["self_summary"]}, {"engine_kwargs": {"fast": True}}, {"policy": "/nowhere"}],
)
def test_a_run_that_cannot_work_claims_no_folder(changes: dict[str, Any], tmp_path: Path) -> None:
    assert main(["--config", config(tmp_path, **{**ONE, **changes})]) == 2
    assert not (tmp_path / "run").exists()


def test_a_dead_endpoint_is_noticed_before_anything_is_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        # Bound, but nobody listens.
        kwargs = {"base_url": address, "model": "m", "timeout": 5}
        assert main(["--config", config(tmp_path, **ONE, engine="openai", engine_kwargs=kwargs)]) == 2
    line = sentence(capsys)
    assert f"engine_kwargs: base_url '{address}'" in line
    assert "given up after 2 attempts: the connection failed" in line
    assert "start the endpoint, or correct base_url" in line
    assert not (tmp_path / "run").exists()
