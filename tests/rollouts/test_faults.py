"""Environments that break: each episode gets a status and a sentence, and the others go on."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from rollouts.checks import failures
from rollouts.collect import collect
from rollouts.engines.scripted import ScriptedEngine
from rollouts.environment import Environment, Observation
from rollouts.episode import Episode, Status
from rollouts.policies.tiny import tiny_tokenizer
from rollouts.rendering import Renderer
from rollouts.runner import Job, Limits
from rollouts.storage import EpisodeWriter, read_episodes
from summarization.messages import Message
from summarization.prompts import TINY
from summarization.strategies import SelfSummary

RENDERER = Renderer(tiny_tokenizer())
GO = (Message("user", "where is ada ?"),)


class Breaking(Environment):
    """Owes one act; each of its methods is what it was given."""

    def __init__(self, **does: Callable[[], Any]) -> None:
        self.does = does
        self.closed = 0

    def reset(self, task: Mapping[str, Any]) -> Observation:
        return self._do("reset", Observation(GO, needs_act=True))

    def advance(self, act: str | None) -> Observation:
        return self._do("advance", Observation(done=True))

    def reward(self) -> float | None:
        return self._do("reward", 1.0)

    def needed(self) -> Any:
        return self._do("needed", ())

    def keep(self) -> str:
        return self._do("keep", "")

    def metrics(self) -> Mapping[str, float]:
        return self._do("metrics", {"success": 1.0})

    def close(self) -> None:
        self.closed += 1
        self._do("close", None)

    def _do(self, method: str, otherwise: Any) -> Any:
        return self.does[method]() if method in self.does else otherwise


class BreakingApart(Breaking):
    """The same, in a thread of its own."""

    concurrent = True


def played(environment: Callable[[], Any], **limits: Any) -> list[Episode]:
    """An episode in the environment, and one in a whole one after it."""
    engine = ScriptedEngine(lambda _: "oslo", RENDERER)
    made = [environment, Breaking]
    jobs = [Job({}, f"task{index}", 0, make, SelfSummary(8, style=TINY)) for index, make in enumerate(made)]
    return collect(jobs, {"policy": engine}, RENDERER, Limits(**{"window": 128, "act_tokens": 8, **limits}))


def raises(error: BaseException) -> Callable[[], Any]:
    """A method that raises."""

    def method() -> Any:
        raise error

    return method


@pytest.mark.parametrize("kind", [Breaking, BreakingApart])
@pytest.mark.parametrize(
    ("does", "sentence"),
    [
        *(
            ({method: raises(KeyError("door"))}, "KeyError: 'door'")
            for method in ("reset", "advance", "reward", "needed")
        ),
        ({"keep": raises(OSError("full"))}, "OSError: full"),
        ({"advance": raises(StopIteration())}, "StopIteration"),
        ({"advance": lambda: sys.exit(3)}, "SystemExit: 3"),
        ({"advance": raises(MemoryError("no more"))}, "MemoryError: no more"),
        ({"reset": lambda: None}, "reset returned NoneType None, must be an Observation"),
        ({"reset": lambda: Observation()}, "reset returned no messages"),
        ({"advance": lambda: "go on"}, "advance returned str 'go on', must be an Observation"),
        ({"advance": lambda: Observation(list(GO))}, "must be a tuple of Message"),  # pyright: ignore[reportArgumentType]
        ({"advance": lambda: Observation(("go",))}, "must be a Message with text"),  # pyright: ignore[reportArgumentType]
        ({"advance": lambda: Observation((Message("user", 3),))}, "with text"),  # pyright: ignore[reportArgumentType]
        ({"needed": lambda: "ada"}, "needed returned str 'ada', must be a sequence of texts"),
        ({"keep": lambda: None}, "keep returned NoneType None, must be text"),
        ({"reward": lambda: float("nan")}, "the reward is nan, must be a finite number"),
        ({"reward": lambda: float("-inf")}, "the reward is -inf, must be a finite number"),
        ({"reward": lambda: "1.0"}, "the reward is str '1.0', must be a number"),
        ({"reward": lambda: 10**400}, "must be a finite number"),
        ({"reward": lambda: np.array([1.0, 2.0])}, "must be a number"),
        ({"reward": lambda: 1j}, "must be a number"),
        ({"metrics": lambda: None}, "metrics returned NoneType None, must be a mapping"),
        ({"metrics": lambda: {"success": "yes"}}, "metric 'success' is str 'yes', must be a number"),
    ],
)
def test_what_breaks_ends_in_a_sentence(kind: type[Breaking], does: dict[str, Any], sentence: str) -> None:
    made = kind(**does)
    broken, whole = played(lambda: made)
    assert broken.status is Status.ENVIRONMENT_ERROR
    assert sentence in str(broken.error)
    assert broken.reward is None
    assert made.closed == 1
    assert (whole.status, whole.reward, whole.error) == (Status.FINISHED, 1.0, None)


@pytest.mark.parametrize("make", [raises(OSError("closed")), lambda: 3, lambda: None])
def test_an_environment_that_is_not_made_is_an_episode_without_windows(make: Callable[[], Any]) -> None:
    broken, whole = played(make)
    assert (broken.status, broken.reward, broken.segments) == (Status.ENVIRONMENT_ERROR, None, ())
    assert whole.status is Status.FINISHED


@pytest.mark.parametrize(
    ("reward", "kept"),
    [
        (np.float32(0.5), 0.5),
        (np.int64(2), 2.0),
        (True, 1.0),
        (Decimal("0.5"), 0.5),
        (np.bool_(True), 1.0),
        (None, None),
    ],
)
def test_any_kind_of_number_is_a_reward_and_is_stored(reward: Any, kept: float | None, tmp_path: Any) -> None:
    episode, _ = played(lambda: Breaking(reward=lambda: reward, metrics=lambda: {"success": np.float64(1.0)}))
    assert episode.reward == kept
    assert type(episode.reward) is type(kept)
    assert episode.metrics["environment/success"] == 1.0
    with EpisodeWriter(tmp_path / "episodes.jsonl.gz") as writer:
        writer.append(episode)
    (read,) = read_episodes(tmp_path / "episodes.jsonl.gz")
    assert read.reward == kept


@pytest.mark.parametrize("kind", [Breaking, BreakingApart])
def test_a_failing_close_is_told_and_costs_nothing(kind: type[Breaking]) -> None:
    episode, _ = played(lambda: kind(close=raises(OSError("jammed"))))
    assert (episode.status, episode.reward) == (Status.FINISHED, 1.0)
    assert "OSError: jammed" in str(episode.error)


@pytest.mark.parametrize("method", ["reset", "advance", "reward", "close"])
def test_what_hangs_is_given_up(method: str) -> None:
    began = time.monotonic()
    hung, whole = played(lambda: BreakingApart(**{method: lambda: time.sleep(20)}), call_seconds=0.1)
    assert time.monotonic() - began < 10
    assert f"'{method}' of the environment did not return in time" in str(hung.error)
    assert hung.status is (Status.FINISHED if method == "close" else Status.TIMED_OUT)
    assert whole.status is Status.FINISHED


@pytest.mark.parametrize("messages", [(), (Message("user", "ada"),)])
def test_an_environment_that_never_needs_an_act_ends(messages: tuple[Message, ...]) -> None:
    endless, whole = played(lambda: Breaking(advance=lambda: Observation(messages)), max_idle=50)
    assert endless.status is Status.ENDLESS
    assert "50 observations in a row needed no act" in str(endless.error)
    assert whole.status is Status.FINISHED


def test_failures_are_counted_and_said() -> None:
    nan = played(lambda: Breaking(reward=lambda: float("nan")))
    assert failures(nan) == (
        "1 of 2 episodes failed (1 environment_error); 1 of them: the reward is nan, must be a finite number"
    )
    assert failures(nan[1:]) == ""
