"""What a run evaluates: on held-out tasks, the policy before and after, and each way to compact side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from eval.evaluate import evaluate
from eval.results import Cell, cell_from_dict, cell_to_dict
from recipe.checks import check_strategy_kind
from recipe.config import LONG_WORDS, CompactionArguments, EpisodeArguments, StageArguments
from recipe.rollout import embedded_engine
from recipe.trainer import SelfSummarizationTrainer
from rollouts.engines.transformers import TransformersEngine
from rollouts.environments.recall import tasks
from rollouts.episode import Episode
from rollouts.files import write_atomically
from rollouts.jobs import Makers
from rollouts.records import read_record
from rollouts.rendering import Renderer
from rollouts.runner import Job
from summarization.resolve import resolve
from summarization.strategies import BUILTIN, Strategy

HELD_OUT_SEED = 1


def make_strategy(compaction: CompactionArguments, name: str, summary_tokens: int | None = None) -> Strategy:
    """A strategy by name, with those of the YAML's settings that it has a field for."""
    kind = resolve(name, BUILTIN, "strategy")
    check_strategy_kind(kind, name)
    settings = {
        "summary_tokens": compaction.summary_tokens if summary_tokens is None else summary_tokens,
        "trigger": compaction.trigger(),
        "style": compaction.style(),
        "keep_last": compaction.keep_last,
    }
    if getattr(kind, "summary_tokens", None) == 0:
        del settings["summary_tokens"]
    known = {field.name for field in fields(kind)}
    return kind(**{field: value for field, value in settings.items() if field in known})


@dataclass(frozen=True)
class Measure:
    """One cell to be measured.

    Attributes:
        stage: ``before`` or ``after``.
        name: The strategy as reports call it.
        strategy: The strategy.
        length: Of the episodes, in words.
    """

    stage: str
    name: str
    strategy: Strategy
    length: int

    @property
    def key(self) -> str:
        """Names the cell in the run's folder."""
        return f"{self.stage}/{self.name}/{self.length}"


def measures(compaction: CompactionArguments, stages: StageArguments) -> Iterator[Measure]:
    """The cells of a run: every strategy at the first length (the training length), the trained one at all."""
    factor = stages.eval_baseline_factor
    plain = replace(compaction, trigger_low=1.0, trigger_high=1.0)
    own = make_strategy(plain, "self_summary")
    large = make_strategy(plain, "self_summary", factor * compaction.summary_tokens)
    frozen = make_strategy(plain, "frozen_summary")
    sliding = make_strategy(plain, "sliding_window")
    for index, length in enumerate(stages.eval_lengths):
        if length < LONG_WORDS:
            yield Measure("before", "self_summary", own, length)
            yield Measure("before", f"self_summary_{factor}x", large, length)
            yield Measure("after", "sliding_window", sliding, length)
        if index == 0:
            yield Measure("after", "frozen_summary", frozen, length)
        yield Measure("after", "self_summary", own, length)


