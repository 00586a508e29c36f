"""An engine whose replies a function writes: oracles and baselines, and the loop's tests. Needs no model."""

from __future__ import annotations

from collections.abc import Callable

from rollouts.engine import Completion, EngineFailure, SampleRequest
from rollouts.episode import Finish
from rollouts.rendering import Renderer


class ScriptedEngine:
    """Answers each request with what ``reply`` says, cut to its limit.

    Args:
        reply: From a request to the text of the reply, or to an :class:`EngineFailure`.
        renderer: Turns text into token ids; a reply that fits its limit ends with the template's stop token.
        max_sessions: As any engine's.

    Attributes:
        requests: All requests that were answered, in order.
        open: Sessions that were asked and not released.
    """

    def __init__(
        self, reply: Callable[[SampleRequest], str | EngineFailure], renderer: Renderer, max_sessions: int = 64
    ) -> None:
        self._reply, self._renderer, self._max_sessions = reply, renderer, max_sessions
        self._waiting: list[SampleRequest] = []
        self.requests: list[SampleRequest] = []
        self.open: set[str] = set()

    @property
    def max_sessions(self) -> int:
        return self._max_sessions

    def submit(self, request: SampleRequest) -> None:
        self._waiting.append(request)
        self.open.add(request.session)

    def step(self) -> list[tuple[SampleRequest, Completion | EngineFailure]]:
        answered = [(request, self._answer(request)) for request in self._waiting]
        self.requests += self._waiting
        self._waiting = []
        return answered

    def release(self, session: str) -> None:
        self.open.discard(session)

    def _answer(self, request: SampleRequest) -> Completion | EngineFailure:
        reply = self._reply(request)
        if isinstance(reply, EngineFailure):
            return reply
        whole = (*self._renderer.content_ids(reply), self._renderer.closing_ids[0])
        ids = whole[: request.max_tokens]
        finish = Finish.STOP if len(whole) <= request.max_tokens else Finish.LENGTH
        # A scripted reply has no chance about it: its log-probability is 0.
        return Completion(ids, (0.0,) * len(ids), finish)
