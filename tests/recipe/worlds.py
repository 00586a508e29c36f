"""Episodes made of random tokens, and the trainer's loss as loops over tokens in plain Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import PreTrainedModel
from trl import GRPOConfig

from recipe.config import PolicyArguments, TrainingConfig
from recipe.policy import load_policy
from recipe.trainer import SelfSummarizationTrainer
from rollouts.episode import Compaction, Episode, Segment, Status, Turn, TurnKind
from rollouts.policies.load import Policy
from rollouts.policies.tiny import tiny_model, tiny_tokenizer

SIZE = 4


def small_policy(seed: int = 0) -> Policy:
    """A policy of 40 thousand weights."""
    tokenizer = tiny_tokenizer()
    return Policy(tiny_model(tokenizer, seed, hidden=32, layers=2, heads=2), tokenizer)


def saved_policy(folder: Path) -> Policy:
    """The same, loaded from ``folder``: from there TRL loads the reference model of the KL term."""
    small_policy().model.save_pretrained(folder / "start")
    small_policy().tokenizer.save_pretrained(folder / "start")
    return load_policy(PolicyArguments(policy=str(folder / "start")))


def random_segment(rng: random.Random, last: bool, turns: int) -> Segment:
    """A window of ``turns`` turns; unless it is the last, its last turn is a summary."""

    def ids(low: int, high: int) -> tuple[int, ...]:
        return tuple(rng.randrange(10, 600) for _ in range(rng.randint(low, high)))

    made: list[Turn] = []
    for index in range(turns):
        sampled = ids(1, 6)
        kind = TurnKind.SUMMARY if index == turns - 1 and not last else TurnKind.ACT
        made.append(Turn(ids(0, 9), sampled, tuple(-rng.random() for _ in sampled), kind))
    return Segment(ids(2, 12), tuple(made))


def random_episode(
    task: dict[str, Any],
    attempt: int,
    seed: int,
    segments: tuple[int, int] = (1, 4),
    turns: tuple[int, int] = (1, 3),
    flat_odd: bool = False,
    opening: int = 0,
    page: int = 0,
) -> Episode:
    """An episode that depends on its arguments alone; its reward is 0, 1 or a half.

    With ``flat_odd`` all attempts at a task of odd number earn the same, so that its group has no advantage. With
    ``opening`` all its segments begin with that many tokens of the task, and the first one with a page of it too.
    """
    rng = random.Random(f"{task}/{attempt}/{seed}")
    count = rng.randint(*segments)
    made = tuple(random_segment(rng, index == count - 1, rng.randint(*turns)) for index in range(count))
    if opening:
        common = random.Random(str(task))
        start, read = (tuple(common.randrange(10, 600) for _ in range(size)) for size in (opening, page))
        first, *later = made
        first = Segment(start, (replace(first.turns[0], appended_ids=read), *first.turns[1:]))
        made = (first, *(Segment((*start, *s.prompt_ids), s.turns) for s in later))
    compactions = tuple(Compaction(index, 20, 10, "") for index in range(count - 1))
    reward = 1.0 if flat_odd and task["row"] % 2 else rng.choice((0.0, 0.5, 1.0))
    metrics = {"acts": 1.0, "compactions": count - 1.0, "tokens_forwarded": 1.0, "peak_context": 1.0}
    return Episode(task, str(task["row"]), attempt, made, compactions, reward, Status.FINISHED, metrics)


def windowed_episode(
    task: dict[str, Any], attempt: int, seed: int, window: int, segments: tuple[int, int] = (1, 12)
) -> Episode:
    """An episode as rollouts make them: windows that are nearly full, and a last one of any length."""
    rng = random.Random(f"{task}/{attempt}/{seed}")
    count = rng.randint(*segments)

    def ids(size: int) -> tuple[int, ...]:
        return tuple(rng.randrange(10, 600) for _ in range(size))

    made: list[Segment] = []
    for index in range(count):
        last = index == count - 1
        room = rng.randint(window // 8, window) if last else rng.randint(int(0.8 * window), window)
        prompt = ids(min(room // 3, rng.randint(12, 24)))
        room -= len(prompt)
        turns: list[Turn] = []
        while room > 0:
            sampled = ids(min(room, rng.randint(2, 12)))
            appended = ids(min(room - len(sampled), rng.randint(8, 40)))
            room -= len(sampled) + len(appended)
            kind = TurnKind.SUMMARY if room <= 0 and not last else TurnKind.ACT
            turns.append(Turn(appended, sampled, tuple(-rng.random() for _ in sampled), kind))
        made.append(Segment(prompt, tuple(turns)))
    return Episode(task, str(task["row"]), attempt, tuple(made), (), rng.random(), Status.FINISHED, {})


class Recorded:
    """A collector that makes up the episodes of each batch and keeps them."""

    def __init__(self, **shape: Any) -> None:
        self.shape = shape
        self.batches: list[list[Episode]] = []

    def __call__(self, tasks: Sequence[dict[str, Any]], attempts: Sequence[int], batch: int) -> list[Episode]:
        self.batches.append([random_episode(t, a, batch, **self.shape) for t, a in zip(tasks, attempts, strict=True)])
        return self.batches[-1]


def settings(folder: Path, **changes: Any) -> TrainingConfig:
    """One optimizer step of plain gradient descent with learning rate 1: the parameters move by the gradient."""
    fields: dict[str, Any] = {
        "output_dir": str(folder),
        "max_steps": 1,
        "num_generations": SIZE,
        "per_device_train_batch_size": 2 * SIZE,
        "learning_rate": 1.0,
        "lr_scheduler_type": "constant",
        "optim": "sgd",
        "weight_decay": 0.0,
        "max_grad_norm": 0.0,
        "temperature": 0.8,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "seed": 3,
    }
    return TrainingConfig(**{**fields, **changes})


def stock_settings(config: TrainingConfig) -> GRPOConfig:
    """The same settings for stock TRL, without those that are our own."""
    # What GRPOConfig works out from the others must be worked out anew.
    derived = {"steps_per_generation", "generation_batch_size"}
    names = {field.name for field in fields(GRPOConfig) if field.init} - derived
    return GRPOConfig(**{name: value for name, value in config.to_dict().items() if name in names})


def trained(folder: Path, collector: Any, policy: Policy | None = None, **changes: Any) -> SelfSummarizationTrainer:
    """Train on 16 tasks that are nothing but a number."""
    policy = policy or saved_policy(folder)
    trainer = SelfSummarizationTrainer(
        model=policy.model,
        args=settings(folder, **changes),
        train_dataset=Dataset.from_list([{"row": index, "prompt": str(index)} for index in range(16)]),
        processing_class=policy.tokenizer,
        collector=collector,
    )
    trainer.train()
    return trainer


def parameters(model: Any) -> dict[str, torch.Tensor]:
    """A copy of the weights."""
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def furthest(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> float:
    """The largest difference between two sets of weights."""
    assert first.keys() == second.keys()
    return max(float((first[name] - second[name]).abs().max()) for name in first)


def reference_step(model: PreTrainedModel, groups: Sequence[Sequence[Episode]], temperature: float) -> float:
    """The loss by its definition, one token after the other; leaves its gradient in ``model`` and returns its value.

    Loss = -(1/N) sum over episodes, segments and sampled tokens of r A with r = 1 on the policy that sampled;
    A = R - mean of the group's R, over episodes; N = sampled tokens of the step.
    """
    model.train()
    count = sum(len(turn.sampled_ids) for g in groups for e in g for s in e.segments for turn in s.turns)
    loss = torch.zeros(())
    for group in groups:
        rewards = [float(episode.reward or 0.0) for episode in group]
        baseline = sum(rewards) / len(rewards)
        for episode, reward in zip(group, rewards, strict=True):
            for segment in episode.segments:
                context = list(segment.prompt_ids)
                for turn in segment.turns:
                    context += turn.appended_ids
                    for token in turn.sampled_ids:
                        logits = model(input_ids=torch.tensor([context])).logits[0, -1].float() / temperature
                        logprob = logits.log_softmax(-1)[token]
                        loss = loss - (logprob - logprob.detach()).exp() * (reward - baseline) / count
                        context.append(token)
    loss.backward()
    return float(loss.detach())
