"""Episodes played through inspect_ai, by a model that follows rules. Skipped where that package is not installed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from eval.run import main
from rollouts.environments.lexicon import KINDS
from summarization.resolve import UserError
from tests.eval.test_run import config, report

inspect_ai = pytest.importorskip("inspect_ai", reason="the extra 'inspect' is not installed")

from inspect_ai.log import EvalLog  # noqa: E402 # pyright: ignore[reportMissingImports]
from inspect_ai.model import ModelOutput, ModelUsage, get_model  # noqa: E402 # pyright: ignore[reportMissingImports]

from eval.inspect_task import palimpsest  # noqa: E402

PLAN = {"tasks": ["recall"], "lengths": [300], "samples": [4], "page_tokens": 32, "act_tokens": 4, "summary_tokens": 16}
QUESTIONS = [(kind, re.escape(fact.question).replace(r"\{key\}", r"(\w+)")) for kind, fact in KINDS.items()]


def said(text: str, **more: Any) -> ModelOutput:
    """A model's reply. With its usage: where it is missing, mockllm fetches a tokenizer to count it."""
    output = ModelOutput.from_content("mockllm", text, **more)
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output


def careful(messages: list[Any], *_: Any) -> ModelOutput:
    """Knows what it is asked, finds the fact among what it was shown, and writes down nothing else."""
    shown = " ".join(message.text for message in messages)
    asked = messages[1].text
    kind, key = next((kind, found[1]) for kind, text in QUESTIONS if (found := re.fullmatch(text, asked)))
    template = re.escape(KINDS[kind].tiny).replace(r"\{key\}", key).replace(r"\{value\}", r"(\w+)")
    facts = [value for value in re.findall(template, shown) if value in KINDS[kind].values]
    value = facts[-1] if facts else ""
    fact = KINDS[kind].tiny.format(key=key, value=value) if value else "read on"
    summarizing = messages[-1].text.startswith("summarize in")
    return said(fact if summarizing else value or "read")


def forgetful(messages: list[Any], *arguments: Any) -> ModelOutput:
    """As the careful one, but its summaries hold nothing."""
    if messages[-1].text.startswith("summarize in"):
        return said("read on")
    return careful(messages, *arguments)


def played(folder: Path, model: Any, strategy: str = "self_summary", **changes: Any) -> EvalLog:
    plan = config(folder, **{**PLAN, "strategies": [strategy], **changes})
    (log,) = inspect_ai.eval(
        palimpsest(plan, strategy),
        model=get_model("mockllm/model", custom_outputs=model, memoize=False),
        log_dir=str(folder / "logs"),
        display="none",
    )
    assert log.status == "success", log.error
    return log


def scores(log: EvalLog) -> dict[str, float]:
    assert log.results
    return {score.name: score.metrics["mean"].value for score in log.results.scores}


def test_a_model_that_keeps_the_fact_is_right_over_many_windows(tmp_path: Path) -> None:
    log = played(tmp_path, careful)
    assert scores(log) == {"strict": 1.0, "official": 1.0}
    assert log.samples
    assert len(log.samples) == 4
    for sample in log.samples:
        left = sample.store["palimpsest"]
        assert left["outcome"]["status"] == "finished"
        assert left["outcome"]["compactions"] == len(left["summaries"]) >= 2
        assert left["outcome"]["peak_context"] <= 128
        assert left["answer"] in left["answers"]
        # Every window's answers are in the log: its summaries, and the answer.
        calls = [event for event in sample.events if event.event == "model"]
        assert len(calls) == len(left["summaries"]) + 1
        assert calls[-1].output.completion == left["answer"]
        assert sample.messages[-1].text == left["answer"]


def test_a_model_that_forgets_is_wrong(tmp_path: Path) -> None:
    log = played(tmp_path, forgetful, task_options={"recall": {"page_words": 64}}, samples=[6], lengths=[600])
    assert scores(log)["strict"] < 0.5


def test_the_samples_are_those_of_eval_run(tmp_path: Path) -> None:
    log = played(tmp_path, careful, samples=[3])
    assert main(["--config", str(tmp_path / "plan.yaml")]) == 0
    from rollouts.storage import read_episodes

    (file,) = (tmp_path / "run" / "samples").iterdir()
    ids = {episode.task_id for episode in read_episodes(file)}
    assert log.samples
    assert {sample.store["palimpsest"]["outcome"]["task_id"] for sample in log.samples} == ids
    assert report(tmp_path)["cells"][0]["n"] == len(log.samples) == 3


def test_limits_reach_the_model_and_a_cut_off_answer_counts_as_such(tmp_path: Path) -> None:
    seen = []

    def endless(messages: list[Any], tools: Any, choice: Any, limits: Any) -> ModelOutput:
        seen.append((messages[-1].text.startswith("summarize in"), limits.max_tokens, limits.temperature))
        return said("read on " * 40, stop_reason="max_tokens")

    log = played(tmp_path, endless)
    assert set(seen) == {(True, 16, 0.0), (False, 4, 0.0)}
    assert scores(log) == {"strict": 0.0, "official": 0.0}
    assert log.samples
    assert all(sample.store["palimpsest"]["outcome"]["cut_off"] for sample in log.samples)


def test_an_error_of_the_model_scores_nothing_and_stays_in_the_denominator(tmp_path: Path) -> None:
    def broken(*_: Any) -> ModelOutput:
        return said("", error="overloaded")

    log = played(tmp_path, broken)
    assert scores(log) == {"strict": 0.0, "official": 0.0}
    assert log.samples
    assert {sample.store["palimpsest"]["outcome"]["error"] for sample in log.samples} == {"overloaded"}


def test_the_answers_prefix_is_shown_and_not_counted_twice(tmp_path: Path) -> None:
    prefixes = []

    def repeats(messages: list[Any], *_: Any) -> ModelOutput:
        prefixes.append(messages[-1].text.splitlines()[-1])
        return said(prefixes[-1])

    log = played(tmp_path, repeats, tasks=["niah_single_2"], window=512, lengths=[300], strategy="sliding_window")
    assert prefixes
    assert all(prefix.startswith("The special magic number for") for prefix in prefixes)
    assert log.samples
    assert {sample.store["palimpsest"]["answer"].count("special magic") for sample in log.samples} <= {0, 1}


@pytest.mark.parametrize(
    ("strategy", "changes", "message"),
    [
        ("sliding", {}, "strategy is 'sliding', not among its strategies self_summary"),
        ("full_context", {"strategies": ["full_context"], "full_window": 0}, "full_window is 0"),
        ("", {"tasks": ["recal"]}, "did you mean 'recall'"),
    ],
)
def test_mistakes(tmp_path: Path, strategy: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        palimpsest(config(tmp_path, **{**PLAN, "strategies": ["self_summary"], **changes}), strategy)
