"""Started by ``test_processes`` under ``accelerate launch``: GRPO steps of the quickstart's kind; prints their seconds.

Usage: few_steps.py FOLDER EPISODES_OF_EACH_PROCESS
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import TrainerCallback

from recipe.rollout import Collector
from recipe.trainer import SelfSummarizationTrainer
from rollouts.engines.transformers import TransformersEngine
from rollouts.environments.recall import Recall, tasks
from rollouts.policies.load import Policy
from rollouts.policies.tiny import tiny_model, tiny_tokenizer
from rollouts.rendering import Renderer
from rollouts.runner import Limits
from summarization.prompts import TINY
from summarization.strategies import SelfSummary
from tests.recipe.worlds import settings

STEPS = 4


class Watch(TrainerCallback):
    """Notes when each step ended."""

    def __init__(self) -> None:
        self.marks: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.marks.append(time.perf_counter())


def main() -> None:
    """Train; the first step warms up."""
    folder, per_device = Path(sys.argv[1]), int(sys.argv[2])
    tokenizer = tiny_tokenizer()
    policy = Policy(tiny_model(tokenizer, 0), tokenizer)
    renderer = Renderer(tokenizer)
    engine = TransformersEngine(policy.model, window=256, stop_ids=renderer.stop_ids, max_sessions=per_device)
    watch = Watch()
    trainer = SelfSummarizationTrainer(
        model=policy.model,
        args=settings(
            folder,
            max_steps=STEPS,
            num_generations=8,
            per_device_train_batch_size=per_device,
            learning_rate=1e-4,
            temperature=1.0,
            # Rows without advantage are forwarded too: random weights earn nothing.
            skip_idle_rows=False,
        ),
        train_dataset=Dataset.from_list(list(tasks("train", 64, (700, 1250), ["find"], 0))),
        processing_class=tokenizer,
        callbacks=[watch],
        collector=Collector(
            engine, renderer, lambda: Recall(page_words=32), SelfSummary(4, style=TINY), Limits(256, 4), seed=0
        ),
    )
    trainer.train()
    if trainer.accelerator.is_main_process:
        print(
            json.dumps(
                {
                    "seconds": (watch.marks[-1] - watch.marks[0]) / (STEPS - 1),
                    "processes": trainer.accelerator.num_processes,
                }
            )
        )


if __name__ == "__main__":
    main()
