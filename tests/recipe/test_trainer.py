"""The trainer against a plain reference (L7), against stock TRL (L6), and what it must never do (L3, pitfalls)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from trl import GRPOTrainer

from recipe import trainer as trainer_module
from recipe.scoring import score_where_labelled
from recipe.trainer import check_trl
from rollouts.episode import Episode
from summarization.resolve import UserError
from tests.recipe.worlds import (
    SIZE,
    Recorded,
    furthest,
    parameters,
    reference_step,
    saved_policy,
    settings,
    small_policy,
    stock_settings,
    trained,
)

SHARED_METRICS = (
    "loss",
    "grad_norm",
    "reward",
    "reward_std",
    "frac_reward_zero_std",
    "entropy",
    "kl",
    "cispo_clip_ratio",
)
ROOT = Path(__file__).parents[2]


def groups_of(batch: list[Episode]) -> list[list[Episode]]:
    return [batch[start : start + SIZE] for start in range(0, len(batch), SIZE)]


def after_reference(batch: list[Episode], temperature: float = 0.8) -> tuple[dict[str, torch.Tensor], float]:
    """The weights after one step of gradient descent on the reference loss, and that loss."""
    model = small_policy().model
    loss = reference_step(model, groups_of(batch), temperature)
    stepped = {n: (p - p.grad if p.grad is not None else p).detach().clone() for n, p in model.named_parameters()}
    return stepped, loss


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> list[Episode]:
    """The 8 episodes that every trainer below is given: the tasks that TRL's sampler draws first at seed 3."""
    collector = Recorded()
    trained(tmp_path_factory.mktemp("batch"), collector)
    return collector.batches[0]


@pytest.fixture(scope="module")
def reference(batch: list[Episode]) -> tuple[dict[str, torch.Tensor], float]:
    return after_reference(batch)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="one micro-batch"),
        pytest.param({"token_budget": 1}, id="a micro-batch each row"),
        pytest.param({"token_budget": 150}, id="several micro-batches"),
        pytest.param({"skip_idle_rows": False, "token_budget": 150}, id="idle rows forwarded"),
        pytest.param({"per_device_train_batch_size": SIZE, "gradient_accumulation_steps": 2}, id="accumulation"),
        pytest.param(
            {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4, "token_budget": 90},
            id="accumulation, parts of a group, several micro-batches",
        ),
        pytest.param({"gradient_checkpointing": True}, id="gradient checkpointing"),
    ],
)
def test_cutting_is_invisible(
    tmp_path: Path, changes: dict[str, Any], batch: list[Episode], reference: tuple[dict[str, torch.Tensor], float]
) -> None:
    collector = Recorded()
    trainer = trained(tmp_path, collector, **changes)
    assert collector.batches == [batch]
    assert furthest(parameters(trainer.model), reference[0]) < 1e-6
    assert furthest(parameters(small_policy().model), reference[0]) > 1e-4
    assert trainer.state.log_history[0]["loss"] == pytest.approx(reference[1], abs=1e-6)


@pytest.mark.parametrize("changes", [{}, {"token_budget": 300}, {"share_prefixes": False}], ids=str)
def test_what_rows_share_is_forwarded_once_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    """Attempts at a task open alike, up to the first sample of the first segment."""
    seen: list[int] = []
    whole = trainer_module.micro_batches

    def watched(*args: Any, **options: Any) -> Any:
        for chunk in whole(*args, **options):
            seen.append(chunk.shared)
            yield chunk

    monkeypatch.setattr(trainer_module, "micro_batches", watched)
    collector = Recorded(opening=30, page=40)
    trainer = trained(tmp_path, collector, **changes)
    weights, loss = after_reference(collector.batches[0])
    assert furthest(parameters(trainer.model), weights) < 1e-6
    assert furthest(parameters(small_policy().model), weights) > 1e-4
    assert trainer.state.log_history[0]["loss"] == pytest.approx(loss, abs=1e-6)
    # A first segment shares opening and page, up to the token that predicts the first sampled one; others the opening.
    assert {shared > 60 for shared in seen if shared} == (
        {True, False} if changes.get("share_prefixes", True) else set()
    )


def on_two_processes(folder: Path, per_device: int, accumulation: int, *more: str) -> dict[str, torch.Tensor]:
    """The weights that two gloo processes end with, started as the README does."""
    saved = folder / f"{per_device}.pt"
    command = [sys.executable, "-m", "accelerate.commands.launch", "--config_file"]
    command += [str(ROOT / "configs" / "accelerate" / "cpu_2proc.yaml"), "--main_process_port", "0"]
    command += [str(ROOT / "tests" / "recipe" / "two_processes.py"), str(saved), str(per_device), str(accumulation)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, *more], env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    stored = torch.load(saved)
    assert stored["world_size"] == 2
    return stored["weights"]


def test_two_processes_are_one(tmp_path: Path, reference: tuple[dict[str, torch.Tensor], float]) -> None:
    """They take the same step; groups of 4 lie on ranks of 4 and of 2."""
    for per_device, accumulation in ((SIZE, 1), (2, 2)):
        assert furthest(on_two_processes(tmp_path, per_device, accumulation), reference[0]) < 1e-6


