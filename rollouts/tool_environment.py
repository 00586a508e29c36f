"""Environments whose acts are tool calls: subclass :class:`ToolEnvironment` and mark its tools with :func:`tool`.

All calls of an act are made, in order, and answered together. What the policy does wrong (a call that cannot be read,
an unknown tool, wrong arguments) and what a tool raises become the tool's answer, and are counted.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from rollouts.environment import Environment, Observation
from rollouts.tools import COMPACT, COMPACT_SCHEMA, BadCall, Call, LineCalls, ToolSettings, cut, schema_of, tool_names
from summarization.messages import Message
from summarization.resolve import UserError

Method = TypeVar("Method", bound=Callable[..., Any])
COUNTS = ("tool_calls", "invalid_calls", "failed_calls", "cut_results", "repeated_acts", "refusals")


def tool(method: Method) -> Method:
    """Mark a method as a tool. It needs type hints and a Google docstring; it may be a coroutine."""
    method.is_tool = True  # pyright: ignore[reportFunctionMemberAccess]
    return method


class ToolEnvironment(Environment):
    """Write :meth:`begin`, :meth:`reward` and the tools; the rest has defaults.

    Metrics of every episode: ``tool_calls``; ``invalid_calls`` (unreadable, unknown tool, wrong arguments);
    ``failed_calls`` (the tool raised, or took too long); ``cut_results``; ``repeated_acts`` (the same calls as in the
    act before); ``refusals`` (acts without a call; a final answer is none where there was a call before it).

    Attributes:
        ends_without_call: An act without a call ends the episode. If False the policy is told to call a tool, and the
            third such act in a row ends it.
    """

    concurrent = True
    ends_without_call: ClassVar[bool] = True
    most_refusals: ClassVar[int] = 3

    @abstractmethod
    def begin(self, task: Mapping[str, Any]) -> Sequence[Message]:
        """Start on a task row; the messages returned (system, task) open every window.

        Raises:
            UserError: The row lacks a column; the text names it.
        """

    def functions(self) -> Mapping[str, Callable[..., Any]]:
        """The tools by name: the methods marked with :func:`tool`, in the order in which they are written."""
        marked: dict[str, Callable[..., Any]] = {}
        for kind in reversed(type(self).__mro__):
            marked |= {name: getattr(self, name) for name, member in vars(kind).items() if hasattr(member, "is_tool")}
        return marked

    def is_done(self) -> bool:
        """Asked after the calls of an act: whether the episode is over."""
        return False

    def equip(self, settings: ToolSettings) -> None:
        self._settings = settings

    def reset(self, task: Mapping[str, Any]) -> Observation:
        self._counts: Counter[str] = Counter()
        self._refused = 0
        self._before: tuple[Call | BadCall, ...] = ()
        messages = tuple(self.begin(task))
        self._functions = dict(self.functions())
        self._schemas = [schema_of(function) for function in self._functions.values()]
        if self.settings.offer_compaction:
            if COMPACT in self._functions:
                raise UserError(f"environment: its tool '{COMPACT}' has the name of ours; rename it")
            self._schemas.append(COMPACT_SCHEMA)
        told = self.settings.format.instructions(self._schemas)
        return Observation(with_instructions(messages, told), needs_act=True)

    def advance(self, act: str | None) -> Observation:
        act = act or ""
        calls = self.settings.format.parse(act, self._schemas)
        if not calls:
            return self.without_call(act)
        self._refused = 0
        self._counts["repeated_acts"] += calls == self._before
        self._before = calls
        results = self._answers(calls)
        asked = self.settings.offer_compaction and any(isinstance(c, Call) and c.name == COMPACT for c in calls)
        done = self.is_done()
        messages = tuple(
            self.settings.format.result(call.name if isinstance(call, Call) else "error", text)
            for call, text in zip(calls, results, strict=True)
        )
        return Observation(messages, needs_act=not done, done=done, compact=asked)

    def without_call(self, act: str) -> Observation:
        """What follows an act in which no tool is called."""
        self._refused += 1
        first = not self._counts["tool_calls"]
        self._counts["refusals"] += first or not self.ends_without_call
        if self.ends_without_call or self._refused >= self.most_refusals:
            return Observation(done=True)
        return Observation(
            (Message("user", f"No tool was called. Call one of: {', '.join(tool_names(self._schemas))}."),),
            needs_act=True,
        )

    def tools(self) -> Sequence[Mapping[str, Any]]:
        return tuple(self._schemas)

    def metrics(self) -> Mapping[str, float]:
        return {name: float(self._counts[name]) for name in COUNTS}

    def close(self) -> None:
        if self._loop is not None:
            self._loop.close()

    @property
    def settings(self) -> ToolSettings:
        """What is known of the policy; plain text where nobody said."""
        return self._settings

    def awaited(self, value: Awaitable[Any]) -> Any:
        """What a coroutine gives, run where those of the tools are."""
        (outcome,) = self._own_loop().run([value], None)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    _settings = ToolSettings(LineCalls())
    _loop: _Loop | None = None

    def _own_loop(self) -> _Loop:
        self._loop = self._loop or _Loop()
        return self._loop

    def _answers(self, calls: Sequence[Call | BadCall]) -> list[str]:
        """Make the calls and return what each is answered. Coroutines run side by side, once the others are done."""
        began = time.monotonic()
        answers: list[str] = []
        awaited: dict[int, Awaitable[Any]] = {}
        for index, call in enumerate(calls):
            self._counts["tool_calls"] += 1
            answers.append("")
            outcome = self._made(call)
            if inspect.isawaitable(outcome):
                awaited[index] = outcome
            else:
                answers[index] = self._told(outcome)
        if awaited:
            left = max(0.1, self.settings.seconds - (time.monotonic() - began)) if self.settings.seconds else None
            outcomes = self._own_loop().run(list(awaited.values()), left)
            for index, outcome in zip(awaited, outcomes, strict=True):
                if isinstance(outcome, TimeoutError) and left is not None:
                    outcome = TimeoutError(f"no answer within {self.settings.seconds:g} seconds")
                answers[index] = self._failed(outcome) if isinstance(outcome, Exception) else self._told(outcome)
        return answers

    def _made(self, call: Call | BadCall) -> Any:
        """The outcome of a call, or a coroutine that gives it."""
        if isinstance(call, BadCall):
            return self._invalid(call.reason)
        if call.name == COMPACT and self.settings.offer_compaction:
            return "The context is summarized now."
        function = self._functions.get(call.name)
        if function is None:
            return self._invalid(f"there is no tool '{call.name}'; there are {', '.join(tool_names(self._schemas))}")
        try:
            inspect.signature(function).bind(**call.arguments)
        except TypeError as error:
            return self._invalid(f"wrong arguments for '{call.name}': {error}")
        try:
            return function(**call.arguments)
        except Exception as error:
            return self._failed(error)

    def _invalid(self, reason: str) -> str:
        self._counts["invalid_calls"] += 1
        return self._told({"error": reason})

    def _failed(self, error: Exception) -> str:
        self._counts["failed_calls"] += 1
        return self._told({"error": str(error) or type(error).__name__})

    def _told(self, outcome: Any) -> str:
        try:
            text = outcome if isinstance(outcome, str) else str(outcome)
        except Exception as error:
            return self._failed(error)
        shown = cut(text, self.settings.result_characters)
        self._counts["cut_results"] += shown is not text
        return shown


class _Loop:
    """An event loop in a thread of its own, so that what an environment's coroutines share lives as long as it does."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="palimpsest-tools")
        self._thread.start()

    def run(self, awaited: Sequence[Awaitable[Any]], seconds: float | None) -> list[Any]:
        """Await all of them at once; what one raises stands in its place."""

        async def together() -> list[Any]:
            return await asyncio.gather(*(asyncio.wait_for(a, seconds) for a in awaited), return_exceptions=True)

        return asyncio.run_coroutine_threadsafe(together(), self._loop).result()

    def close(self) -> None:
        """Stop the loop. A thread that hangs in a coroutine is left behind; it ends with the process."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=1.0)
        if not self._loop.is_running():
            self._loop.close()


def with_instructions(messages: tuple[Message, ...], told: str) -> tuple[Message, ...]:
    """``messages`` with instructions at the end of the system message, which is made where there is none."""
    if not told:
        return messages
    if messages and messages[0].role == "system":
        system = Message("system", f"{messages[0].content}\n\n{told}" if messages[0].content else told)
        return (system, *messages[1:])
    return (Message("system", told), *messages)
