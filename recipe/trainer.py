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
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol, cast

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from transformers import PreTrainedModel
from trl import GRPOTrainer

from recipe.batching import MicroBatch, assert_exactly_once, collate, idle_micro_batch, micro_batches, rows_of
from recipe.config import CreditArguments, TrainingConfig
from recipe.credit import BUILTIN, CreditRule, EpisodeCredit, GroupCredit, Penalties, credit_group, lighten
from recipe.measures import episode_metrics, mismatch, over_ranks
from recipe.scoring import can_share_prefixes, score_where_labelled
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

    Attributes:
        last: This rank's episodes of the latest batch, each with an advantage for each of its trained turns.

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
        if self.aux_loss_enabled:
            raise UserError(
                "output_router_logits is on: the load-balancing loss of a mixture of experts is a mean over each "
                "micro-batch, so cutting would change it; turn it off in the model's config"
            )
        for model in (self.model, self.ref_model):
            if model is not None:
                score_where_labelled(self.accelerator.unwrap_model(model))
        self.collector = collector
        self.last: list[tuple[Episode, list[float]]] = []
        self.credit = credit or CreditArguments()
        self._rule: CreditRule = resolve(self.credit.credit, BUILTIN, "credit")
        self._penalties = Penalties(
            per_summary_token=self.credit.summary_length_penalty,
            per_malformed=self.credit.malformed_penalty,
            length_weight=self.credit.length_penalty,
            length_scale=self.credit.length_penalty_scale,
            length_power=self.credit.length_penalty_power,
        )

    @property
    def _mode(self) -> str:
        return "train" if cast(PreTrainedModel, self.model).training else "eval"

    @property
    def _steps_per_generation(self) -> int:
        return cast(int, self.args.steps_per_generation)

    def log_beside(self, figures: dict[str, float]) -> None:
        """Have ``figures`` logged with the next training metrics."""
        for name, value in figures.items():
            self._metrics["train"][name].append(value)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Collect this rank's episodes, credit them, and return their rows under TRL's names."""
        mode = self._mode
        names = gather_object([task_id(task) for task in inputs])
        mine = slice(self.accelerator.process_index * len(inputs), (self.accelerator.process_index + 1) * len(inputs))
        # The optimizer step numbers the batch, so that a resumed run draws what the uninterrupted one draws.
        episodes = self.collector(inputs, attempts_of(names)[mine], self.state.global_step)
        if len(episodes) != len(inputs):
            raise AssertionError(f"{len(inputs)} episodes were asked for, {len(episodes)} came")
        light: list[EpisodeCredit] = gather_object([lighten(episode) for episode in episodes])
        groups = self._credit_groups(light, mode)
        advantages = [turns for group in groups for turns in group.turns][mine]
        self.last = list(zip(episodes, advantages, strict=True))
        rows = [row for e, turns in self.last for row in rows_of(e, turns)]
        assert_exactly_once(episodes, rows)
        steps = self._steps_per_generation if mode == "train" else 1
        counts: list[tuple[int, int]] = gather_object([(len(rows), sum(row.segment.sampled_tokens for row in rows))])
        # TRL splits the rows into equal parts on every rank, and cuts off what is left over.
        most = max(count for count, _ in counts)
        padded = max(1, -(-most // steps)) * steps
        output: dict[str, Any] = dict(
            collate(rows, padded, cast(int, self._tokenizer.pad_token_id), self.accelerator.device)
        )
        tokens = float(sum(count for _, count in counts))
        output["num_items_in_batch"] = torch.tensor(tokens, device=self.accelerator.device)
        self._score_with_earlier_policies(output)
        self._record(mode, episode_metrics(light, groups))
        self._record(mode, getattr(self.collector, "figures", {}))
        self._record(mode, {"rows/real": sum(count for count, _ in counts), "rows/trained_tokens": tokens})
        return output

    def _credit_groups(self, episodes: Sequence[EpisodeCredit], mode: str) -> list[GroupCredit]:
        """Credit for the groups of the batch, over all ranks. As in TRL, a group is num_generations neighbours."""
        size = cast(int, self.num_generations if mode == "train" else self.num_generations_eval)
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
        stale = self.num_iterations > 1 or self._steps_per_generation > self.args.gradient_accumulation_steps
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
        return self.args.skip_idle_rows and self.beta == 0.0

    @cached_property
    def _may_share(self) -> bool:
        """Whether what rows share may be forwarded once. Split weights are gathered for one forward pass of the whole
        model at a time, and checkpointed layers keep no keys and values."""
        split = self.is_fsdp_enabled or self.is_deepspeed_enabled or self.args.gradient_checkpointing
        model = cast(PreTrainedModel, self.accelerator.unwrap_model(self.model))
        return self.args.share_prefixes and not split and can_share_prefixes(model)

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """TRL's loss, summed over micro-batches; all but the last are run backward here, to bound memory."""
        if return_outputs:
            raise ValueError("this trainer returns no outputs")
        training = self._mode == "train"
        chunks = self._micro_batches(inputs)
        scorers: list[_ScoreSampledOnly] = []
        total = torch.zeros((), device=self.accelerator.device)
        with self._metrics_over(chunks, scorers):
            for chunk in chunks[:-1]:
                with self.accelerator.no_sync(model) if training else contextlib.nullcontext():
                    loss = self._chunk_loss(model, chunk, scorers)
                    if training:
                        self.accelerator.backward(loss)
                total += loss.detach()
            last = self._chunk_loss(model, chunks[-1], scorers)
        # The value counts all chunks, the gradient only the one that has not been run backward yet.
        return last + total

    def _micro_batches(self, inputs: dict[str, Any]) -> list[MicroBatch]:
        """As many on every rank, since a forward pass may be a collective operation; at least one."""
        # DeepSpeed takes a step at every backward pass outside of accumulation, so there one pass must do.
        budget = sys.maxsize if self.is_deepspeed_enabled else self.args.token_budget
        chunks = list(micro_batches(inputs, budget, skip_idle=self._may_skip, share=self._may_share))
        most = max(1, *gather_object([len(chunks)]))
        return chunks + [idle_micro_batch(inputs)] * (most - len(chunks))

    def _chunk_loss(self, model: Any, chunk: MicroBatch, scorers: list[_ScoreSampledOnly]) -> torch.Tensor:
        scorer = _ScoreSampledOnly(model, chunk, self.args.importance_correction, self.args.importance_cap)
        scorers.append(scorer)
        return self._compute_loss(scorer, chunk.batch)

    @contextlib.contextmanager
    def _metrics_over(self, chunks: Sequence[MicroBatch], scorers: Sequence[_ScoreSampledOnly]) -> Iterator[None]:
        """Make one figure of what TRL logs for each chunk: weighted by sampled tokens, over all ranks.

        TRL gathers at every chunk, which needs equal row counts on all ranks; here its figures stay on their rank until
        all chunks are done, and are then gathered together.
        """
        mode = self._mode
        metrics = self._metrics[mode]
        known = {name: len(values) for name, values in metrics.items()}
        with _alone(self.accelerator):
            yield
        weights = [float(chunk.sampled) for chunk in chunks]
        mine: dict[str, list[tuple[float, float]]] = {}
        for name in list(metrics):
            values = metrics[name][known.get(name, 0) :]
            if len(values) == len(chunks):
                del metrics[name][known.get(name, 0) :]
                mine[name] = list(zip(values, weights, strict=True))
        differences = torch.cat([scorer.log_ratios for scorer in scorers])
        mine.update(mismatch(differences, self.args.importance_cap))
        mine["rows/padding_share"] = [
            (chunk.padding / max(1, chunk.padding + chunk.tokens), float(chunk.padding + chunk.tokens))
            for chunk in chunks
        ]
        everyone: list[dict[str, list[tuple[float, float]]]] = gather_object([mine])
        self._record(mode, over_ranks(everyone))
        self._record(mode, {"rows/micro_batches": len(chunks)})


