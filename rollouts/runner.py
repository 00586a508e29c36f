"""One episode, as a generator: it yields sample requests, is sent completions, and returns an :class:`Episode`.

Whoever drives it (``collect``, a server, a test) decides where samples come from; the loop itself has no modes.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rollouts.engine import Completion, EngineFailure, SampleRequest
from rollouts.environment import Environment, Observation
from rollouts.episode import Compaction, Episode, Finish, Segment, Status, TurnKind
from rollouts.rendering import Renderer
from rollouts.window import Window
from summarization.messages import Message
from summarization.metrics import held
from summarization.parse import parse_summary
from summarization.prompts import Progress
from summarization.resolve import UserError
from summarization.strategies import ContextState, Strategy

TRUNCATION_MARK = " [... cut: too large for the window ...]"
INEFFECTIVE_IN_A_ROW = 2


@dataclass(frozen=True)
class Limits:
    """What bounds an episode.

    Attributes:
        window: W, the most tokens the context may ever hold.
        act_tokens: The most tokens of one act.
        max_turns: The most acts; 0 for no limit.
        max_compactions: The most compactions; 0 for no limit.
        oversize: What happens to an observation too large for a fresh window: ``split`` or ``cut``.
        seconds: The longest an episode may take; 0 for no limit.
        keep_segments: Whether the episode keeps its token ids (training needs them; a long evaluation does not).
    """

    window: int = 4096
    act_tokens: int = 256
    max_turns: int = 0
    max_compactions: int = 0
    oversize: str = "split"
    seconds: float = 0.0
    keep_segments: bool = True

    def __post_init__(self) -> None:
        for name in ("window", "act_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, must be at least 1")
        if self.oversize not in ("split", "cut"):
            raise ValueError(f"oversize is '{self.oversize}', must be 'split' or 'cut'")


@dataclass(frozen=True)
class Job:
    """One episode to play.

    Attributes:
        task: The dataset row.
        task_id: Identity of the task.
        attempt: Index within the group.
        environment: Makes the environment.
        strategy: How the context is compacted.
        seed: Of the run; with task and attempt it determines every draw.
    """

    task: Mapping[str, Any]
    task_id: str
    attempt: int
    environment: Callable[[], Environment]
    strategy: Strategy
    seed: int = 0

    @property
    def key(self) -> str:
        """Names the episode among all of the run."""
        return f"{self.task_id}#{self.attempt}"


class _Ended(Exception):
    """The episode cannot go on."""

    def __init__(self, status: Status, reason: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


Play = Generator[SampleRequest, "Completion | EngineFailure", Episode]


def play(job: Job, renderer: Renderer, limits: Limits) -> Play:
    """Play one episode.

    Raises:
        UserError: The task row lacks what the environment needs, or the window cannot hold the opening and the reserve.
    """
    episode = _Running(job, renderer, limits)
    status, reason = Status.FINISHED, None
    try:
        observation = episode.start()
        while not observation.done:
            yield from episode.deliver(observation)
            act = (yield from episode.act(observation.answer_prefix)) if observation.needs_act else None
            observation = episode.advance(act)
    except _Ended as end:
        status, reason = end.status, end.reason
    return episode.finish(status, reason)


@dataclass
class _Running:
    """The state of one episode while it is played."""

    job: Job
    renderer: Renderer
    limits: Limits
    segments: list[Segment] = field(default_factory=list)
    compactions: list[Compaction] = field(default_factory=list)
    acts: deque[str] = field(default_factory=deque)
    turns: int = 0
    act_count: int = 0
    windows: int = 1
    tokens_before_window: int = 0
    forwarded: int = 0
    sampled: dict[TurnKind, int] = field(default_factory=lambda: {TurnKind.ACT: 0, TurnKind.SUMMARY: 0})
    cut_off: dict[TurnKind, int] = field(default_factory=lambda: {TurnKind.ACT: 0, TurnKind.SUMMARY: 0})
    peak: int = 0
    ineffective: int = 0
    reserve: int = 0
    needed: tuple[str, ...] = ()
    delivered: list[str] = field(default_factory=list)
    reward: float | None = None

    def start(self) -> Observation:
        """Reset the environment and open the first window."""
        self.began = time.monotonic()
        self.environment = self.job.environment()
        if not self.limits.keep_segments:
            self.acts = deque(maxlen=16)
        observation = self._ask(lambda: self.environment.reset(self.job.task))
        self.opening = observation.messages
        prompt_ids = self.renderer.opening(self.opening)
        if len(prompt_ids) >= self.limits.window:
            raise UserError(
                f"window is {self.limits.window} tokens, but the opening alone takes {len(prompt_ids)}: set window far "
                "above it"
            )
        self.window = Window(self.renderer, self.limits.window, prompt_ids)
        self.reserve = self._reserve()
        needed = self.window.in_use + self.reserve + self.job.strategy.summary_tokens
        if needed >= self.limits.window:
            raise UserError(
                f"window is {self.limits.window} tokens, but the opening ({self.window.in_use}), one carried summary "
                f"({self.job.strategy.summary_tokens}) and the reserve for request, summary and act ({self.reserve}) "
                f"take {needed}: set window above {needed}, or lower summary_tokens or act_tokens"
            )
        return replace(observation, messages=())

    def deliver(self, observation: Observation) -> Generator[SampleRequest, Completion | EngineFailure, None]:
        """Append an observation, compacting before it where the strategy says so."""
        if not observation.messages:
            if self.job.strategy.due(self._state(0)):
                yield from self.compact(0)
            self.needed = tuple(self._ask(self.environment.needed))
            return
        pending = deque([observation.messages])
        self.delivered = []
        prefix = self.renderer.count(observation.answer_prefix) if observation.answer_prefix else 0
        while pending:
            messages = pending.popleft()
            ids = self.renderer.appended(messages)
            fresh = self.window.in_use == len(self.window.prompt_ids)
            if not fresh and self.job.strategy.due(self._state(len(ids) + prefix)):
                yield from self.compact(len(ids) + prefix)
            room = self.limits.window - self.window.in_use - self.reserve - prefix
            if len(ids) > room:
                if self.job.strategy.name == "none":
                    raise _Ended(Status.WINDOW_OVERFLOW)
                pending.extendleft(reversed(self._fit(messages, room)))
                continue
            self.window.append(messages, ids)
            self.delivered += [message.content for message in messages]
        self.needed = tuple(self._ask(self.environment.needed))

    def act(self, prefix: str = "") -> Generator[SampleRequest, Completion | EngineFailure, str]:
        """Sample an act, which begins with ``prefix``."""
        if self.limits.max_turns and self.act_count >= self.limits.max_turns:
            raise _Ended(Status.OUT_OF_TURNS)
        self.act_count += 1
        text = yield from self._sample(TurnKind.ACT, self.limits.act_tokens, "policy", prefix)
        self.window.close_turn(text)
        self.acts.append(text)
        return text

    def compact(self, incoming: int) -> Generator[SampleRequest, Completion | EngineFailure, None]:
        """Close the window and open the next."""
        strategy = self.job.strategy
        if self.limits.max_compactions and len(self.compactions) >= self.limits.max_compactions:
            raise _Ended(Status.OUT_OF_COMPACTIONS)
        before = self.window.in_use
        state = self._state(incoming)
        request = strategy.request(state)
        reply = None
        if request is not None:
            self.window.append((request,), self.renderer.appended((request,)))
            text = yield from self._sample(TurnKind.SUMMARY, strategy.summary_tokens, strategy.sampler)
            reply = parse_summary(text, self.window.turns[-1].finish is Finish.LENGTH)
        last = self.window.turns[-1] if request is not None else None
        self._close_window()
        needed = self._needed_so_far()
        messages = strategy.reopen(self._state(incoming, state, len(self.compactions) + 1, needed), reply)
        self._open_window(messages)
        carried = "\n".join(message.content for message in messages[len(self.opening) :])
        self.compactions.append(
            Compaction(
                segment=self.windows - 2,
                tokens_before=before,
                tokens_after=self.window.in_use,
                summary=reply.text if reply else "",
                summary_tokens=len(last.sampled_ids) if last else 0,
                malformed=bool(reply and reply.malformed),
                cut_off=bool(reply and reply.cut_off),
                needed=needed,
                kept=tuple(held(fact, carried) for fact in needed),
                tokens_seen=self.tokens_before_window,
            )
        )
        self.ineffective = self.ineffective + 1 if self.window.in_use >= before else 0
        if self.ineffective >= INEFFECTIVE_IN_A_ROW:
            raise _Ended(Status.INEFFECTIVE_COMPACTION)

    def advance(self, act: str | None) -> Observation:
        """Step the environment."""
        if self.limits.seconds and time.monotonic() - self.began > self.limits.seconds:
            raise _Ended(Status.TIMED_OUT)
        return self._ask(lambda: self.environment.advance(act))

    def finish(self, status: Status, reason: str | None) -> Episode:
        """Score the episode and close the environment."""
        if status is not Status.ENVIRONMENT_ERROR:
            try:
                self.reward = self._ask(self.environment.reward)
            except _Ended as end:
                status, reason = end.status, end.reason
        metrics: dict[str, float] = {}
        if hasattr(self, "window"):
            self._close_window()
            metrics = self._metrics()
        self.environment.close()
        return Episode(
            task=self.job.task,
            task_id=self.job.task_id,
            attempt=self.job.attempt,
            segments=tuple(self.segments),
            compactions=tuple(self.compactions),
            reward=self.reward,
            status=status,
            metrics=metrics,
            error=reason,
            acts=tuple(self.acts),
        )

    def _metrics(self) -> dict[str, float]:
        return {
            "acts": self.act_count,
            "compactions": len(self.compactions),
            "act_tokens": self.sampled[TurnKind.ACT],
            "summary_tokens": self.sampled[TurnKind.SUMMARY],
            "cut_off_acts": self.cut_off[TurnKind.ACT],
            "cut_off_summaries": self.cut_off[TurnKind.SUMMARY],
            "tokens_forwarded": self.forwarded,
            "peak_context": self.peak,
            "seconds": time.monotonic() - self.began,
            **{f"environment/{name}": float(value) for name, value in self.environment.metrics().items()},
        }

    def _sample(
        self, kind: TurnKind, max_tokens: int, sampler: str, prefix: str = ""
    ) -> Generator[SampleRequest, Completion | EngineFailure, str]:
        self.window.open_turn(prefix)
        session = f"{self.job.key}/{self.windows - 1}"
        messages = (*self.opening, *self.window.messages)
        outcome = yield SampleRequest(
            session, list(self.window.ids), max_tokens, kind, sampler, self.job.seed, messages, prefix
        )
        if isinstance(outcome, EngineFailure):
            raise _Ended(Status.ENGINE_ERROR, outcome.reason)
        self.turns += 1
        self.sampled[kind] += len(outcome.token_ids)
        self.cut_off[kind] += outcome.finish is Finish.LENGTH
        return self.window.sampled(outcome, kind, trained=sampler == "policy")

    def _state(
        self,
        incoming: int,
        closed: ContextState | None = None,
        compactions: int | None = None,
        needed: tuple[str, ...] = (),
    ) -> ContextState:
        """What the strategy sees; with ``closed``, the window as it stood before the request was appended."""
        turns_left = self.limits.max_turns - self.act_count if self.limits.max_turns else None
        return ContextState(
            window=self.limits.window,
            in_use=closed.in_use if closed else self.window.in_use,
            incoming=incoming,
            reserve=self.reserve,
            opening=self.opening,
            messages=closed.messages if closed else tuple(self.window.messages),
            message_tokens=closed.message_tokens if closed else tuple(self.window.message_tokens),
            task_text=self.environment.task_text(),
            seed=self.job.seed,
            task_id=self.job.task_id,
            progress=Progress(
                compactions=len(self.compactions) if compactions is None else compactions,
                turns=self.turns,
                tokens=self.tokens_before_window + (0 if closed else self.window.in_use),
                turns_left=turns_left,
                keep=self.environment.keep(),
            ),
            needed=needed,
        )

    def _reserve(self) -> int:
        """Tokens to keep free: one act, then the request and its summary, with what the template writes around them."""
        around = len(self.renderer.generation_ids) + len(self.renderer.closing_ids)
        reserve = around + self.limits.act_tokens
        request = self.job.strategy.request(self._state(0))
        if request is not None:
            reserve += len(self.renderer.appended((request,))) + around + self.job.strategy.summary_tokens
        return reserve

    def _close_window(self) -> None:
        if self.limits.keep_segments:
            self.segments.append(self.window.segment())
        self.peak = max(self.peak, self.window.in_use)
        self.forwarded += self.window.in_use
        self.tokens_before_window += self.window.in_use - len(self.window.prompt_ids)

    def _open_window(self, messages: tuple[Message, ...]) -> None:
        prompt_ids, carried = self.renderer.opening(messages), messages[len(self.opening) :]
        self.window = Window(self.renderer, self.limits.window, prompt_ids, carried)
        self.windows += 1
        self.reserve = self._reserve()

    def _fit(self, messages: tuple[Message, ...], room: int) -> list[tuple[Message, ...]]:
        """Cut an observation into parts that fit into ``room`` tokens, or keep only its first part, marked."""
        around = max(len(self.renderer.appended((Message(m.role, "", m.name),))) for m in messages)
        mark = self.renderer.count(TRUNCATION_MARK) if self.limits.oversize == "cut" else 0
        most = room - around - mark
        if most < 1:
            raise _Ended(Status.WINDOW_OVERFLOW, f"only {room} tokens are free in a fresh window")
        parts = [part for message in messages for part in self.renderer.split(message, most)]
        if self.limits.oversize == "cut":
            first = parts[0]
            return [(Message(first.role, first.content + TRUNCATION_MARK, first.name),)]
        return [(part,) for part in parts]

    def _needed_so_far(self) -> tuple[str, ...]:
        """Needed facts that the policy was shown; the environment may have read on to what is still to be delivered."""
        shown = "\n".join(self.delivered)
        now = tuple(self._ask(self.environment.needed)) if shown else ()
        arrived = [fact for fact in now if fact not in self.needed and held(fact, shown)]
        return tuple(fact for fact in now if fact in self.needed or fact in arrived) if arrived else self.needed

    def _ask(self, call: Callable[[], Any]) -> Any:
        """Call the environment; what it raises becomes the episode's status."""
        try:
            return call()
        except UserError:
            raise
        except Exception as error:
            raise _Ended(Status.ENVIRONMENT_ERROR, f"{type(error).__name__}: {error}") from error