def test_two_processes_are_one_after_three_steps(tmp_path: Path) -> None:
    """Episodes of 1 to 12 segments; one process has a batch without any advantage, and some episodes no compaction."""
    changes = {"max_steps": 3, "optim": "adamw_torch", "learning_rate": 1e-3}
    shape = {"segments": (1, 12), "flat_odd": True}
    collector = Recorded(**shape)
    alone = trained(tmp_path / "one", collector, **changes)
    groups = [group for batch in collector.batches for group in groups_of(batch)]
    flat = [len({episode.reward for episode in group}) == 1 for group in groups]
    assert any(flat[at] != flat[at + 1] for at in range(0, len(flat), 2)), "no batch has a rank without advantage"
    assert any(not episode.compactions for group in groups for episode in group)
    weights = on_two_processes(tmp_path, SIZE, 1, json.dumps(changes), json.dumps(shape))
    assert furthest(weights, parameters(alone.model)) < 1e-5
    assert furthest(parameters(small_policy().model), parameters(alone.model)) > 1e-3


def test_rows_laid_end_to_end_take_the_same_step(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    batch: list[Episode],
    reference: tuple[dict[str, torch.Tensor], float],
) -> None:
    """The layout of flash attention, here through the block-diagonal mask that transformers makes of its positions."""
    monkeypatch.setattr(trainer_module, "score_where_labelled", partial(score_where_labelled, packed=True))
    collector = Recorded()
    trainer = trained(tmp_path, collector, token_budget=150)
    assert collector.batches == [batch]
    assert furthest(parameters(trainer.model), reference[0]) < 1e-6


def stock(folder: Path, batch: list[Episode], **changes: Any) -> GRPOTrainer:
    """Stock TRL on the same episodes, which must have one segment each."""
    policy = saved_policy(folder)
    segments = [episode.segments[0] for episode in batch]

    def rollout(prompts: list[Any], _: GRPOTrainer) -> dict[str, Any]:
        return {
            "prompt_ids": [list(segment.prompt_ids) for segment in segments],
            "completion_ids": [list(segment.completion_ids) for segment in segments],
            "logprobs": [list(segment.logprobs) for segment in segments],
            "env_mask": [list(segment.loss_mask) for segment in segments],
            "episode_reward": [float(episode.reward or 0.0) for episode in batch],
        }

    def reward(episode_reward: list[float], **_: Any) -> list[float | None]:
        return list(episode_reward)

    trainer = GRPOTrainer(
        model=policy.model,
        reward_funcs=[reward],
        args=stock_settings(settings(folder, **changes)),
        train_dataset=Dataset.from_list([{"row": index, "prompt": str(index)} for index in range(16)]),
        processing_class=policy.tokenizer,
        rollout_func=rollout,
    )
    trainer.train()
    return trainer


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"optim": "adamw_torch", "learning_rate": 1e-4, "max_grad_norm": 0.5}, id="adam, clipped"),
        pytest.param({"scale_rewards": "group"}, id="divided by the group's deviation"),
        pytest.param({"loss_type": "cispo"}, id="cispo"),
        pytest.param({"beta": 0.1}, id="KL to a reference"),
        pytest.param({"num_iterations": 3, "max_steps": 3, "learning_rate": 0.5}, id="three steps a batch"),
    ],
)
@pytest.mark.parametrize("token_budget", [1 << 20, 100])
def test_without_compaction_it_is_stock_trl(tmp_path: Path, changes: dict[str, Any], token_budget: int) -> None:
    collector = Recorded(segments=(1, 1))
    ours = trained(tmp_path / "ours", collector, token_budget=token_budget, skip_idle_rows=False, **changes)
    theirs = stock(tmp_path / "theirs", collector.batches[0], **changes)
    assert furthest(parameters(ours.model), parameters(theirs.model)) < 1e-6
    assert furthest(parameters(small_policy().model), parameters(theirs.model)) > 1e-4
    for mine, stocks in zip(ours.state.log_history[:-1], theirs.state.log_history[:-1], strict=True):
        assert {"loss", "grad_norm", "entropy"} < stocks.keys()
        for name in stocks:
            if name in SHARED_METRICS or name.startswith("clip_ratio/"):
                assert mine[name] == pytest.approx(stocks[name], abs=1e-5), name


def test_optimizer_steps_depend_on_tasks_alone(tmp_path: Path) -> None:
    """Pitfall 6: with up to 12 segments an episode there are as many steps as with one."""
    steps = [
        trained(
            tmp_path, Recorded(segments=segments), max_steps=-1, num_train_epochs=1, learning_rate=1e-3
        ).state.global_step
        for segments in ((1, 1), (1, 12))
    ]
    assert steps == [8, 8]


def test_a_step_in_which_no_episode_stands_out_changes_nothing(tmp_path: Path) -> None:
    class Equal(Recorded):
        def __call__(self, *arguments: Any) -> list[Episode]:
            from dataclasses import replace

            return [replace(episode, reward=1.0) for episode in super().__call__(*arguments)]

    trainer = trained(tmp_path, Equal())
    assert trainer.state.global_step == 1
    assert furthest(parameters(small_policy().model), parameters(trainer.model)) == 0.0


def test_changed_trl_is_refused_with_a_clear_message(monkeypatch: pytest.MonkeyPatch) -> None:
    check_trl()
    monkeypatch.setitem(trainer_module.TRL_SIGNATURES, "_compute_loss", ("self", "model", "inputs", "other"))
    with pytest.raises(UserError, match=r"_compute_loss.*trl 1\.16"):
        check_trl()


def test_lost_tokens_stop_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """L3 at run time: rows that miss a sampled token never reach the optimizer."""
    whole = trainer_module.rows_of
    monkeypatch.setattr(trainer_module, "rows_of", lambda episode, turns: whole(episode, turns)[:-1])
    with pytest.raises(AssertionError, match="were sampled"):
        trained(tmp_path, Recorded())
