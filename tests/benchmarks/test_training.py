"""The training step: micro-batches without padding against stock TRL's padded rows."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from datasets import Dataset
from torch import nn
from transformers import PreTrainedModel
from trl import GRPOTrainer

from recipe.trainer import SelfSummarizationTrainer
from rollouts.episode import Episode
from rollouts.policies.load import Policy
from rollouts.policies.tiny import tiny_model, tiny_tokenizer
from tests.benchmarks.conftest import Report
from tests.recipe.worlds import settings, stock_settings, windowed_episode

WINDOW, GROUPS, SIZE = 256, 4, 4
ROUNDS = 15


class Mixed:
    """A collector of episodes of 1 to 12 segments."""

    def __call__(self, tasks: Sequence[dict[str, Any]], attempts: Sequence[int], batch: int) -> list[Episode]:
        return [windowed_episode(t, a, batch, WINDOW) for t, a in zip(tasks, attempts, strict=True)]


def trainer_of(folder: Path) -> SelfSummarizationTrainer:
    """A trainer of the quickstart's model on such episodes."""
    tokenizer = tiny_tokenizer()
    policy = Policy(tiny_model(tokenizer, 0), tokenizer)
    return SelfSummarizationTrainer(
        model=policy.model,
        args=settings(folder, per_device_train_batch_size=GROUPS * SIZE, num_generations=SIZE, token_budget=8192),
        train_dataset=Dataset.from_list([{"row": index, "prompt": str(index)} for index in range(GROUPS)]),
        processing_class=tokenizer,
        collector=Mixed(),
    )


def stock_trainer(folder: Path, model: PreTrainedModel, tokenizer: Any) -> GRPOTrainer:
    """TRL's own trainer with the same settings and a model of its own, which none of our hooks has touched."""
    args = settings(folder, per_device_train_batch_size=GROUPS * SIZE, num_generations=SIZE)
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=stock_settings(args),
        train_dataset=Dataset.from_list([{"prompt": str(index)} for index in range(GROUPS)]),
        processing_class=tokenizer,
    )
    trainer.current_gradient_accumulation_steps = 1
    return trainer


def seconds_of(step: Callable[[], torch.Tensor], model: nn.Module) -> float:
    """How long one forward and backward pass takes."""
    model.zero_grad()
    began = time.perf_counter()
    step().backward()
    return time.perf_counter() - began


def gradients(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def test_training_against_stock_padded_rows(tmp_path: Path, report: Report) -> None:
    trainer = trainer_of(tmp_path)
    model = cast(nn.Module, trainer.model)
    model.train()
    trainer.current_gradient_accumulation_steps = 1
    rows = [{"row": index, "prompt": str(index)} for index in range(GROUPS) for _ in range(SIZE)]
    batch = trainer._generate_and_score_completions(rows)
    chunks = trainer._micro_batches(batch)
    tokens = sum(chunk.tokens for chunk in chunks)
    padding = sum(chunk.padding for chunk in chunks) / (tokens + sum(chunk.padding for chunk in chunks))

    def ours() -> torch.Tensor:
        return trainer.compute_loss(model, dict(batch))

    tokenizer = tiny_tokenizer()
    theirs = stock_trainer(tmp_path / "stock", tiny_model(tokenizer, 0), tokenizer)
    their_model = cast(nn.Module, theirs.model)
    their_model.train()

    def stock() -> torch.Tensor:
        return theirs.compute_loss(their_model, dict(batch))

    # In turn, so that what else the machine does slows both alike; medians, so that no lucky pass decides.
    rounds = [(seconds_of(ours, model), seconds_of(stock, their_model)) for _ in range(ROUNDS)]
    mine, their_seconds = (statistics.median(seconds) for seconds in zip(*rounds, strict=True))
    assert torch.allclose(gradients(model), gradients(their_model), atol=1e-6)
    assert padding <= 0.10
    stock_padding = 1 - tokens / batch["prompt_ids"].size(0) / (
        batch["prompt_ids"].size(1) + batch["completion_ids"].size(1)
    )
    report(padding_share=padding, stock_padding_share=stock_padding, train_speedup_vs_padded=their_seconds / mine)
    assert their_seconds >= 1.5 * mine
