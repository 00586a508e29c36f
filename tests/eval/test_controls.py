"""The controls beside a policy: summaries of other samples, and the most frequent answer; and what a plan says."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.arguments import arguments_of
from eval.estimate import estimate
from eval.folder import RunFolder, stored
from eval.frequent import most_frequent, written
from eval.grid import CellKey
from eval.plan import plan
from eval.reading import Reading, task_class
from eval.run import main
from eval.setup import Setup
from eval.shuffled import check_texts, givers, shuffled
from eval.tasks.base import Ask
from eval.tasks.known import BUILTIN
from rollouts.engine import SampleRequest
from rollouts.engines.scripted import ScriptedEngine
from rollouts.episode import Compaction, TurnKind
from rollouts.jobs import task_id
from summarization.resolve import UserError
from tests.eval.tasks.samples import words
from tests.eval.test_run import PLAN, config, lines, report
from tests.recipe.worlds import random_episode

SHUFFLE = {"tasks": ["recall"], "lengths": [300], "samples": [3], "strategies": ["shuffled_summary", "self_summary"]}


def rows(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"task": "recall", "seed": seed, "tokens": 100, **more} for seed in range(count)]


def test_each_sample_is_given_the_summaries_of_the_one_before_it() -> None:
    samples = rows(4)
    names = [task_id(row) for row in samples]
    assert givers(samples, names) == dict(zip(names, [names[1], names[0], names[1], names[2]], strict=True))
    # More samples change nothing for those that were there.
    more = givers(rows(9), [task_id(row) for row in rows(9)])
    assert {name: more[name] for name in names} == givers(samples, names)
    # Who wrote nothing is passed over; nobody is given his own.
    assert givers(samples, names[:1]) == dict.fromkeys(names[1:], names[0])


def test_samples_on_one_text_give_each_other_nothing() -> None:
    samples = [{**row, "cluster": text} for row, text in zip(rows(4), "aabb", strict=True)]
    names = [task_id(row) for row in samples]
    assert givers(samples, names) == dict(zip(names, [names[2], names[2], names[1], names[1]], strict=True))
    check_texts("recall", "shuffled_summary", samples)
    with pytest.raises(UserError, match="those of 'recall' are on one"):
        check_texts("recall", "shuffled_summary", samples[:2])


def test_the_same_number_of_compaction_or_the_last() -> None:
    samples = rows(2)
    episodes = [
        replace(
            random_episode({"row": 1}, 0, 0),
            task_id=task_id(row),
            compactions=tuple(Compaction(n, 90, 30, f"{who}{n + 1}") for n in range(count)),
        )
        for row, who, count in zip(samples, "ab", (1, 3), strict=True)
    ]
    carried = shuffled(samples, episodes)
    first, second = (task_id(row) for row in samples)
    assert [carried(first, n) for n in (1, 2, 3, 4)] == ["b1", "b2", "b3", "b3"]
    assert [carried(second, n) for n in (1, 2)] == ["a1", "a1"]
    assert shuffled(samples, [])(first, 1) == ""


def test_windows_open_with_the_other_samples_summaries_and_compact_where_the_source_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Played with scripted summaries that name their sample, from YAML to the contexts that the engine saw."""
    seen: list[SampleRequest] = []
    numbers: dict[str, str] = {}

    def reply(request: SampleRequest) -> str:
        seen.append(request)
        sample = request.session.partition("#")[0]
        number = numbers.setdefault(sample, str(len(numbers)))
        return f"{number} {number} {number}" if request.kind is TurnKind.SUMMARY else "ham"

    monkeypatch.setattr(
        "eval.setup.transformers_engine", lambda setup, name, window: ScriptedEngine(reply, setup.renderer)
    )
    assert main(["--config", config(tmp_path, **SHUFFLE)]) == 0
    found = {cell["strategy"]: cell for cell in report(tmp_path)["cells"]}
    assert found["shuffled_summary"]["compactions"] == found["self_summary"]["compactions"] > 2
    assert found["shuffled_summary"]["tokens_a_summary"] == 0
    acts = [r for r in seen if r.kind is TurnKind.ACT]
    # The grid plays the source first, whatever the order in the YAML.
    own, other = acts[:3], acts[3:]
    order = [task_id(row) for row in (line["task"] for line in lines(cell_file(tmp_path, "self_summary"))[1:])]
    assert len(own) == len(other) == 3
    for requests, expected in ((own, [0, 1, 2]), (other, [1, 0, 1])):
        for request in requests:
            number = numbers[order[expected[order.index(request.session.partition("#")[0])]]]
            assert any(f"summary {number} {number} {number}" in m.content for m in request.messages)


def cell_file(folder: Path, strategy: str) -> Path:
    return folder / "run" / "samples" / f"recall-both-300-{strategy}.jsonl.gz"


