"""Mid-training through TRL's SFTTrainer: what is labelled, and what is measured before GRPO may start."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState

from recipe.config import CompactionArguments, EpisodeArguments, PolicyArguments, StageArguments
from recipe.demonstrations import demonstrations
from recipe.midtrain import IGNORED, Skills, _collate, _labels, held_out_drills, measure_skills, midtrain
from recipe.policy import load_policy
from rollouts.episode import TurnKind
from rollouts.policies.load import Policy
from rollouts.rendering import Renderer
from tests.recipe.worlds import furthest, parameters, small_policy

ROOT = Path(__file__).parents[2]
EPISODES = EpisodeArguments(window=256, act_tokens=8, environment_kwargs={"page_words": 32})
COMPACTION = CompactionArguments(summary_tokens=8, prompt_style="tiny")
STAGES = StageArguments(
    stages=["midtrain"],
    midtrain_steps=6,
    midtrain_span_steps=4,
    midtrain_batch=8,
    midtrain_span_batch=8,
    midtrain_words=[80, 200],
)


def test_only_what_writers_wrote_is_labelled() -> None:
    renderer = Renderer(small_policy().tokenizer)
    rows = demonstrations(renderer, EPISODES.limits(), {}, [8], ["find"], 0.5, 0.5, (80, 200), 0)
    for segment in itertools.islice(rows, 50):
        ids, labels = [*segment.prompt_ids, *segment.completion_ids], _labels(segment)
        assert len(labels) == len(ids)
        written = [token for turn in segment.turns for token in turn.sampled_ids]
        assert [label for label in labels if label != IGNORED] == written
        assert all(label in (IGNORED, token) for label, token in zip(labels, ids, strict=True))


def test_padding_has_no_label() -> None:
    batch = _collate([{"input_ids": [[5, 6, 7], [8]], "labels": [[IGNORED, 6, 7], [8]]}])
    assert batch["labels"].tolist() == [[IGNORED, 6, 7], [8, IGNORED, IGNORED]]
    assert batch["input_ids"].shape == batch["attention_mask"].shape == (2, 3)


def test_it_trains_saves_and_goes_on(tmp_path: Path) -> None:
    class Cut(TrainerCallback):
        """Ends a run at its sixth step, as Ctrl-C after a checkpoint would."""

        def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
            if state.global_step == 6:
                control.should_save = control.should_training_stop = True

    def run(folder: Path, resume: str | None = None, callbacks: tuple[TrainerCallback, ...] = ()) -> Policy:
        policy = small_policy()
        renderer = Renderer(policy.tokenizer)
        midtrain(policy, renderer, EPISODES, COMPACTION, STAGES, folder, 0, list(callbacks), ["none"], resume)
        return policy

    whole = run(tmp_path / "whole")
    saved = load_policy(PolicyArguments(), tmp_path / "whole")
    for name, weights in parameters(saved.model).items():
        assert torch.equal(weights, parameters(whole.model)[name])
        assert not torch.equal(weights, parameters(small_policy().model)[name])
    # Batches are drawn in a fixed order, so the second half after a cut is the second half of the whole.
    run(tmp_path / "cut", callbacks=(Cut(),))
    resumed = run(tmp_path / "resumed", str(tmp_path / "cut" / "checkpoint-6"))
    for name, weights in parameters(resumed.model).items():
        assert torch.allclose(weights, parameters(whole.model)[name], atol=1e-6)


def test_two_processes_are_one(tmp_path: Path) -> None:
    """Each takes its share of every batch."""
    alone = small_policy()
    midtrain(alone, Renderer(alone.tokenizer), EPISODES, COMPACTION, STAGES, tmp_path / "one", 0, [], ["none"])
    script = ROOT / "tests" / "recipe" / "two_processes_midtrain.py"
    command = [sys.executable, "-m", "accelerate.commands.launch", "--main_process_port", "0", "--config_file"]
    command += [str(ROOT / "configs" / "accelerate" / "cpu_2proc.yaml"), str(script), str(tmp_path / "two")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    together = load_policy(PolicyArguments(), tmp_path / "two")
    assert furthest(parameters(together.model), parameters(alone.model)) < 1e-5


def test_skills_are_shares_of_what_can_be_read_off() -> None:
    """A model that is certain of one token is right exactly where that token stands."""
    policy = small_policy()
    renderer = Renderer(policy.tokenizer)
    drills = held_out_drills(renderer, EPISODES, COMPACTION, 30, 0)
    (period,) = renderer.content_ids(".")
    (end,) = renderer.closing_ids

    class Certain(torch.nn.Module):
        device = torch.device("cpu")

        def __init__(self, token: int) -> None:
            super().__init__()
            self.token = token

        def forward(self, input_ids: torch.Tensor) -> object:
            logits = torch.zeros(*input_ids.shape, len(policy.tokenizer))
            logits[..., self.token] = 1.0
            return type("Output", (), {"logits": logits})

    def skills(token: int) -> Skills:
        return measure_skills(Policy(Certain(token), policy.tokenizer), renderer, drills)  # type: ignore[arg-type]

    summaries, acts = (
        [turn.sampled_ids for segment in drills for turn in segment.turns if turn.kind is kind]
        for kind in (TurnKind.SUMMARY, TurnKind.ACT)
    )
    # Of a statement's tokens the first is a choice; so is the summary's end.
    periods = sum(ids.count(period) for ids in summaries)
    statements = periods
    assert skills(period).copying == periods / (sum(len(ids) - 1 for ids in summaries) - statements)
    assert skills(end).copying == 0.0
    assert skills(end).lookup == len(acts) / sum(len(ids) for ids in acts)
    assert skills(period).lookup == 0.0
