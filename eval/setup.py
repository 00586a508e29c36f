"""From an evaluation's arguments to what plays its episodes: engines, environments, strategies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch

from eval.arguments import FULL_CONTEXT, MOST_FREQUENT, NO_CONTEXT, SHUFFLED_SUMMARY, WAYS, EvalArguments
from eval.reading import Reading
from rollouts.engine import Engine, SampleRequest, sample
from rollouts.engines.openai import OpenAIEngine
from rollouts.engines.transformers import TransformersEngine
from rollouts.environment import Environment
from rollouts.episode import TurnKind
from rollouts.policies.load import TINY, Policy, build_tiny, load_policy, load_tokenizer
from rollouts.rendering import Renderer
from rollouts.runner import Limits
from summarization.messages import Message
from summarization.prompts import STYLES
from summarization.resolve import UserError, closest, resolve
from summarization.strategies import BUILTIN as STRATEGIES
from summarization.strategies import NoCompaction, Strategy

ENGINES = {
    "transformers": "eval.setup:transformers_engine",
    "openai": "eval.setup:openai_engine",
}


@dataclass(frozen=True)
class Way:
    """How the episodes of one strategy are played.

    Attributes:
        kind: What the name of the strategy stands for.
        strategy: How the context is compacted; of ``shuffled_summary``, the one whose summaries it carries.
        limits: The window and the other limits.
        environment: Makes an environment.
        reads: Whether pages are delivered.
    """

    kind: str
    strategy: Strategy
    limits: Limits
    environment: Callable[[], Environment]
    reads: bool

    def fits(self, length: int) -> bool:
        """Whether a sample of so many tokens can be played at all: without compaction, it must fit into the window."""
        return self.strategy.name != "none" or not self.reads or length <= self.limits.window

    @property
    def plays(self) -> bool:
        """Whether a policy plays it."""
        return self.kind != MOST_FREQUENT

    def cost(self, length: int) -> int:
        """Of one sample, in tokens of pages; what a file's rows have (length 0) is not known beforehand."""
        return length if self.reads else 0


class Setup:
    """What an evaluation plays with; models are loaded once, when they are first asked for.

    Args:
        arguments: Of the evaluation.
        on_page: Called with the tokens of each page that is delivered, for progress.

    Raises:
        UserError: The policy cannot be loaded, or the engine is unknown.
    """

    def __init__(self, arguments: EvalArguments, on_page: Callable[[int], None] | None = None) -> None:
        self.arguments, self.on_page = arguments, on_page
        self.tokenizer = load_tokenizer(arguments.policy, arguments.trust_policy_code)
        self.renderer = Renderer(self.tokenizer, template_kwargs=arguments.template_kwargs)
        self._make_engine = resolve(arguments.engine, ENGINES, "engine")
        self._policies: dict[str, Policy] = {}
        self._engines: dict[tuple[str, int], Engine] = {}

    def policy(self, name: str) -> Policy:
        """The model that a name stands for."""
        a = self.arguments
        if name not in self._policies:
            self._policies[name] = (
                build_tiny(a.seed)
                if name == TINY
                else load_policy(name, a.policy_dtype, a.policy_attention, a.trust_policy_code)
            )
        return self._policies[name]

    def way(self, name: str) -> Way:
        """How episodes of the strategy ``name`` are played.

        Raises:
            UserError: The strategy does not take its options.
        """
        a = self.arguments
        kind, options = a.strategy(name)
        reading: dict[str, Any] = {
            "page_tokens": a.page_tokens,
            "haystack": a.haystack,
            "blank": kind in (NO_CONTEXT, MOST_FREQUENT),
            "on_page": self.on_page,
        }
        window = self.full_window() if kind == FULL_CONTEXT else a.window
        if kind == SHUFFLED_SUMMARY:
            source = a.source_of(name)
            strategy = self._strategy(source, *a.strategy(source))
        elif kind in WAYS:
            strategy = NoCompaction()
        else:
            strategy = self._strategy(name, kind, options)
        limits = Limits(window=window, act_tokens=a.act_tokens, oversize=a.oversize, keep_segments=False)
        reads = kind not in (NO_CONTEXT, MOST_FREQUENT)
        return Way(kind, strategy, limits, lambda: Reading(self.renderer.count, **reading), reads)

    def room(self, request: Message) -> int:
        """Tokens that asking for a summary takes beside the summary, as the runner keeps them free."""
        r = self.renderer
        return len(r.appended((request,))) + len(r.generation_ids) + len(r.closing_ids)

    def full_window(self) -> int:
        """The window of ``full_context``."""
        if self.arguments.full_window:
            return self.arguments.full_window
        if self.arguments.engine != "transformers":
            raise UserError("full_window is 0: name the model's limit, which an engine elsewhere does not tell")
        return int(getattr(self.policy(self.arguments.policy).model.config, "max_position_embeddings", 0)) or 8192

    def engines(self, way: Way) -> Mapping[str, Engine]:
        """The engines that play a way, by sampler name."""
        found = {"policy": self._engine(self.arguments.policy, way.limits.window)}
        if way.strategy.sampler == "frozen":
            found["frozen"] = self._engine(self.arguments.frozen_policy or self.arguments.policy, way.limits.window)
        return found

    def check_endpoint(self) -> None:
        """Ask an endpoint for a few tokens, before anything is played.

        Raises:
            UserError: It does not answer.
        """
        a = self.arguments
        if a.engine != "openai":
            return
        settings = dict(a.engine_kwargs)
        if settings.get("max_retries") not in (0, 1):
            # Whoever looks on does not wait for all the attempts that a long run is worth.
            settings["max_retries"] = 1 if isinstance(settings.get("max_retries", 1), int) else settings["max_retries"]
        names = {a.policy}
        if any(a.strategy(name)[0] == "frozen_summary" for name in a.strategies):
            names.add(a.frozen_policy or a.policy)
        messages = (Message("system", "Answer briefly."), Message("user", "Say yes."))
        ids = (*self.renderer.opening(messages), *self.renderer.generation_ids)
        for name in sorted(names):
            engine = self._make_engine(self, name, a.window, **settings)
            request = SampleRequest("check", ids, min(16, a.act_tokens), TurnKind.ACT, messages=messages)
            try:
                sample(engine, [request])
            except RuntimeError as error:
                reason = str(error).removeprefix("session check: ")
                raise UserError(f"engine_kwargs: {reason}: start the endpoint, or correct base_url") from error

    def _engine(self, name: str, window: int) -> Engine:
        if (name, window) not in self._engines:
            self._engines[name, window] = self._make_engine(self, name, window, **self.arguments.engine_kwargs)
        return self._engines[name, window]

    def _strategy(self, name: str, kind: str, options: Mapping[str, Any]) -> Strategy:
        a = self.arguments
        made = resolve(kind, STRATEGIES, "strategy")
        known = {field.name for field in fields(made)}
        settings: dict[str, Any] = {"style": STYLES[a.prompt_style]}
        # A strategy that never asks for a summary keeps no room for one.
        if getattr(made, "summary_tokens", None) != 0:
            settings["summary_tokens"] = a.summary_tokens
        for option in options:
            if option not in known:
                raise UserError(f"strategy_options: '{name}' has no option '{option}'; {closest(option, list(known))}")
        try:
            return made(**{**{key: value for key, value in settings.items() if key in known}, **options})
        except (TypeError, ValueError) as error:
            raise UserError(f"strategy_options: {name}: {error}") from error