@contextlib.contextmanager
def _alone(accelerator: Accelerator) -> Iterator[None]:
    """Let what is gathered or reduced stay what this rank has."""

    def own(tensor: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return tensor

    accelerator.gather = accelerator.reduce = own
    try:
        yield
    finally:
        del accelerator.gather, accelerator.reduce


class _ScoreSampledOnly:
    """Stands before the model in TRL's loss: only sampled positions go through the LM head, and what they gave is seen.

    TRL labels every completion token; here tokens that were not sampled are labelled -100, which the head skips
    (:mod:`recipe.scoring`). They are masked from the loss either way.

    Attributes:
        log_ratios: Trainer's minus sampler's log-probability of each sampled token, (N,).
    """

    def __init__(self, model: Any, chunk: MicroBatch, correction: str, cap: float) -> None:
        self.model, self.batch, self.correction, self.cap = model, chunk.batch, correction, cap
        self.shared = {"shared_prefix": chunk.shared} if chunk.shared else {}
        self.log_ratios = torch.zeros(0)

    def __call__(self, *, labels: torch.Tensor, **inputs: Any) -> Any:
        mask = (self.batch["completion_mask"] * self.batch["tool_mask"]).bool()  # (B, T)
        width = mask.size(1)
        labels[:, -width:] = labels[:, -width:].masked_fill(~mask, -100)
        outputs = self.model(labels=labels, **inputs, **self.shared)
        with torch.no_grad():
            log_ratios = outputs.log_probs[:, -width:].float() - self.batch["sampling_logps"]
            self.log_ratios = log_ratios[mask].cpu()
            if self.correction == "token":
                # TRL reads the advantages after this forward pass; truncated importance weights multiply them.
                weights = log_ratios.exp().clamp(max=self.cap)
                self.batch["advantages"] = self.batch["advantages"] * torch.where(mask, weights, 1.0)
        return outputs


def _episode_reward(completions: Sequence[Any], **_: Any) -> list[float]:
    """TRL wants a reward function; episodes bring their reward, so this one is never asked."""
    raise AssertionError("rewards come from the episodes")
