"""``SelfSummarizationTrainer``: TRL's ``GRPOTrainer`` for episodes of many segments.

It overrides how a batch comes to be (episodes are collected, credit is computed over episodes, segments become rows)
and how a loss is computed (backward in chunks, to bound memory). The loss itself, the optimizer, checkpoints, logging,
PEFT, the reference model, schedulers and accelerate stay TRL's.

    trainer = SelfSummarizationTrainer(
        model=model, args=TrainingConfig(...), train_dataset=tasks, processing_class=tokenizer, collector=collector
    )
    trainer.train()
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from accelerate.utils import gather_object
from trl import GRPOTrainer

from recipe.batching import MicroBatch, assert_exactly_once, collate, micro_batches, rows_of
from recipe.config import CreditArguments, TrainingConfig
from recipe.credit import BUILTIN, CreditRule, EpisodeCredit, GroupCredit, Penalties, credit_group, lighten
from recipe.measures import episode_metrics
from rollouts.episode import Episode
from rollouts.jobs import attempts_of, task_id
from summarization.resolve import UserError, resolve

TRL_SIGNATURES = {
    "_generate_and_score_completions": ("self", "inputs"),
    "compute_loss": ("self", "model", "inputs", "return_outputs", "num_items_in_batch"),
    "_compute_loss": ("self", "model", "inputs"),
}


class Collect(Protocol):
    """Plays one episode for each task row and returns them in the order of the rows.

    ``attempts`` numbers the attempts at equal rows over all ranks; ``batch`` numbers the batch. Together with the task
    they determine every draw, so that a run on two processes plays the same episodes as on one.
    """

    def __call__(self, tasks: Sequence[dict[str, Any]], attempts: Sequence[int], batch: int) -> list[Episode]: ...


def check_trl() -> None:
    """Refuse a TRL whose overridden methods have other signatures than those this trainer was written for.

    Raises:
        UserError: They differ.
    """
    for name, expected in TRL_SIGNATURES.items():
        found = tuple(inspect.signature(getattr(GRPOTrainer, name)).parameters) if hasattr(GRPOTrainer, name) else ()
        if found != expected:
            raise UserError(
                f"trl: GRPOTrainer.{name} takes {found}, this trainer was written for {expected}; install trl 1.16.*"
            )


class SelfSummarizationTrainer(GRPOTrainer):
    """GRPO over episodes whose context is compacted on the way.

    Args:
        collector: Plays the episodes of a batch of task rows.
        credit: How rewards become advantages.
        trl: What ``GRPOTrainer`` takes. Rewards come from the episodes, so ``reward_funcs`` is not needed.

    Raises:
        UserError: A setting under which cutting an episode into rows would change the loss.
    """

    args: TrainingConfig

    def __init__(self, *, collector: Collect, credit: CreditArguments | None = None, **trl: Any) -> None:
        check_trl()
        args = trl.get("args")
        if not isinstance(args, TrainingConfig):
            raise UserError(f"args is a {type(args).__name__}; it must be a recipe.config.TrainingConfig")
        trl.setdefault("reward_funcs", [_episode_reward])
        super().__init__(**trl)
        self.collector = collector
        self.credit = credit or CreditArguments()
        self._rule: CreditRule = resolve(self.credit.credit, BUILTIN, "credit")
        self._penalties = Penalties(self.credit.summary_length_penalty, self.credit.malformed_penalty)

    def log_beside(self, figures: dict[str, float]) -> None:
        """Have ``figures`` logged with the next training metrics."""
        for name, value in figures.items():
            self._metrics["train"][name].append(value)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Collect this rank's episodes, credit them, and return their rows under TRL's names."""
        mode = "train" if self.model.training else "eval"
        names = gather_object([task_id(task) for task in inputs])
        mine = slice(self.accelerator.process_index * len(inputs), (self.accelerator.process_index + 1) * len(inputs))
        # The optimizer step numbers the batch, so that a resumed run draws what the uninterrupted one draws.
        episodes = self.collector(inputs, attempts_of(names)[mine], self.state.global_step)
        if len(episodes) != len(inputs):
            raise AssertionError(f"{len(inputs)} episodes were asked for, {len(episodes)} came")
        light: list[EpisodeCredit] = gather_object([lighten(episode) for episode in episodes])
        groups = self._credit_groups(light, mode)
        advantages = [turns for group in groups for turns in group.turns][mine]
        rows = [row for e, turns in zip(episodes, advantages, strict=True) for row in rows_of(e, turns)]
        assert_exactly_once(episodes, rows)
        steps = self.args.steps_per_generation if mode == "train" else 1
        counts: list[tuple[int, int]] = gather_object([(len(rows), sum(row.segment.sampled_tokens for row in rows))])
        # TRL splits the rows into equal parts on every rank, and cuts off what is left over.
        most = max(count for count, _ in counts)
        padded = max(1, -(-most // steps)) * steps
        output: dict[str, Any] = dict(collate(rows, padded, int(self._tokenizer.pad_token_id), self.accelerator.device))
        tokens = float(sum(count for _, count in counts))
        output["num_items_in_batch"] = torch.tensor(tokens, device=self.accelerator.device)
        self._score_with_earlier_policies(output)
        self._record(mode, episode_metrics(light, groups))
        self._record(mode, {"rows/real": sum(count for count, _ in counts), "rows/trained_tokens": tokens})
        return output

    def _credit_groups(self, episodes: Sequence[EpisodeCredit], mode: str) -> list[GroupCredit]:
        """Credit for the groups of the whole batch, over all ranks. A group is num_generations neighbours, as in TRL."""
        size = self.num_generations if mode == "train" else self.num_generations_eval
        return [
            credit_group(
                episodes[start : start + size],
                self._rule,
                self.credit.unfinished,
                self._penalties,
                scale=self.scale_rewards == "group",
            )
            for start in range(0, len(episodes), size)
        ]

    @torch.no_grad()
    def _score_with_earlier_policies(self, output: dict[str, Any]) -> None:
        """Add what the loss compares with: the reference's log-probabilities, and those of the policy that sampled."""
        stale = self.num_iterations > 1 or self.args.steps_per_generation > self.args.gradient_accumulation_steps
        wanted = {"old_per_token_logps": self.model} if stale else {}
        if self.beta != 0.0:
            wanted["ref_per_token_logps"] = self.ref_model
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], 1)
        mask = torch.cat([output["prompt_mask"], output["completion_mask"]], 1)
        width = output["completion_ids"].size(1)
        batch_size = max(1, self.args.token_budget // ids.size(1))
        for name, model in wanted.items():
            adapter_off = contextlib.nullcontext()
            if model is None:
                model = self.model
                adapter_off = self.accelerator.unwrap_model(self.model).disable_adapter()
            with adapter_off:
                scores, _, _ = self._get_per_token_logps_and_entropies(model, ids, mask, width, batch_size=batch_size)
            output[name] = scores

    def _record(self, mode: str, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self._metrics[mode][name].append(float(value))

    @property
    def _may_skip(self) -> bool:
        """Whether rows without advantage have no gradient at all."""
        return self.args.skip_idle_rows and self.beta == 0.0 and not self.aux_loss_enabled

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """TRL's loss, summed over micro-batches; all but the last are run backward here, to bound memory."""
        if return_outputs:
            raise ValueError("this trainer returns no outputs")
        training = self.model.training
        chunks = list(micro_batches(inputs, self.args.token_budget, skip_idle=self._may_skip))
        if not chunks:
            # The step is taken all the same: how many there are depends on the tasks alone.
            return 0.0 * next(p for p in model.parameters() if p.requires_grad).sum()
        self._record(
            "train" if training else "eval",
            {
                "rows/padding_share": sum(c.padding for c in chunks) / sum(c.padding + c.tokens for c in chunks),
                "rows/micro_batches": len(chunks),
            },
        )
        total = torch.zeros((), device=self.accelerator.device)
        for chunk in chunks[:-1]:
            with self.accelerator.no_sync(model) if training else contextlib.nullcontext():
                loss = self._chunk_loss(model, chunk)
                if training:
                    self.accelerator.backward(loss)
            total += loss.detach()
        last = self._chunk_loss(model, chunks[-1])
        # The value counts all chunks, the gradient only the one that has not been run backward yet.
        return last + total

    def _chunk_loss(self, model: Any, chunk: MicroBatch) -> torch.Tensor:
        scorer = _ScoreSampledOnly(model, chunk.batch, self.args.importance_correction, self.args.importance_cap)
        loss = self._compute_loss(scorer, chunk.batch)
        self._record("train" if self.model.training else "eval", scorer.figures)
        return loss


class _ScoreSampledOnly:
    """Stands before the model in TRL's loss: only sampled positions go through the LM head, and what they gave is seen.

    TRL labels every completion token; here tokens that were not sampled are labelled -100, which its head skips. They
    are masked from the loss either way.
    """

    def __init__(self, model: Any, batch: dict[str, torch.Tensor], correction: str, cap: float) -> None:
        self.model, self.batch, self.correction, self.cap = model, batch, correction, cap
        self.figures: dict[str, float] = {}

    def __call__(self, *, labels: torch.Tensor, **inputs: Any) -> Any:
        mask = (self.batch["completion_mask"] * self.batch["tool_mask"]).bool()  # (B, T)
        width = mask.size(1)
        labels[:, -width:] = labels[:, -width:].masked_fill(~mask, -100)
        outputs = self.model(labels=labels, **inputs)
        with torch.no_grad():
            scored = outputs.log_probs[:, -width:]
            log_ratio = (scored - self.batch["sampling_logps"])[mask].float()
            if log_ratio.numel():
                # k3 estimate of KL(sampler || trainer), and the largest differences: nil where both compute alike.
                self.figures["mismatch/kl"] = float((log_ratio.exp() - 1 - log_ratio).mean())
                self.figures["mismatch/p99"] = float(log_ratio.abs().quantile(0.99))
            if self.correction == "token":
                # TRL reads the advantages after this forward pass; truncated importance weights multiply them.
                weights = (scored - self.batch["sampling_logps"]).exp().clamp(max=self.cap)
                self.batch["advantages"] = self.batch["advantages"] * torch.where(mask, weights, 1.0)
                self.figures["mismatch/truncated_share"] = float((log_ratio.exp() > self.cap).float().mean())
        return outputs


def _episode_reward(completions: Sequence[Any], **_: Any) -> list[float]:
    """TRL wants a reward function; episodes bring their reward, so this one is never asked."""
    raise AssertionError("rewards come from the episodes")