def transformers_engine(setup: Setup, name: str, window: int, **settings: Any) -> Engine:
    """The embedded engine, on the GPU where there is one."""
    known = ("bf16", "prefill_tokens")
    for option in settings:
        if option not in known:
            raise UserError(f"engine_kwargs: engine 'transformers' has no '{option}'; {closest(option, list(known))}")
    a = setup.arguments
    policy = setup.policy(name)
    if policy.tokenizer.get_vocab() != setup.tokenizer.get_vocab():
        raise UserError(f"frozen_policy is '{name}': its tokenizer differs from the policy's; name one that shares it")
    policy.model.to("cuda" if torch.cuda.is_available() else "cpu").eval()  # pyright: ignore[reportArgumentType]
    return TransformersEngine(
        policy.model,
        window=window,
        stop_ids=setup.renderer.stop_ids,
        temperature=a.temperature,
        max_sessions=a.sessions,
        seed=a.seed,
        prefill_tokens=settings.get("prefill_tokens"),
        autocast=torch.bfloat16 if settings.get("bf16") else None,
    )


OPENAI_SETTINGS = (
    "base_url",
    "model",
    "api",
    "api_key_env",
    "max_retries",
    "timeout",
    "requests_per_minute",
    "price_in",
    "price_out",
    "extra",
)


def openai_engine(setup: Setup, name: str, window: int, **settings: Any) -> Engine:
    """An endpoint elsewhere, which knows its own window. A frozen policy is the model ``frozen_model`` there.

    Under api ``completions`` both models read the same token ids, so their tokenizers must agree.
    """
    a = setup.arguments
    known = [*OPENAI_SETTINGS, "frozen_model"]
    for option in settings:
        if option not in known:
            raise UserError(f"engine_kwargs: engine 'openai' has no '{option}'; {closest(option, known)}")
    for option in ("base_url", "model"):
        if option not in settings:
            raise UserError(f"engine_kwargs: engine 'openai' needs '{option}': set it to the endpoint's")
    frozen_model = settings.pop("frozen_model", None)
    if frozen_model is not None and a.frozen_policy in (None, a.policy):
        raise UserError(
            f"engine_kwargs: frozen_model is '{frozen_model}', but frozen_policy names no other policy: set it to the "
            "frozen model's hub id or folder, whose tokenizer is compared"
        )
    if name != a.policy:
        if frozen_model is None:
            raise UserError(f"frozen_policy is '{name}': set frozen_model in engine_kwargs to its name at the endpoint")
        settings["model"] = frozen_model
        if settings.get("api") != "chat":
            tokenizer = load_tokenizer(name, a.trust_policy_code)
            if tokenizer.get_vocab() != setup.tokenizer.get_vocab():
                raise UserError(
                    f"frozen_policy is '{name}': its tokenizer differs from the policy's; name one that shares it, "
                    "or set api to chat in engine_kwargs"
                )
    return OpenAIEngine(setup.renderer, **settings, temperature=a.temperature, max_sessions=a.sessions, seed=a.seed)
