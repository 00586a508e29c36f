"""Stage 1, mid-training: supervised fine-tuning on demonstrations, so that the policy knows the form.

First repeated spans, from which a random model grows the circuit that copies; then windows written by experts and by
careless writers. Before GRPO may start, copying and looking things up are measured by themselves.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import torch
from datasets import Dataset
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, PrinterCallback, TrainerCallback
from trl import SFTConfig, SFTTrainer

from recipe.config import CompactionArguments, EpisodeArguments, StageArguments
from recipe.demonstrations import demonstrations, repeated_spans
from recipe.scoring import IGNORED, score_where_labelled
from rollouts.episode import Segment, TurnKind
from rollouts.policies.load import Policy
from rollouts.rendering import Renderer
from summarization.resolve import UserError


@dataclass(frozen=True)
class Skills:
    """What a policy can do before it is taught what to keep, each as a share of tokens predicted right.

    Attributes:
        copying: Statements that a summary repeats, from their second word on.
        lookup: Answers to questions about what stands in the window.
    """

    copying: float
    lookup: float


def check_demonstrable(episodes: EpisodeArguments, compaction: CompactionArguments) -> None:
    """Refuse what no scripted writer can demonstrate.

    Raises:
        UserError: Demonstrations are written for the environment ``recall`` in its tiny style alone.
    """
    if episodes.environment != "recall" or episodes.environment_kwargs.get("style", "tiny") != "tiny":
        raise UserError(
            f"environment is '{episodes.environment}' {episodes.environment_kwargs or ''}: stage 'midtrain' can write "
            "for 'recall' in style 'tiny' alone; leave 'midtrain' out of stages, and name a policy trained before"
        )
    if compaction.prompt_style != "tiny":
        raise UserError(f"prompt_style is '{compaction.prompt_style}': stage 'midtrain' writes in style 'tiny'; set it")


def midtrain(
    policy: Policy,
    renderer: Renderer,
    episodes: EpisodeArguments,
    compaction: CompactionArguments,
    stages: StageArguments,
    output_dir: Path,
    seed: int,
    callbacks: list[TrainerCallback],
    report_to: list[str],
    resume: str | None = None,
) -> None:
    """Train ``policy`` in place and save it in ``output_dir``.

    Args:
        resume: A checkpoint folder to go on from.
    """
    steps = stages.midtrain_span_steps + stages.midtrain_steps
    args = SFTConfig(
        output_dir=str(output_dir),
        max_steps=steps,
        # One row of the dataset is one process's share of a batch, so that spans and demonstrations can have batches
        # of their own.
        per_device_train_batch_size=1,
        train_sampling_strategy="sequential",
        learning_rate=stages.midtrain_learning_rate,
        lr_scheduler_type="warmup_stable_decay",
        lr_scheduler_kwargs={"num_decay_steps": steps // 2, "min_lr_ratio": 0.02, "decay_type": "linear"},
        warmup_steps=min(50, steps // 10 + 1),
        adam_beta2=0.98,
        weight_decay=0.01,
        logging_steps=25,
        save_strategy="steps",
        save_steps=max(1, steps // 3),
        save_total_limit=1,
        dataset_kwargs={"skip_prepare_dataset": True},
        remove_unused_columns=False,
        bf16=False,
        gradient_checkpointing=False,
        disable_tqdm=True,
        seed=seed,
        report_to=report_to,
        run_name=f"{output_dir.name}",
        use_cpu=not torch.cuda.is_available(),
    )
    trainer = SFTTrainer(
        model=policy.model,
        processing_class=policy.tokenizer,
        train_dataset=_dataset(policy, renderer, episodes, compaction, stages, seed, args.world_size),
        callbacks=callbacks,
        args=args,
        data_collator=_collate,
    )
    score_where_labelled(policy.model)
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=resume)
    trainer.save_model(str(output_dir))


def measure_skills(policy: Policy, renderer: Renderer, segments: Iterable[Segment]) -> Skills:
    """Measure copying on the summaries and lookup on the acts of ``segments``, which experts wrote.

    Which statement a summary keeps is a choice, and not measured: its first word, and where the summary ends.
    """
    choice_after = {*renderer.generation_ids[-1:], *renderer.content_ids(".")}
    copied: list[tuple[list[int], list[int]]] = []
    looked_up: list[tuple[list[int], list[int]]] = []
    for segment in segments:
        ids = [*segment.prompt_ids, *segment.completion_ids]
        kinds = [*(None,) * len(segment.prompt_ids), *segment.kinds]
        copies = [
            int(kinds[at] is TurnKind.SUMMARY and ids[at - 1] not in choice_after and ids[at] not in renderer.stop_ids)
            for at in range(len(ids))
        ]
        copied.append((ids, copies))
        looked_up.append((ids, [int(kind is TurnKind.ACT) for kind in kinds]))
    return Skills(_accuracy(policy.model, copied), _accuracy(policy.model, looked_up))


def held_out_drills(
    renderer: Renderer, episodes: EpisodeArguments, compaction: CompactionArguments, count: int, seed: int
) -> list[Segment]:
    """Drill windows that mid-training has not seen."""
    rows = demonstrations(
        renderer,
        episodes.limits(),
        episodes.environment_kwargs,
        [compaction.summary_tokens],
        episodes.task_kinds,
        expert_share=1.0,
        drill_share=0.5,
        words=(100, 400),
        seed=seed + 7_000_003,
    )
    return list(itertools.islice(rows, count))


@torch.no_grad()
def _accuracy(model: PreTrainedModel, rows: list[tuple[list[int], list[int]]], batch: int = 32) -> float:
    """Share of the marked tokens that the model puts first."""
    rows = [row for row in rows if any(row[1])]
    right = total = 0
    training = model.training
    model.eval()
    for start in range(0, len(rows), batch):
        part = rows[start : start + batch]
        ids = pad_sequence([torch.tensor(row) for row, _ in part], batch_first=True).to(model.device)  # (B, T)
        marked = pad_sequence([torch.tensor(mask) for _, mask in part], batch_first=True).to(model.device).bool()
        predicted = model(input_ids=ids).logits[:, :-1].argmax(-1)  # (B, T-1)
        right += int(((predicted == ids[:, 1:]) & marked[:, 1:]).sum())
        total += int(marked[:, 1:].sum())
    model.train(training)
    return right / max(1, total)


def _plain_tokens(policy: Policy) -> list[int]:
    special = set(policy.tokenizer.all_special_ids)
    return [token for token in range(len(policy.tokenizer)) if token not in special]


def _dataset(
    policy: Policy,
    renderer: Renderer,
    episodes: EpisodeArguments,
    compaction: CompactionArguments,
    stages: StageArguments,
    seed: int,
    processes: int,
) -> Dataset:
    """The sequences of each step's batch and their labels: one row for each process, in turn."""

    def batches() -> Iterable[dict[str, list[list[int]]]]:
        spans = repeated_spans(
            _plain_tokens(policy), stages.midtrain_span_steps * stages.midtrain_span_batch, 6, 24, seed
        )
        for _ in range(stages.midtrain_span_steps):
            batch = list(itertools.islice(spans, stages.midtrain_span_batch))
            for rows in _shares(batch, processes):
                yield {"input_ids": rows, "labels": [[IGNORED] * (len(r) // 2) + r[len(r) // 2 :] for r in rows]}
        large = stages.eval_baseline_factor * compaction.summary_tokens
        limits = episodes.limits()
        short = replace(limits, window=limits.window // 2)
        rng = random.Random(f"shuffle/{seed}")
        for within, steps in (
            (short, stages.midtrain_short_steps),
            (limits, stages.midtrain_steps - stages.midtrain_short_steps),
        ):
            segments = demonstrations(
                renderer,
                within,
                episodes.environment_kwargs,
                # The larger budget twice as often: what it is for (to go on after the first statement) is learned last.
                [compaction.summary_tokens, large, large],
                episodes.task_kinds,
                stages.midtrain_expert_share,
                stages.midtrain_drill_share,
                (stages.midtrain_words[0], stages.midtrain_words[1]),
                seed,
            )
            yield from demonstrated(segments, steps, rng)

    def demonstrated(
        segments: Iterator[Segment], steps: int, rng: random.Random
    ) -> Iterable[dict[str, list[list[int]]]]:
        pool: list[Segment] = []
        for step in range(steps):
            most = min(16, steps - step) * stages.midtrain_batch
            # Windows of one episode follow each other; a pool of many batches keeps them apart. A batch is a stretch of
            # the pool sorted by length, so that little of it is padding.
            pool += itertools.islice(segments, max(0, most - len(pool)))
            pool.sort(key=lambda segment: segment.length)
            start = rng.randint(0, len(pool) - stages.midtrain_batch)
            batch = pool[start : start + stages.midtrain_batch]
            del pool[start : start + stages.midtrain_batch]
            for share in _shares(batch, processes):
                yield {
                    "input_ids": [[*s.prompt_ids, *s.completion_ids] for s in share],
                    "labels": [_labels(s) for s in share],
                }

    return Dataset.from_list(list(batches()))


Item = TypeVar("Item")


def _shares(batch: list[Item], processes: int) -> list[list[Item]]:
    """A batch dealt out to the processes."""
    return [batch[process::processes] for process in range(processes)]


def _labels(segment: Segment) -> list[int]:
    pairs = zip(segment.completion_ids, segment.loss_mask, strict=True)
    return [IGNORED] * len(segment.prompt_ids) + [token if trained else IGNORED for token, trained in pairs]


def _collate(rows: list[dict[str, list[list[int]]]]) -> dict[str, torch.Tensor]:
    """Pad the sequences of one batch on the right, (B, T)."""
    (row,) = rows
    ids = pad_sequence([torch.tensor(ids) for ids in row["input_ids"]], batch_first=True)
    labels = [torch.tensor(labels) for labels in row["labels"]]
    return {
        "input_ids": ids,
        # All ones: attention is causal, so nothing with a label sees the padding on the right, and no mask is made.
        "attention_mask": torch.ones_like(ids),
        "labels": pad_sequence(labels, batch_first=True, padding_value=IGNORED),
    }
