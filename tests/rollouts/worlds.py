"""A small environment, named by its import path as a user's would be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollouts.environment import Environment, Observation
from summarization.messages import Message


class Counting(Environment):
    """Owes as many acts as its row says; counts how many of it are alive."""

    alive = 0
    most = 0

    def reset(self, task: Mapping[str, Any]) -> Observation:
        Counting.alive += 1
        Counting.most = max(Counting.most, Counting.alive)
        self.left = int(task["acts"])
        return Observation((Message("user", "go"),), needs_act=True)

    def advance(self, act: str | None) -> Observation:
        self.left -= 1
        return Observation((Message("user", "read on"),), needs_act=True) if self.left else Observation(done=True)

    def reward(self) -> float | None:
        return 1.0

    def close(self) -> None:
        Counting.alive -= 1


class Unopened(Environment):
    """An environment that cannot be reset."""

    def reset(self, task: Mapping[str, Any]) -> Observation:
        raise KeyError("no such door")

    def advance(self, act: str | None) -> Observation:
        return Observation(done=True)

    def reward(self) -> float | None:
        return None
