"""All that a YAML may say. Each field is documented under its name; what cannot work is refused before anything loads.

A YAML is flat: the fields of these dataclasses and of TRL's ``GRPOConfig`` side by side, as ``TrlParser`` reads them.
Values such as ``environment: package.module:Name`` name code that will be imported and run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trl import GRPOConfig

from rollouts.policies.load import is_missing_folder
from rollouts.runner import Limits
from summarization.prompts import STYLES, PromptStyle
from summarization.resolve import UserError, closest
from summarization.trigger import TokenBudget

STAGES = ("midtrain", "grpo", "eval")
# Their value is a sum over tokens divided by the tokens of the whole step, so it does not depend on how rows are cut.
LEFT_ALONE = {
    "top_entropy_quantile": (1.0, "which tokens it picks depends on how rows are cut"),
    "entropy_coef": (0.0, "TRL averages the entropy over rows, so cutting would change the loss"),
    "use_adaptive_entropy": (False, "TRL averages the entropy over rows, so cutting would change the loss"),
    "mask_truncated_completions": (False, "it looks at rows; for unfinished episodes, set unfinished: mask_loss"),
    "use_liger_kernel": (False, "its loss bypasses the one that is cut into micro-batches"),
    "use_vllm": (False, "episodes are sampled by the embedded transformers engine"),
    "top_k": (0, "episodes are sampled from the whole distribution, which the loss scores"),
    "top_p": (1.0, "episodes are sampled from the whole distribution, which the loss scores"),
    "min_p": (None, "episodes are sampled from the whole distribution, which the loss scores"),
    "repetition_penalty": (1.0, "episodes are sampled from the policy itself, which the loss scores"),
    "resume_from_checkpoint": (None, "a run goes on by itself from what is in its output_dir"),
    "eval_strategy": ("no", "held-out tasks are evaluated by eval_every"),
    "enable_jit_checkpoint": (False, "a run that is terminated goes on from its last checkpoint; set save_steps"),
    "save_only_model": (False, "without optimizer and random states a cut run could not go on"),
}
PRECISIONS = ("auto", "fp32", "bf16")
ADMITTED_LOSSES = ("dapo", "cispo")
# Evaluation episodes of at least this many words are few, since each takes long.
LONG_WORDS = 20_000
UNFINISHED = ("zero_reward", "mask_loss", "drop")


def refuse(field_name: str, value: object, remedy: str) -> None:
    """Raise the error that names a field, its value and what would be right."""
    raise UserError(f"{field_name} is {value!r}: {remedy}")


def _at_least(arguments: object, least: float, *names: str) -> None:
    for name in names:
        value = getattr(arguments, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < math.inf:
            refuse(name, value, f"must be a number of at least {least}")


def _shortest_and_longest(arguments: object, name: str) -> None:
    words = getattr(arguments, name)
    if len(words) != 2 or not all(isinstance(n, int) for n in words) or not 0 <= words[0] <= words[1]:
        refuse(name, words, "must be two whole numbers, the shortest and the longest, like [600, 800]")


@dataclass
class PolicyArguments:
    """Which model is trained."""

    policy: str = field(
        default="tiny",
        metadata={"help": "A hub id, a folder, `smollm2-135m`, or `tiny` (built on the spot, needs nothing)."},
    )
    policy_layers: int = field(default=3, metadata={"help": "Layers of the tiny policy."})
    policy_hidden: int = field(default=128, metadata={"help": "Hidden size of the tiny policy."})
    policy_seed: int = field(default=0, metadata={"help": "Seed of the tiny policy's first weights."})
    policy_dtype: str = field(
        default="float32",
        metadata={"help": "Type of the master weights; `bf16: true` runs forward passes in bfloat16."},
    )
    precision: str | None = field(
        default=None,
        metadata={
            "help": "`fp32`, `bf16`, or `auto`, which measures both at start-up, says what it found and takes the "
            "faster; null leaves it to the field `bf16`."
        },
    )
    policy_attention: str | None = field(
        default=None, metadata={"help": "`attn_implementation` of transformers; flash_attention_2 needs a GPU."}
    )
    frozen_policy: str | None = field(
        default=None,
        metadata={
            "help": "Writes the summaries of `frozen_summary`: a hub id or a folder with the policy's own tokenizer; "
            "by default the policy as GRPO found it."
        },
    )
    trust_policy_code: bool = field(default=False, metadata={"help": "Run code that comes with the model's files."})
    template_kwargs: dict[str, Any] = field(
        default_factory=dict, metadata={"help": "Passed to the chat template, such as `enable_thinking: false`."}
    )

    def __post_init__(self) -> None:
        _at_least(self, 1, "policy_layers", "policy_hidden")
        _at_least(self, 0, "policy_seed")
        if self.policy_hidden % 4:
            refuse("policy_hidden", self.policy_hidden, "must be a multiple of 4, the number of heads")
        if self.policy_dtype not in ("float32", "bfloat16"):
            refuse("policy_dtype", self.policy_dtype, closest(self.policy_dtype, ["float32", "bfloat16"]))
        if self.precision is not None and self.precision not in PRECISIONS:
            refuse("precision", self.precision, closest(self.precision, list(PRECISIONS)))
        for name, value in (("policy", self.policy), ("frozen_policy", self.frozen_policy or "")):
            if is_missing_folder(value):
                refuse(name, value, "there is no such folder; name a folder with a saved model or a hub id")


@dataclass
class EpisodeArguments:
    """What an episode happens in, and what bounds it."""

    environment: str = field(
        default="recall",
        metadata={"help": "A built-in name or `package.module:Name`: an Environment, or a class for TRL's factory."},
    )
    environments: dict[str, str] = field(
        default_factory=dict,
        metadata={"help": "Several instead of one, by what rows say in their column `environment`."},
    )
    environment_kwargs: dict[str, Any] = field(
        default_factory=dict, metadata={"help": "Passed to the environment; with `environments`, a mapping for each."}
    )
    train_file: str | None = field(
        default=None, metadata={"help": "Task rows as JSON lines; without it the environment's own tasks are drawn."}
    )
    task_kinds: list[str] = field(default_factory=lambda: ["find"], metadata={"help": "Kinds of generated tasks."})
    task_words: list[int] = field(
        default_factory=lambda: [600, 800], metadata={"help": "Shortest and longest training episode, in words."}
    )
    train_tasks: int = field(default=100_000, metadata={"help": "How many training tasks are drawn."})
    window: int = field(default=4096, metadata={"help": "Tokens that the policy's context may ever hold."})
    act_tokens: int = field(default=256, metadata={"help": "The most tokens of one act."})
    max_turns: int = field(default=0, metadata={"help": "The most acts of an episode; 0 for no limit."})
    max_compactions: int = field(default=0, metadata={"help": "The most compactions of an episode; 0 for no limit."})
    oversize: str = field(default="split", metadata={"help": "An observation too large for a window: split or cut."})
    episode_seconds: float = field(default=0.0, metadata={"help": "The longest an episode may take; 0 for no limit."})
    call_seconds: float = field(
        default=600.0, metadata={"help": "The longest a call into an environment with tools may take; 0 for no limit."}
    )
    max_idle: int = field(
        default=1_000_000, metadata={"help": "The most observations in a row that need no act; 0 for no limit."}
    )
    result_tokens: int = field(
        default=0, metadata={"help": "Kept free for what a call is answered; 0 is an eighth of the window."}
    )
    result_characters: int = field(
        default=50_000, metadata={"help": "The longest result of a tool, cut with a mark; 0 for no limit."}
    )
    ask_to_compact: bool = field(
        default=False, metadata={"help": "Offer the tool `compact_context`, where there are tools."}
    )
    sessions: int = field(default=128, metadata={"help": "Episodes that are sampled from at the same time."})

    def __post_init__(self) -> None:
        _at_least(self, 1, "train_tasks", "window", "act_tokens", "sessions")
        _at_least(self, 0, "max_turns", "max_compactions", "episode_seconds", "call_seconds")
        _at_least(self, 0, "max_idle", "result_tokens", "result_characters")
        if self.environments and self.environment != "recall":
            refuse("environment", self.environment, "the YAML also names environments; leave one of the two out")
        for name, path in self.environments.items():
            if not isinstance(name, str) or not isinstance(path, str):
                refuse("environments", self.environments, "must map what rows say to names such as package.module:Name")
            if not isinstance(self.environment_kwargs.get(name, {}), dict):
                refuse("environment_kwargs", self.environment_kwargs, f"'{name}' must be a mapping")
        if self.oversize not in ("split", "cut"):
            refuse("oversize", self.oversize, closest(self.oversize, ["split", "cut"]))
        _shortest_and_longest(self, "task_words")
        if self.train_file is not None and not Path(self.train_file).is_file():
            refuse("train_file", self.train_file, "there is no such file")

    def limits(self, keep_segments: bool = True) -> Limits:
        """The bounds of one episode."""
        return Limits(
            window=self.window,
            act_tokens=self.act_tokens,
            max_turns=self.max_turns,
            max_compactions=self.max_compactions,
            oversize=self.oversize,
            seconds=self.episode_seconds,
            call_seconds=self.call_seconds,
            max_idle=self.max_idle,
            result_tokens=self.result_tokens,
            result_characters=self.result_characters,
            ask_to_compact=self.ask_to_compact,
            keep_segments=keep_segments,
        )


@dataclass
class CompactionArguments:
    """How the context is compacted."""

    strategy: str = field(default="self_summary", metadata={"help": "A built-in name or `package.module:Name`."})
    summary_tokens: int = field(default=1024, metadata={"help": "The most tokens of one summary, scratch included."})
    keep_last: int = field(default=0, metadata={"help": "Messages kept verbatim after the summary."})
    trigger_low: float = field(
        default=1.0, metadata={"help": "Smallest share of the window at which a compaction may be due."}
    )
    trigger_high: float = field(default=1.0, metadata={"help": "Largest such share; above `trigger_low` it is drawn."})
    prompt_style: str = field(default="default", metadata={"help": "The words around a compaction: default or tiny."})

    def __post_init__(self) -> None:
        _at_least(self, 1, "summary_tokens")
        _at_least(self, 0, "keep_last")
        if self.prompt_style not in STYLES:
            refuse("prompt_style", self.prompt_style, closest(self.prompt_style, STYLES))
        try:
            self.trigger()
        except ValueError as error:
            raise UserError(f"trigger_low, trigger_high: {error}") from error

    def trigger(self) -> TokenBudget:
        """When a compaction is due."""
        return TokenBudget(self.trigger_low, self.trigger_high)

    def style(self) -> PromptStyle:
        """The words around a compaction."""
        return STYLES[self.prompt_style]


@dataclass
class CreditArguments:
    """How rewards become advantages."""

    credit: str = field(default="joint", metadata={"help": "A built-in credit rule or `package.module:Name`."})
    unfinished: str = field(
        default="zero_reward",
        metadata={"help": "Episodes that did not finish: zero_reward, mask_loss (baseline only) or drop."},
    )
    summary_length_penalty: float = field(default=0.0, metadata={"help": "Taken from the reward per summary token."})
    malformed_penalty: float = field(default=0.0, metadata={"help": "Taken from the reward per malformed summary."})
    length_penalty: float = field(
        default=0.0, metadata={"help": "Weight of a concave penalty on all tokens sampled in an episode."}
    )
    length_penalty_scale: float = field(default=0.001, metadata={"help": "Its k: 1 / tokens at which it bends."})
    length_penalty_power: float = field(default=0.5, metadata={"help": "Its q: 0 is linear, 1 logarithmic."})

    def __post_init__(self) -> None:
        _at_least(self, 0, "summary_length_penalty", "malformed_penalty", "length_penalty", "length_penalty_power")
        if not 0 < self.length_penalty_scale < math.inf:
            refuse("length_penalty_scale", self.length_penalty_scale, "must be a number above 0")
        if self.unfinished not in UNFINISHED:
            refuse("unfinished", self.unfinished, closest(self.unfinished, list(UNFINISHED)))


@dataclass
class StageArguments:
    """What a run consists of."""

    stages: list[str] = field(default_factory=lambda: ["grpo"], metadata={"help": "Of midtrain, grpo, eval; in order."})
    midtrain_span_steps: int = field(
        default=0, metadata={"help": "Steps on repeated spans, which form the copy circuit."}
    )
    midtrain_steps: int = field(default=0, metadata={"help": "Steps on demonstrations."})
    midtrain_short_steps: int = field(
        default=0,
        metadata={"help": "How many of `midtrain_steps`, the first, use windows of half the size: cheaper and easier."},
    )
    midtrain_batch: int = field(default=48, metadata={"help": "Demonstrations a step."})
    midtrain_span_batch: int = field(default=96, metadata={"help": "Repeated spans a step."})
    midtrain_learning_rate: float = field(default=3e-3, metadata={"help": "Peak learning rate of mid-training."})
    midtrain_expert_share: float = field(
        default=0.35, metadata={"help": "Share of demonstrated summaries that keep what the task needs."}
    )
    midtrain_drill_share: float = field(
        default=0.6, metadata={"help": "Share of demonstrations that practise lookups."}
    )
    midtrain_words: list[int] = field(
        default_factory=lambda: [100, 700], metadata={"help": "Shortest and longest demonstration, in words."}
    )
    midtrain_least_accuracy: float = field(
        default=0.9, metadata={"help": "Copy and lookup accuracy below which GRPO is not started."}
    )
    eval_lengths: list[int] = field(
        default_factory=list, metadata={"help": "Lengths of evaluation episodes, in words."}
    )
    eval_tasks: list[int] = field(
        default_factory=lambda: [64], metadata={"help": "Held-out tasks of each length, or one number for all of them."}
    )
    eval_baseline_factor: int = field(
        default=5, metadata={"help": "The untrained baseline's summary budget, in multiples of `summary_tokens`."}
    )
    eval_temperature: float = field(default=0.0, metadata={"help": "Sampling temperature of evaluations; 0 is greedy."})
    eval_every: int = field(
        default=0, metadata={"help": "GRPO steps between evaluations on held-out tasks; 0 for none."}
    )
    save_transcripts: int = field(default=0, metadata={"help": "Episodes of the last batch that are saved as text."})

    def __post_init__(self) -> None:
        if not self.stages:
            refuse("stages", self.stages, f"must name some of {', '.join(STAGES)}")
        for stage in self.stages:
            if stage not in STAGES:
                refuse("stages", stage, closest(stage, list(STAGES)))
        if [s for s in STAGES if s in self.stages] != list(self.stages):
            refuse("stages", self.stages, f"must be in the order {', '.join(STAGES)}, each at most once")
        _at_least(
            self,
            0,
            "midtrain_span_steps",
            "midtrain_steps",
            "midtrain_short_steps",
            "eval_temperature",
            "eval_every",
            "save_transcripts",
        )
        if self.midtrain_short_steps > self.midtrain_steps:
            refuse("midtrain_short_steps", self.midtrain_short_steps, "must be at most midtrain_steps")
        _at_least(self, 1, "midtrain_batch", "midtrain_span_batch", "eval_baseline_factor")
        if not 0 < self.midtrain_learning_rate < math.inf:
            refuse("midtrain_learning_rate", self.midtrain_learning_rate, "must be a number above 0")
        for name in ("midtrain_expert_share", "midtrain_drill_share", "midtrain_least_accuracy"):
            if not 0 <= getattr(self, name) <= 1:
                refuse(name, getattr(self, name), "must be a share between 0 and 1")
        _shortest_and_longest(self, "midtrain_words")
        if any(length < 1 for length in self.eval_lengths):
            refuse("eval_lengths", self.eval_lengths, "each must be at least 1 word")
        if len(self.eval_tasks) not in (1, len(self.eval_lengths)) or any(count < 1 for count in self.eval_tasks):
            refuse(
                "eval_tasks", self.eval_tasks, "must be one number of at least 1, or one for each entry of eval_lengths"
            )
        if "midtrain" in self.stages and not self.midtrain_steps:
            refuse("midtrain_steps", self.midtrain_steps, "stage 'midtrain' needs at least 1 step")
        if "eval" in self.stages and not self.eval_lengths:
            refuse("eval_lengths", self.eval_lengths, "stage 'eval' needs at least one length, such as [700, 5600]")


@dataclass
class TrainingConfig(GRPOConfig):
    """TRL's ``GRPOConfig`` with the defaults of this recipe, and refusals of what would break its laws."""

    loss_type: str = field(default="dapo", metadata={"help": "A loss that divides by the tokens of the whole step."})
    scale_rewards: str = field(default="none", metadata={"help": "`none`: advantages are not divided by a deviation."})
    beta: float = field(default=0.0, metadata={"help": "Weight of the KL term."})
    token_budget: int = field(
        default=16384, metadata={"help": "Tokens, padding included, of one forward and backward pass in training."}
    )
    skip_idle_rows: bool = field(
        default=True,
        metadata={"help": "Rows whose advantages are all zero are not forwarded (entropy leaves them out)."},
    )
    share_prefixes: bool = field(
        default=True,
        metadata={
            "help": "What the rows of a task share (its prompt, and up to the first sample all else) is forwarded once "
            "in training, where the model and the launch allow it."
        },
    )
    importance_correction: str = field(
        default="none", metadata={"help": "`token`: truncated importance weights, trainer over sampler; or `none`."}
    )
    importance_cap: float = field(default=2.0, metadata={"help": "Where importance weights are truncated."})

    def __post_init__(self) -> None:
        if self.loss_type not in ADMITTED_LOSSES:
            refuse(
                "loss_type",
                self.loss_type,
                f"it counts rows, so cutting an episode into segments would change the loss; use one of "
                f"{', '.join(ADMITTED_LOSSES)}",
            )
        if self.num_generations is None or self.num_generations < 2:
            refuse("num_generations", self.num_generations, "a group needs at least 2 episodes to have a baseline")
        if self.scale_rewards not in ("none", "group"):
            refuse("scale_rewards", self.scale_rewards, "baseline and deviation are of one group; use none or group")
        if not self.output_dir or not str(self.output_dir).strip():
            refuse("output_dir", self.output_dir, "name the folder that keeps the run, such as runs/my-run")
        _at_least(self, 1, "token_budget", "per_device_train_batch_size", "gradient_accumulation_steps")
        _at_least(self, 1, "num_iterations", "save_steps", "logging_steps")
        _at_least(self, 0, "beta", "learning_rate", "weight_decay", "seed", "epsilon", "warmup_steps", "max_grad_norm")
        for name in ("epsilon_high", "delta", "data_seed"):
            if getattr(self, name) is not None:
                _at_least(self, 0, name)
        for name in ("steps_per_generation", "generation_batch_size", "save_total_limit"):
            if getattr(self, name) is not None:
                _at_least(self, 1, name)
        if not self.max_steps > 0 and not 0 < self.num_train_epochs < math.inf:
            refuse("num_train_epochs", self.num_train_epochs, "must be a number above 0 where max_steps is not set")
        if not all(0 <= beta < 1 for beta in (self.adam_beta1, self.adam_beta2)):
            refuse("adam_beta1, adam_beta2", (self.adam_beta1, self.adam_beta2), "must be at least 0 and below 1")
        if not 0 < self.temperature < math.inf:
            refuse("temperature", self.temperature, "the loss divides by it, and sampling must vary; set it above 0")
        if not self.importance_cap > 0:
            refuse("importance_cap", self.importance_cap, "must be a number above 0")
        for name, (only, reason) in LEFT_ALONE.items():
            if getattr(self, name) != only:
                refuse(name, getattr(self, name), f"{reason}; leave it at {only!r}")
        if self.importance_correction not in ("none", "token"):
            refuse(
                "importance_correction",
                self.importance_correction,
                closest(self.importance_correction, ["none", "token"]),
            )
        super().__post_init__()
