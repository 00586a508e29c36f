"""Calls into an environment that may be slow or hang, in a thread of its own, so that other episodes go on meanwhile.

Python cannot interrupt a thread. A call that takes too long is given up: its thread is left behind, asleep or at work,
and the environment is not called again, but to close it should the call ever end. The thread ends with the process.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any

GRACE = 1.0
"""Seconds past its limit that a call may take: an environment that keeps the limit by itself answers before then."""


@dataclass(frozen=True)
class Waiting:
    """A call under way; an episode yields it and is resumed (with None) when it has ended or taken too long.

    Attributes:
        future: Of its outcome.
        deadline: When to give it up, on the clock of ``time.monotonic``.
    """

    future: Future[Any]
    deadline: float

    @property
    def over(self) -> bool:
        """Whether there is no more to wait for."""
        return self.future.done() or time.monotonic() >= self.deadline


class Caller:
    """Makes calls in a thread of its own, one after the other."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True, name="palimpsest-environment").start()

    def begin(self, call: Callable[[], Any], seconds: float) -> Waiting:
        """Begin a call, to be given up after ``seconds`` (and a grace)."""
        future: Future[Any] = Future()
        self._calls.put((future, call))
        return Waiting(future, time.monotonic() + seconds + GRACE)

    def close(self) -> None:
        """End the thread once what was begun has ended."""
        self._calls.put(None)

    def _work(self) -> None:
        while (entry := self._calls.get()) is not None:
            future, call = entry
            try:
                future.set_result(call())
            except BaseException as error:
                # Whatever it is, the episode's own thread raises it again.
                future.set_exception(error)
            # Not kept while the next call is waited for.
            del future, call, entry


def wait_for_any(calls: Sequence[Waiting]) -> None:
    """Sleep until one of the calls is over."""
    least = min(call.deadline for call in calls)
    wait([call.future for call in calls], max(0.0, least - time.monotonic()), FIRST_COMPLETED)
