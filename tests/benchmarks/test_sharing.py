"""What forwarding shared prefixes once would save in training, on the quickstart's episodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from recipe.rollout import Collector
from rollouts.engines.transformers import TransformersEngine
from rollouts.environments.recall import Recall, tasks
from rollouts.policies.tiny import tiny_model, tiny_tokenizer
from rollouts.rendering import Renderer
from rollouts.runner import Limits
from summarization.prompts import TINY
from summarization.strategies import SelfSummary
from tests.benchmarks.conftest import Report
from tests.benchmarks.worlds import unique_tokens

CONFIG: dict[str, Any] = yaml.safe_load((Path(__file__).parents[2] / "configs" / "quickstart.yaml").read_text())


def test_prefix_sharing_would_save(report: Report) -> None:
    tokenizer = tiny_tokenizer()
    renderer = Renderer(tokenizer)
    size = CONFIG["num_generations"]
    engine = TransformersEngine(
        tiny_model(tokenizer, 0), window=CONFIG["window"], stop_ids=renderer.stop_ids, max_sessions=64
    )
    collector = Collector(
        engine,
        renderer,
        lambda: Recall(**CONFIG["environment_kwargs"]),
        SelfSummary(CONFIG["summary_tokens"], style=TINY),
        Limits(CONFIG["window"], CONFIG["act_tokens"]),
        seed=0,
    )
    words = (CONFIG["task_words"][0], CONFIG["task_words"][1])
    rows = [task for task in tasks("train", 8, words, CONFIG["task_kinds"], 0) for _ in range(size)]
    episodes = collector(rows, [index % size for index in range(len(rows))], 0)
    whole = shared = first = 0
    for start in range(0, len(episodes), size):
        group = episodes[start : start + size]
        contexts = [(*s.prompt_ids, *s.completion_ids) for episode in group for s in episode.segments]
        whole += sum(map(len, contexts))
        shared += unique_tokens(contexts)
        first += sum(len(e.segments[0].prompt_ids) + len(e.segments[0].completion_ids) for e in group)
    report(prefix_sharing_saving=1 - shared / whole, first_segments_share=first / whole)
    assert 0 < shared < whole
