"""Results in the shape of lm-evaluation-harness: the fields that it writes, and the figures that the report has."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import datasets
import pytest

from eval.export import standard_error, task_name
from eval.run import main
from tests.eval.test_run import config, report

# What version 0.4.13 wrote for a task of this kind with a model of this kind, but for machine and libraries.
RESULT_FIELDS = """results group_subtasks configs versions n-shot higher_is_better n-samples config git_hash date
transformers_version task_hashes model_source model_name model_name_sanitized system_instruction system_instruction_sha
fewshot_as_multiturn chat_template chat_template_sha""".split()
SAMPLE_FIELDS = """doc_id doc target arguments resps filtered_resps filter metrics doc_hash prompt_hash
target_hash""".split()


def exported(folder: Path, *words: str, **changes: Any) -> Path:
    """A run of two strategies on two tasks, exported."""
    plan = {"tasks": ["recall", "niah_single_2"], "lengths": [300], "window": 256, "samples": [3]}
    strategies = ["oracle_summary", "sliding_window"]
    assert main(["--config", config(folder, **{**plan, "strategies": strategies, **changes})]) == 0
    assert main(["export", str(folder / "run"), *words]) == 0
    return folder / "run" / "lm-eval"


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_fields_and_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = exported(tmp_path, "--format", "lm-eval")
    folders = sorted(output.iterdir())
    assert [folder.name for folder in folders] == ["tiny+oracle_summary", "tiny+sliding_window"]
    assert capsys.readouterr().out.count("results: ") == 2
    by_name = {(c["task"], c["strategy"]): c for c in report(tmp_path)["cells"]}
    documents = []
    for folder in folders:
        (path,) = folder.glob("results_*.json")
        found = read(path)
        assert list(found) == RESULT_FIELDS
        assert found["model_name_sanitized"] == folder.name
        assert set(found["results"]) == {"recall_both_300", "niah_single_2_both_300"}
        strategy = folder.name.partition("+")[2]
        assert found["config"]["model_args"]["strategy"] == strategy
        for name, figures in found["results"].items():
            cell = by_name[name.removesuffix("_both_300"), strategy]
            assert figures["strict,none"] == cell["score"]
            assert figures["official,none"] == cell["official"]
            assert figures["sample_len"] == found["n-samples"][name]["effective"] == 3
            (file,) = folder.glob(f"samples_{name}_*.jsonl")
            made = lines(file)
            assert [list(each)[: len(SAMPLE_FIELDS)] for each in made] == [SAMPLE_FIELDS] * 3
            assert [each["doc_id"] for each in made] == [0, 1, 2]
            assert sum(each["strict"] for each in made) / 3 == pytest.approx(figures["strict,none"])
            for each in made:
                assert each["metrics"] == ["strict", "official"]
                assert each["resps"] == [[each["filtered_resps"][0]]]
                assert each["target_hash"] == hashlib.sha256(each["target"].encode()).hexdigest()
                assert each["target"].startswith("['")
                assert each["doc"]["question"] == each["arguments"]["gen_args_0"]["arg_0"] != ""
            documents.append((name, [(each["doc_id"], each["doc"], each["target"]) for each in made]))
    # Every strategy has the same documents under the same numbers.
    assert sorted(map(str, documents[:2])) == sorted(map(str, documents[2:]))


def test_an_oracle_that_answers_right_is_exported_as_right(tmp_path: Path) -> None:
    """The target is the answer that the scorer takes."""
    output = exported(tmp_path, tasks=["niah_single_2"], strategies=["oracle_summary"])
    (file,) = (output / "tiny+oracle_summary").glob("samples_*")
    for each in lines(file):
        assert each["target"].strip("[]'").isdigit()


def test_exporting_again_writes_the_same_files_and_another_folder_may_be_named(tmp_path: Path) -> None:
    output = exported(tmp_path)
    before = {path.relative_to(output): path.read_bytes() for path in output.rglob("*.json*")}
    other = tmp_path / "other"
    assert main(["export", str(tmp_path / "run")]) == main(["export", str(tmp_path / "run"), f"--output={other}"]) == 0
    for folder in (output, other):
        assert {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.json*")} == before


def test_samples_load_as_a_dataset(tmp_path: Path) -> None:
    output = exported(tmp_path, tasks=["recall"], strategies=["sliding_window"])
    (file,) = (output / "tiny+sliding_window").glob("samples_*")
    table = datasets.load_dataset("json", data_files=str(file), cache_dir=str(tmp_path / "cache"), split="train")
    assert (len(table), table[0]["filter"]) == (3, "none")


def test_that_harness_reads_it(tmp_path: Path) -> None:
    """Run with lm-eval 0.4.13 installed beside it; without, this is skipped."""
    utils = pytest.importorskip("lm_eval.utils")
    output = exported(tmp_path)
    for folder in output.iterdir():
        names = [str(path) for path in folder.iterdir()]
        (path,) = utils.get_results_filenames(names)
        tables = utils.get_sample_results_filenames(names)
        assert {utils.get_file_task_name(Path(name).name) for name in tables} == set(read(Path(path))["results"])
        assert len({utils.get_file_datetime(Path(name).name).replace(".json", "") for name in names}) == 1
        shown = utils.make_table(read(Path(path)))
        assert shown.count("|strict") == shown.count("|official") == 2
        assert utils.sanitize_model_name(read(Path(path))["model_name"]) == folder.name
        made = lines(Path(tables[0]))[0]
        assert utils.hash_string(json.dumps(made["doc"], indent=2, ensure_ascii=False)) == made["doc_hash"]


def test_the_standard_error_is_clustered() -> None:
    values = [0.0, 1.0, 1.0, 0.0, 1.0, 1.0]
    alone = standard_error(values, list("abcdef"))
    assert isinstance(alone, float)
    mean = sum(values) / 6
    assert alone == pytest.approx(math.sqrt(sum((v - mean) ** 2 for v in values) / 5 / 6))
    assert standard_error(values, ["a"] * 6) == "N/A"
    together = standard_error([0.0, 0.0, 1.0, 1.0], list("aabb"))
    assert isinstance(together, float)
    assert together > standard_error([0.0, 0.0, 1.0, 1.0], list("abcd"))  # pyright: ignore[reportOperatorIssue]


def test_names_hold_only_what_a_files_name_may() -> None:
    assert task_name({"task": "ruler:niah 1", "asked": "last", "length": 0}) == "ruler_niah_1_last"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name one run's folder"),
        (["a", "b"], "name one run's folder"),
        (["a", "--format", "csv"], "format is 'csv'"),
        (["a", "--formt", "lm-eval"], "did you mean 'format'"),
        (["a", "--format"], "--format names nothing"),
        (["/nowhere"], "is no folder of an evaluation"),
    ],
)
def test_a_wrong_command_is_one_sentence(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", *words]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert message in line


def test_a_run_without_episodes_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exported(tmp_path, tasks=["recall"], strategies=["sliding_window"])
    for path in (tmp_path / "run" / "samples").iterdir():
        path.unlink()
    assert main(["export", str(tmp_path / "run")]) == 2
    assert "holds no episode yet" in capsys.readouterr().err