def test_a_stopped_run_shuffles_as_it_would_have(tmp_path: Path) -> None:
    plan_file = config(tmp_path, **SHUFFLE)
    assert main(["--config", plan_file]) == 0
    path = cell_file(tmp_path, "shuffled_summary")
    folder = RunFolder(tmp_path / "run")
    key = CellKey("recall", "both", 300, "shuffled_summary")
    whole = list(stored(path))
    folder.replace(key, whole[:2])
    assert main(["--config", plan_file]) == 0
    again = list(stored(path))
    assert [(e.task_id, e.acts, e.compactions) for e in again] == [(e.task_id, e.acts, e.compactions) for e in whole]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strategies": ["shuffled_summary"]}, "carries what 'self_summary' writes in the same run"),
        (
            {**SHUFFLE, "strategy_options": {"shuffled_summary": {"of": "self_sumary"}}},
            "carries what 'self_sumary' writes",
        ),
        (
            {
                **SHUFFLE,
                "strategies": ["sliding_window", "shuffled_summary"],
                "strategy_options": {"shuffled_summary": {"of": "sliding_window"}},
            },
            "writes no summaries",
        ),
        ({**SHUFFLE, "strategy_options": {"shuffled_summary": {"from": "self_summary"}}}, "its one option is 'of'"),
        ({**SHUFFLE, "samples": [1]}, "at least 2 needed"),
        ({"strategies": ["no_context"], "strategy_options": {"no_context": {"x": 1}}}, "'no_context' has no options"),
    ],
)
def test_a_control_that_cannot_work_is_refused(
    changes: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--config", config(tmp_path, **changes)]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert message in line
    assert not (tmp_path / "run").exists()


def test_the_most_frequent_answer_is_the_floor() -> None:
    samples = [{"task": "world_yes_no", "seed": seed, "tokens": 400} for seed in range(9)]
    right = []
    for row in samples:
        task = task_class("world_yes_no")(Ask(row["seed"], 400, words))
        list(task.pieces())
        right.append(task.answers()[0])
    most = max(set(right), key=right.count)
    episodes = most_frequent(samples, lambda: Reading(words, blank=True))
    assert {e.acts for e in episodes} == {(most,)}
    assert [e.reward for e in episodes] == [float(answer == most) for answer in right]
    assert 0 < right.count(most) < 9


@pytest.mark.parametrize("name", BUILTIN)
def test_a_right_answer_is_written_as_its_scorer_wants_it(name: str) -> None:
    reading = Reading(words, blank=True)
    reading.reset({"task": name, "seed": 5, "tokens": 1500})
    while not reading.advance(None).needs_act:
        continue
    assert reading.task.scores(written(reading.task))["strict"] == 1.0


def test_the_floor_needs_no_policy_and_is_counted_anew_with_more_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_engine(*_: object, **__: object) -> None:
        raise AssertionError("an engine was made")

    monkeypatch.setattr("eval.setup.transformers_engine", no_engine)
    only = {"tasks": ["world_yes_no"], "lengths": [400], "strategies": ["most_frequent_answer"]}
    for samples in (1, 5):
        assert main(["--config", config(tmp_path, **only, samples=[samples])]) == 0
        (cell,) = report(tmp_path)["cells"]
        (path,) = (tmp_path / "run" / "samples").iterdir()
        answers = {line["acts"][0] for line in lines(path)[1:]}
        assert (cell["n"], len(answers), cell["tokens_forwarded"]) == (samples, 1, 0)
        assert cell["score"] >= 0.5


def test_an_estimate_counts_what_will_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a pace of one second for a token read and none for one sampled, it is the tokens that a run forwards."""
    from eval.estimate import Pace

    changes = {"tasks": ["recall"], "lengths": [512, 2048], "strategies": ["self_summary", "sliding_window"]}
    values: dict[str, Any] = {**PLAN, **changes, "output_dir": str(tmp_path / "run")}
    monkeypatch.setattr("eval.estimate.measure", lambda *_: Pace(1.0, 0.0))
    arguments = arguments_of(values, "test")
    setup = Setup(arguments)
    seconds, basis = estimate(plan(arguments, setup, RunFolder(tmp_path / "run")), setup)
    assert "an estimate" in basis
    assert main(["--config", config(tmp_path, **changes)]) == 0
    cells: Sequence[Mapping[str, Any]] = report(tmp_path)["cells"]
    for cell in cells:
        key = CellKey(cell["task"], cell["asked"], cell["length"], cell["strategy"])
        # The rest is what is sampled, and windows that end a little earlier or later.
        assert seconds[key] == pytest.approx(cell["n"] * cell["tokens_forwarded"], rel=0.2)


def test_a_dry_run_measures_the_policy_and_says_what_does_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--config", config(tmp_path), "--dry_run"]) == 0
    out = capsys.readouterr().out
    assert out.count("full_context         left out: does not fit into full_window (512 tokens)") == 2
    assert out.count(" episodes to play  about ") == 18
    assert "an estimate, from a short sample of the policy" in out
    assert "ms a token read" in out
    assert not (tmp_path / "run").exists()


def test_words_unknown_to_the_tokenizer_are_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan_file = config(tmp_path, tasks=["recall", "world_yes_no"], lengths=[300], strategies=["sliding_window"])
    assert main(["--config", plan_file, "--dry_run"]) == 0
    (warning,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning")]
    assert "% of task 'world_yes_no'" in warning
    assert "recall" not in warning
    assert json.dumps(warning).count("\\n") == 0
