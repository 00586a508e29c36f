"""One episode, as a generator: it yields sample requests, is sent completions, and returns an :class:`Episode`.

Whoever drives it (``collect``, a server, a test) decides where samples come from; the loop itself has no modes.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import Any

from rollouts.calls import Caller, Waiting
from rollouts.checks import (
    WrongAnswer,
    checked_facts,
    checked_metrics,
    checked_observation,
    checked_reward,
    checked_text,
    shown,
)
from rollouts.engine import Completion, EngineFailure, SampleRequest
from rollouts.environment import Environment, Observation
from rollouts.episode import Compaction, Episode, Finish, Segment, Status, TurnKind
from rollouts.limits import Job as Job
from rollouts.limits import Limits as Limits
from rollouts.rendering import Renderer
from rollouts.tools import FORMATS, ToolSettings
from rollouts.window import Window
from summarization.messages import Message
from summarization.metrics import held
from summarization.parse import parse_summary
from summarization.prompts import Progress
from summarization.resolve import UserError
from summarization.strategies import ContextState

TRUNCATION_MARK = " [... cut: too large for the window ...]"
INEFFECTIVE_IN_A_ROW = 2


class _Ended(Exception):
    """The episode cannot go on."""

    def __init__(self, status: Status, reason: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


Outcome = Completion | EngineFailure | None
Steps = Generator[SampleRequest | Waiting, Outcome, Any]
Play = Generator[SampleRequest | Waiting, Outcome, Episode]


def play(job: Job, renderer: Renderer, limits: Limits) -> Play:
    """Play one episode. A :class:`Waiting` that it yields is answered with None once it is over.

    Raises:
        UserError: The task row lacks what the environment needs, or the window cannot hold the opening and the reserve.
    """
    episode = _Running(job, renderer, limits)
    status, reason = Status.FINISHED, None
    try:
        try:
            observation = yield from episode.start()
            while not observation.done:
                yield from episode.deliver(observation)
                act = (yield from episode.act(observation.answer_prefix)) if observation.needs_act else None
                observation = yield from episode.advance(act)
        except _Ended as end:
            status, reason = end.status, end.reason
        return (yield from episode.finish(status, reason))
    finally:
        episode.let_go()


@dataclass
class _Running:
    """The state of one episode while it is played."""

    job: Job
    renderer: Renderer
    limits: Limits
    environment: Environment | None = None
    caller: Caller | None = None
    stuck: bool = False
    idle: int = 0
    result_reserve: int = 0
    summary_reserve: int = 0
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

    def start(self) -> Steps:
        """Make and reset the environment, and open the first window."""
        self.began = time.monotonic()
        if not self.limits.keep_segments:
            self.acts = deque(maxlen=16)
        environment = self._ask(self._make)
        observation = yield from self._call(
            lambda: checked_observation(environment.reset(self.job.task), "reset"), "reset"
        )
        if not observation.messages:
            raise _Ended(Status.ENVIRONMENT_ERROR, "reset returned no messages, so there is nothing to act on")
        self.opening = observation.messages
        tools = self._ask(lambda: tuple(environment.tools()))
        if tools and self.job.strategy.name != "none":
            self.result_reserve = self.limits.result_tokens or self.limits.window // 8
        if tools and self.call_format.shown_by_template:
            self.renderer = self._ask(lambda: self.renderer.with_tools(tools))
        prompt_ids = self.renderer.opening(self.opening)
        if len(prompt_ids) >= self.limits.window:
            raise UserError(
                f"window is {self.limits.window} tokens, but the opening alone takes {len(prompt_ids)}: set window far "
                "above it"
            )
        self.window = Window(self.renderer, self.limits.window, prompt_ids)
        self._set_reserve()
        needed = self.window.in_use + self.reserve + self.job.strategy.summary_tokens
        if needed >= self.limits.window:
            raise UserError(
                f"window is {self.limits.window} tokens, but the opening ({self.window.in_use}), one carried summary "
                f"({self.job.strategy.summary_tokens}) and the reserve for request, summary and act ({self.reserve}"
                f"{f', of which {self.result_reserve} for results of tools' if self.result_reserve else ''}) take "
                f"{needed}: set window above {needed}, or lower summary_tokens or act_tokens"
            )
        return replace(observation, messages=())

    def deliver(self, observation: Observation) -> Steps:
        """Append an observation, compacting before it where the strategy says so.

        The results of a call are appended to the window of the call, and the strategy is asked after them.
        """
        if not observation.messages:
            if self.job.strategy.due(self._state(0)):
                yield from self.compact(0)
            self.needed = self._needed()
            return
        answers = all(message.is_result for message in observation.messages)
        at_once = answers
        pending = deque([observation.messages])
        self.delivered = []
        prefix = self.renderer.count(observation.answer_prefix) if observation.answer_prefix else 0
        while pending:
            messages = pending.popleft()
            ids = self.renderer.appended(messages)
            fresh = self.window.in_use == len(self.window.prompt_ids)
            if not at_once and not fresh and self.job.strategy.due(self._state(len(ids) + prefix)):
                yield from self.compact(len(ids) + prefix)
            reserve = self.summary_reserve if at_once else self.reserve + prefix
            room = self.limits.window - self.window.in_use - reserve
            if len(ids) > room:
                if at_once and room < max(1, self.result_reserve):
                    # Nothing was kept free for results: their call was no tool's. They are read as any other message.
                    at_once = False
                    pending.appendleft(messages)
                    continue
                if self.job.strategy.name == "none":
                    raise _Ended(Status.WINDOW_OVERFLOW)
                pending.extendleft(reversed(self._fit(messages, room)))
                continue
            self.window.append(messages, ids)
            self.delivered += [message.content for message in messages]
            at_once = False
        self.needed = self._needed()
        asked = self._asked_to_compact(observation)
        if asked or (answers and self.job.strategy.due(self._state(prefix))):
            # A window in which the policy did nothing but ask for the next holds nothing new to summarize.
            nothing_new = asked and self.windows > 1 and len(self.window.turns) == 1
            yield from self.compact(prefix, nothing_new)
        elif answers and self.window.in_use + prefix + self.reserve - self.result_reserve > self.limits.window:
            raise _Ended(Status.WINDOW_OVERFLOW)

    def act(self, prefix: str = "") -> Steps:
        """Sample an act, which begins with ``prefix``."""
        if self.limits.max_turns and self.act_count >= self.limits.max_turns:
            raise _Ended(Status.OUT_OF_TURNS)
        self.act_count += 1
        self.idle = 0
        text = yield from self._sample(TurnKind.ACT, self.limits.act_tokens, "policy", prefix)
        self.window.close_turn(text)
        self.acts.append(text)
        return text

    def compact(self, incoming: int, nothing_new: bool = False) -> Steps:
        """Close the window and open the next; ``nothing_new``: it cannot be called effective whatever it saves."""
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
        self.ineffective = self.ineffective + 1 if nothing_new or self.window.in_use >= before else 0
        if self.ineffective >= INEFFECTIVE_IN_A_ROW:
            raise _Ended(Status.INEFFECTIVE_COMPACTION)

    def advance(self, act: str | None) -> Steps:
        """Step the environment."""
        if self.limits.seconds and time.monotonic() - self.began > self.limits.seconds:
            raise _Ended(Status.TIMED_OUT)
        if act is None:
            self.idle += 1
            if self.limits.max_idle and self.idle > self.limits.max_idle:
                raise _Ended(
                    Status.ENDLESS, f"{self.limits.max_idle:,} observations in a row needed no act, the most (max_idle)"
                )
        environment = self._made
        return (yield from self._call(lambda: checked_observation(environment.advance(act), "advance"), "advance"))

    def finish(self, status: Status, reason: str | None) -> Steps:
        """Score the episode and close the environment."""
        metrics = self._metrics() if hasattr(self, "window") else {}
        environment = self.environment
        if environment is not None and not self.stuck:
            try:
                if status is not Status.ENVIRONMENT_ERROR:
                    self.reward = yield from self._call(lambda: checked_reward(environment.reward()), "reward")
                if metrics:
                    own = yield from self._call(lambda: checked_metrics(environment.metrics()), "metrics")
                    metrics |= {f"environment/{name}": value for name, value in own.items()}
            except _Ended as end:
                self.reward = None
                # What went wrong first is what there is to correct.
                status, reason = (status, reason) if reason else (end.status, end.reason)
            closed, self.environment = environment.close, None
            try:
                yield from self._call(closed, "close")
            except _Ended as end:
                reason = reason or f"close failed, after all was scored: {end.reason}"
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

    def let_go(self) -> None:
        """Close what is still open, without waiting for it: the episode was given up, or a call into it hangs."""
        environment, self.environment = self.environment, None
        if environment is not None and self.caller is None:
            environment.close()
        if self.caller is not None:
            if environment is not None:
                self.caller.begin(environment.close, 0.0)
            self.caller.close()

    @property
    def _made(self) -> Environment:
        assert self.environment is not None, "the environment is called before it is made"
        return self.environment

    def _make(self) -> Environment:
        """Make the environment and tell it of the policy."""
        environment = self.job.environment()
        if not isinstance(environment, Environment):
            raise WrongAnswer(f"the environment is {shown(environment)}, must be a rollouts.environment.Environment")
        self.environment = environment
        named = environment.call_format
        self.call_format = self.renderer.call_format if named == "auto" else FORMATS[named]
        seconds = self.limits.call_seconds if environment.concurrent else 0.0
        if seconds:
            self.caller = Caller()
        offered = self.limits.ask_to_compact and self.job.strategy.name != "none"
        environment.equip(ToolSettings(self.call_format, self.limits.result_characters, seconds, offered))
        return environment

    def _asked_to_compact(self, observation: Observation) -> bool:
        """Whether the policy asked for a compaction that it may have."""
        left = not self.limits.max_compactions or len(self.compactions) < self.limits.max_compactions
        return bool(observation.compact) and self.limits.ask_to_compact and left and self.job.strategy.name != "none"

    def _metrics(self) -> dict[str, float]:
        """The episode's own counts, its last window closed."""
        self._close_window()
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
        }

    def _sample(self, kind: TurnKind, max_tokens: int, sampler: str, prefix: str = "") -> Steps:
        self.window.open_turn(prefix)
        session = f"{self.job.key}/{self.windows - 1}"
        messages = (*self.opening, *self.window.messages)
        outcome = yield SampleRequest(
            session, list(self.window.ids), max_tokens, kind, sampler, self.job.seed, messages, prefix
        )
        if isinstance(outcome, EngineFailure):
            raise _Ended(Status.ENGINE_ERROR, outcome.reason)
        if outcome is None:
            raise AssertionError("a sample was asked for, and the driver sent none")
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
            task_text=self._ask(lambda: checked_text(self._made.task_text(), "task_text")),
            seed=self.job.seed,
            task_id=self.job.task_id,
            progress=Progress(
                compactions=len(self.compactions) if compactions is None else compactions,
                turns=self.turns,
                tokens=self.tokens_before_window + (0 if closed else self.window.in_use),
                turns_left=turns_left,
                keep=self._ask(lambda: checked_text(self._made.keep(), "keep")),
            ),
            needed=needed,
        )

    def _set_reserve(self) -> None:
        """Set what to keep free: one act and what its calls are answered, then the request and its summary, with what
        the template writes around them."""
        around = len(self.renderer.generation_ids) + len(self.renderer.closing_ids)
        request = self.job.strategy.request(self._state(0))
        self.summary_reserve = 0
        if request is not None:
            asked = len(self.renderer.appended((request,)))
            self.summary_reserve = asked + around + self.job.strategy.summary_tokens
        self.reserve = around + self.limits.act_tokens + self.result_reserve + self.summary_reserve

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
        self._set_reserve()

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
        now = self._needed() if shown else ()
        arrived = [fact for fact in now if fact not in self.needed and held(fact, shown)]
        return tuple(fact for fact in now if fact in self.needed or fact in arrived) if arrived else self.needed

    def _needed(self) -> tuple[str, ...]:
        return self._ask(lambda: checked_facts(self._made.needed()))

    def _call(self, call: Callable[[], Any], method: str) -> Steps:
        """Call the environment, in its own thread where it has one; what it raises becomes the episode's status."""
        if self.caller is None:
            return self._ask(call)
        seconds, left = self.limits.call_seconds, self.limits.seconds - (time.monotonic() - self.began)
        waiting = self.caller.begin(call, min(seconds, max(0.0, left)) if self.limits.seconds else seconds)
        while not waiting.over:
            yield waiting
        if not waiting.future.done():
            self.stuck = True
            raise _Ended(Status.TIMED_OUT, f"'{method}' of the environment did not return in time (call_seconds)")
        return self._ask(waiting.future.result)

    def _ask(self, call: Callable[[], Any]) -> Any:
        """Call; what is raised becomes the episode's status, be it an attempt to end the process."""
        try:
            return call()
        except (UserError, KeyboardInterrupt, GeneratorExit):
            raise
        except WrongAnswer as error:
            raise _Ended(Status.ENVIRONMENT_ERROR, str(error)) from error
        except BaseException as error:
            raise _Ended(Status.ENVIRONMENT_ERROR, f"{type(error).__name__}: {error}") from error
