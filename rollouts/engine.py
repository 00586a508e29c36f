"""The engine: token ids in, token ids and log-probabilities out.

An engine is a queue: requests are submitted, and each ``step`` returns those that finished. So a finished session's
place is taken by the next at once, and one driver serves batches, servers and tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rollouts.episode import Finish, TurnKind
from summarization.messages import Message


@dataclass(frozen=True)
class SampleRequest:
    """One sample wanted.

    Attributes:
        session: Names the window; within a session each request's ``token_ids`` extends the one before, the tokens
            sampled in between included, so that an engine may keep its key-value cache.
        token_ids: The whole context.
        max_tokens: The most tokens to sample.
        kind: Act or summary.
        sampler: Which policy samples: ``policy`` or ``frozen``.
        seed: Together with ``session`` and the position it determines the random draws.
        messages: What ``token_ids`` render, for engines elsewhere that take messages; system and task included.
        prefix: What the policy's turn begins with, at the end of ``token_ids``.
    """

    session: str
    token_ids: Sequence[int]
    max_tokens: int
    kind: TurnKind
    sampler: str = "policy"
    seed: int = 0
    messages: tuple[Message, ...] = ()
    prefix: str = ""


@dataclass(frozen=True)
class Completion:
    """One sample.

    Attributes:
        token_ids: Sampled tokens, a final stop token included.
        logprobs: One for each token, under the sampling temperature.
        finish: Why it stopped.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: Finish


@dataclass(frozen=True)
class EngineFailure:
    """A request that could not be served, with the reason."""

    reason: str


class Engine(Protocol):
    """Anything that samples. Not thread-safe."""

    @property
    def max_sessions(self) -> int:
        """How many sessions it can hold at once; the driver starts no more episodes than that."""
        ...

    def submit(self, request: SampleRequest) -> None:
        """Queue a request."""
        ...

    def step(self) -> list[tuple[SampleRequest, Completion | EngineFailure]]:
        """Do some work and return the requests that finished. Empty is allowed while any is pending."""
        ...

    def release(self, session: str) -> None:
        """The session's window was erased: forget what was kept of it. Unknown sessions are ignored."""
        ...


def sample(engine: Engine, requests: Sequence[SampleRequest]) -> list[Completion]:
    """Sample all of ``requests`` and return the completions in their order.

    Raises:
        RuntimeError: One of them failed.
    """
    for request in requests:
        engine.submit(request)
    done: dict[int, Completion] = {}
    while len(done) < len(requests):
        for request, outcome in engine.step():
            if isinstance(outcome, EngineFailure):
                raise RuntimeError(f"session {request.session}: {outcome.reason}")
            done[id(request)] = outcome
    return [done[id(request)] for request in requests]
