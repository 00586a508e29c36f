"""Data sets loaded by the library ``datasets``: folders, files and its cache, by the call that loads from the hub."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import datasets
import pyarrow
import pyarrow.parquet
import pytest

from eval.grid import file_name, file_rows
from eval.run import main
from eval.tasks.base import Ask
from eval.tasks.files import FILE_TASKS, Source, load
from eval.tasks.hub import load_hub
from summarization.resolve import UserError
from tests.eval.tasks.samples import words
from tests.eval.test_run import config, report

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TEXT = "The number of cats is 1234567. " + "The sea is wide. " * 40


@pytest.fixture(autouse=True)
def _offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is looked for in a network, and nothing is kept outside the test's folder."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


def ruler(value: str) -> dict[str, object]:
    text = TEXT.replace("1234567", value)
    return {"index": 0, "input": f"{text}\n\nWhat is the number of cats?", "outputs": [value]}


def folder(place: Path, **splits: list[dict[str, object]]) -> Path:
    """A data set as the hub has it: a file for each split."""
    place.mkdir(parents=True, exist_ok=True)
    for split, rows in splits.items():
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), place / f"{split}.parquet")
    return place


def test_a_folder_with_splits(tmp_path: Path) -> None:
    place = folder(tmp_path / "set", test=[ruler("1234567"), ruler("7654321")], train=[ruler("1111111")])
    rows = list(load(f"hub:{place}", "ruler", split="test"))
    assert [row.sample.answers for row in rows] == [("1234567",), ("7654321",)]
    assert len({row.id for row in rows}) == 2
    (other,) = load(f"hub:{place}", "ruler", split="train")
    assert other.id.partition("-")[0] != rows[0].id.partition("-")[0]
    assert rows[0].source.revision == ""
    with pytest.raises(UserError, match="say which split by 'split'"):
        list(load(f"hub:{place}", "ruler"))
    with pytest.raises(UserError, match="cannot be had"):
        list(load(f"hub:{place}", "ruler", split="validation"))


def test_the_task_is_read_from_the_split(tmp_path: Path) -> None:
    place = folder(tmp_path / "set", qa7=[{"input": TEXT, "question": "How many?", "target": "none"}])
    splits = "- config_name: 4k\n  data_files:\n  - split: qa7\n    path: qa7.parquet\n"
    (place / "README.md").write_text(f"---\nconfigs:\n{splits}---\n")
    task = FILE_TASKS["babilong_file"](Ask(0, 0, words, {"path": f"hub:{place}", "subset": "4k", "split": "qa7"}))
    assert task.metric == "qa7"


def test_ids_follow_from_the_contents(tmp_path: Path) -> None:
    first = folder(tmp_path / "a", test=[ruler("1234567")])
    again = folder(tmp_path / "b", test=[ruler("1234567")])
    other = folder(tmp_path / "c", test=[ruler("7654321")])
    ids = [next(load(f"hub:{place}", "ruler")).id for place in (first, again, other)]
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_files_by_the_librarys_own_readers(tmp_path: Path, kind: str) -> None:
    if kind == "json":
        path = tmp_path / "rows.jsonl"
        path.write_text(json.dumps(ruler("1234567")) + "\n")
    else:
        path = folder(tmp_path, rows=[ruler("1234567")]) / "rows.parquet"
    (row,) = load(f"hub:{kind}", "ruler", file=str(path))
    assert row.sample.answers == ("1234567",)
    assert row.sample == next(load(str(path), "ruler")).sample


def test_what_was_loaded_from_the_hub_before_is_found_with_its_commit(tmp_path: Path) -> None:
    """The library's cache as a data set of the hub leaves it there, made from a local one."""
    place = folder(tmp_path / "set", test=[ruler("1234567")])
    made = datasets.load_dataset(str(place), split="test", cache_dir=str(tmp_path / "aside"))
    assert isinstance(made, datasets.Dataset)
    before = Path(made.cache_files[0]["filename"]).parent
    after = tmp_path / "cache" / "owner___name" / "default" / "0.0.0" / COMMIT
    shutil.copytree(before, after)
    for file in after.glob("*.arrow"):
        file.rename(after / file.name.replace(file.name.rpartition("-")[0], "name") if "-test" in file.name else file)
    (row,) = load("hub:owner/name", "ruler", split="test")
    assert row.source == Source(Path("hub:owner/name"), "owner/name", COMMIT)
    assert row.sample.answers == ("1234567",)


def test_what_is_nowhere_is_one_sentence() -> None:
    with pytest.raises(UserError, match=r"^hub:owner/nowhere: the data set cannot be had .* network$"):
        load_hub("hub:owner/nowhere", split="test")


def test_rows_are_refused_with_their_place(tmp_path: Path) -> None:
    place = folder(tmp_path / "set", test=[{"input": TEXT}])
    with pytest.raises(UserError, match=r"set, split test, row 1: field 'outputs' is missing"):
        list(load(f"hub:{place}", "ruler"))


def test_subset_and_split_need_the_library(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(ruler("1234567")) + "\n")
    with pytest.raises(UserError, match="subset and split are for data sets"):
        list(load(str(path), "ruler", split="test"))


def test_a_run_records_what_it_read_and_tells_splits_apart(tmp_path: Path) -> None:
    place = folder(tmp_path / "set", test=[ruler("1234567")] * 2, train=[ruler("1111111")])
    entries = [{"path": f"hub:{place}", "format": "ruler", "split": split} for split in ("test", "train")]
    assert [file_name(entry) for entry in entries] == ["ruler:set-test", "ruler:set-train"]
    assert [len(list(file_rows(entry))) for entry in entries] == [2, 1]
    plan = config(tmp_path, tasks=[], lengths=[], files=entries, strategies=["sliding_window"], window=256)
    assert main(["--config", plan]) == 0
    found = report(tmp_path)
    assert {(cell["task"], cell["n"]) for cell in found["cells"]} == {("ruler:set-test", 2), ("ruler:set-train", 1)}
    assert all(len(entry["hash"]) == 12 for entry in found["files"])
