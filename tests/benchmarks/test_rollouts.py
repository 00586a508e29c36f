"""Rollouts: 30 turns of tool calls, ours against stock TRL with an equal ``environment_factory``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers.utils import get_json_schema
from trl import GRPOConfig, GRPOTrainer

from rollouts.collect import collect
from rollouts.engines.transformers import TransformersEngine
from rollouts.jobs import jobs
from rollouts.rendering import Renderer
from rollouts.runner import Limits
from summarization.strategies import NoCompaction
from tests.benchmarks.conftest import Report
from tests.benchmarks.worlds import TURNS, ToolPages, TurnPages, scripted, tool_tokenizer, unique_tokens

GROUPS, SIZE, WINDOW, ACT = 4, 8, 2048, 32


def rows() -> list[dict[str, Any]]:
    """Each task as often as its group is large."""
    tasks = [{"prompt": [{"role": "user", "content": f"task{index} " * 12}]} for index in range(GROUPS)]
    return [task for task in tasks for _ in range(SIZE)]


def stock_trl(folder: Path, tokenizer: Any, model: Any) -> GRPOTrainer:
    """A stock trainer on the transformers backend."""
    return GRPOTrainer(
        model=model,
        args=GRPOConfig(
            output_dir=str(folder),
            num_generations=SIZE,
            per_device_train_batch_size=GROUPS * SIZE,
            max_completion_length=WINDOW,
            max_tool_calling_iterations=TURNS,
            temperature=1.0,
            top_k=0,
            use_cpu=True,
            bf16=False,
            report_to="none",
        ),
        train_dataset=Dataset.from_list(rows()),
        processing_class=tokenizer,
        environment_factory=ToolPages,
    )


def test_rollouts_against_stock_trl(tmp_path: Path, report: Report, benchmark: Any) -> None:
    tokenizer = tool_tokenizer()
    model = scripted(tokenizer)
    trainer = stock_trl(tmp_path, tokenizer, model)
    renderer = Renderer(tokenizer, tools=[get_json_schema(ToolPages().read)])
    engine = TransformersEngine(model, window=WINDOW, stop_ids=renderer.stop_ids, max_sessions=GROUPS * SIZE)

    def ours() -> list[Any]:
        engine.reset()
        return collect(
            jobs(rows(), TurnPages, NoCompaction(), seed=0), {"policy": engine}, renderer, Limits(WINDOW, ACT)
        )

    episodes = benchmark.pedantic(ours, rounds=3, warmup_rounds=1)
    forwarded = engine.forwarded_tokens / 4
    contexts = [(*s.prompt_ids, *s.completion_ids) for episode in episodes for s in episode.segments]
    unique = unique_tokens(contexts)

    model.forwarded = 0
    began = time.perf_counter()
    stock = trainer._generate_and_score_completions(rows())
    seconds = time.perf_counter() - began
    sampled = int((stock["completion_mask"] * stock["tool_mask"]).sum())
    assert sampled == sum(s.sampled_tokens for episode in episodes for s in episode.segments)
    assert forwarded <= 1.05 * unique
    report(
        forwarded_over_unique=forwarded / unique,
        trl_forwarded_over_unique=model.forwarded / unique,
        rollout_speedup_vs_trl=seconds / benchmark.stats.stats.min,
    )
    assert seconds >= 3 * benchmark.stats.stats.min