class HeldOut:
    """Evaluates policies on held-out tasks at fixed seeds; finished cells are kept in a folder and not run again."""

    def __init__(
        self,
        renderer: Renderer,
        environment: Makers,
        episodes: EpisodeArguments,
        stages: StageArguments,
        bf16: bool,
        cells: Path,
    ) -> None:
        self.renderer, self.environment = renderer, environment
        self.episodes, self.stages, self.bf16, self.cells = episodes, stages, bf16, cells

    def finished(self) -> dict[str, Cell]:
        """The cells that earlier runs finished, by key."""
        delete = "delete it, and its cell is evaluated again"
        return dict(read_record(path, delete, _stored_cell) for path in sorted(self.cells.glob("*.json")))

    def tasks(self, length: int, count: int | None = None, split: str = "test") -> list[dict[str, Any]]:
        """The held-out tasks of a length; the same for every policy and strategy."""
        if count is None:
            counts, lengths = self.stages.eval_tasks, self.stages.eval_lengths
            count = counts[0] if len(counts) == 1 else counts[lengths.index(length)]
        return list(tasks(split, count, length, self.episodes.task_kinds, HELD_OUT_SEED))

    def dealt(self, measures: Sequence[Measure], processes: int) -> list[list[Measure]]:
        """The cells of each process: the largest first, each to the one that has least to do."""
        hands: list[list[Measure]] = [[] for _ in range(processes)]
        loads = [0] * processes
        words = {measure.key: measure.length * len(self.tasks(measure.length)) for measure in measures}
        for measure in sorted(measures, key=lambda measure: -words[measure.key]) if processes > 1 else measures:
            process = loads.index(min(loads))
            hands[process].append(measure)
            loads[process] += words[measure.key]
        return hands

    def engine(self, model: PreTrainedModel) -> TransformersEngine:
        """An engine that samples as evaluations do."""
        return embedded_engine(model, self.renderer, self.episodes, self.stages.eval_temperature, self.bf16)

    def run(
        self,
        measure: Measure,
        engines: Mapping[str, TransformersEngine],
        on_episode: Callable[[Job, Episode], None] | None = None,
    ) -> Cell:
        """Evaluate one cell and keep it."""
        cell = evaluate(
            measure.stage,
            measure.name,
            measure.strategy,
            self.tasks(measure.length),
            measure.length,
            self.environment,
            engines,
            self.renderer,
            self.episodes.limits(keep_segments=False),
            HELD_OUT_SEED,
            on_episode,
        )
        stored = {"key": measure.key, "cell": cell_to_dict(cell)}
        write_atomically(self.cells / (measure.key.replace("/", "-") + ".json"), json.dumps(stored).encode())
        return cell


def _stored_cell(stored: Mapping[str, Any]) -> tuple[str, Cell]:
    cell = cell_from_dict(stored["cell"])
    for number in (cell.success, cell.length, *(outcome.tokens for outcome in cell.outcomes)):
        if not isinstance(number, int | float):
            raise TypeError(f"{number!r} is no number")
    return str(stored["key"]), cell


class EvaluateWhileTraining(TrainerCallback):
    """Every so many steps, measures success on held-out tasks and logs it beside the training metrics.

    Args:
        held_out: How to evaluate.
        strategy: The way to compact that is trained.
        every: Steps between evaluations.
        frozen: Writes the summaries, where the strategy asks another policy for them.
        count: Held-out tasks; a quick look, not the final evaluation.
    """

    def __init__(
        self, held_out: HeldOut, strategy: Strategy, every: int, frozen: PreTrainedModel | None = None, count: int = 32
    ) -> None:
        self.held_out, self.strategy, self.every = held_out, strategy, every
        self.frozen, self.count = frozen, count
        self.trainer: SelfSummarizationTrainer | None = None

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if self.trainer is None or state.global_step % self.every or not state.is_world_process_zero:
            return
        lengths = self.held_out.stages.eval_lengths or [sum(self.held_out.episodes.task_words) // 2]
        engines = {"policy": self.held_out.engine(self.trainer.accelerator.unwrap_model(self.trainer.model))}
        if self.frozen is not None:
            engines["frozen"] = self.held_out.engine(self.frozen)
        cell = evaluate(
            "during",
            self.strategy.name,
            self.strategy,
            self.held_out.tasks(lengths[0], self.count, split="eval"),
            lengths[0],
            self.held_out.environment,
            engines,
            self.held_out.renderer,
            self.held_out.episodes.limits(keep_segments=False),
            HELD_OUT_SEED,
        )
        figures = {
            "eval/success": cell.success,
            "eval/compactions": sum(outcome.compactions for outcome in cell.outcomes) / len(cell.outcomes),
            "eval/summary_tokens": cell.tokens_of_a_summary,
        }
        self.trainer.log_beside({name: value for name, value in figures.items() if value is not None})
