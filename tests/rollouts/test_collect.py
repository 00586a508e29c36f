"""The driver: many episodes at once, and the jobs it is given."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.collect import collect
from rollouts.engine import Completion, EngineFailure, SampleRequest, sample
from rollouts.engines.scripted import ScriptedEngine
from rollouts.environment import Environment
from rollouts.episode import Status, TurnKind
from rollouts.jobs import attempts_of, environment_maker, jobs, task_id
from rollouts.policies.tiny import tiny_tokenizer
from rollouts.rendering import Renderer
from rollouts.runner import Limits
from summarization.resolve import UserError
from summarization.strategies import SelfSummary
from tests.rollouts.worlds import Counting

RENDERER = Renderer(tiny_tokenizer())
LIMITS = Limits(window=128, act_tokens=8)


@pytest.fixture(autouse=True)
def _nobody_alive() -> None:
    Counting.alive = Counting.most = 0


def test_episodes_come_back_in_the_order_of_their_jobs() -> None:
    rows = [{"acts": acts} for acts in (5, 1, 3, 2, 4, 1)]
    finished: list[int] = []
    episodes = collect(
        jobs(rows, Counting, SelfSummary(8), 0),
        {"policy": ScriptedEngine(lambda _: "on", RENDERER)},
        RENDERER,
        LIMITS,
        lambda job, _: finished.append(job.task["acts"]),
    )
    assert [episode.task for episode in episodes] == rows
    assert [episode.metrics["acts"] for episode in episodes] == [5, 1, 3, 2, 4, 1]
    assert finished == [1, 1, 2, 3, 4, 5]


def test_no_more_are_played_at_once_than_the_engine_holds() -> None:
    engine = ScriptedEngine(lambda _: "on", RENDERER, max_sessions=3)
    episodes = collect(jobs([{"acts": 2}] * 10, Counting, SelfSummary(8), 0), {"policy": engine}, RENDERER, LIMITS)
    assert len(episodes) == 10
    assert Counting.most == 3
    assert Counting.alive == 0
    assert engine.open == set()


def test_jobs_are_taken_as_places_become_free() -> None:
    taken: list[int] = []

    def endless() -> Any:
        for index, job in enumerate(jobs([{"acts": 1, "n": n} for n in range(50)], Counting, SelfSummary(8), 0)):
            taken.append(index - Counting.alive)
            yield job

    engine = ScriptedEngine(lambda _: "on", RENDERER, max_sessions=4)
    assert len(collect(endless(), {"policy": engine}, RENDERER, LIMITS)) == 50
    assert Counting.most == 4


def test_one_failure_is_one_episode() -> None:
    def reply(request: SampleRequest) -> str | EngineFailure:
        return EngineFailure("no power") if request.session.startswith(task_id({"acts": 2})) else "on"

    rows = [{"acts": 1}, {"acts": 2}, {"acts": 3}]
    engine = ScriptedEngine(reply, RENDERER)
    episodes = collect(jobs(rows, Counting, SelfSummary(8), 0), {"policy": engine}, RENDERER, LIMITS)
    assert [episode.status for episode in episodes] == [Status.FINISHED, Status.ENGINE_ERROR, Status.FINISHED]


def test_nothing_to_play_gives_nothing() -> None:
    assert collect([], {"policy": ScriptedEngine(lambda _: "on", RENDERER)}, RENDERER, LIMITS) == []


def test_sample_returns_completions_in_order_and_raises_on_failure() -> None:
    requests = [SampleRequest(f"s{n}", [1, 2], n + 1, TurnKind.ACT) for n in range(3)]
    replies = sample(ScriptedEngine(lambda r: "ada alan amos", RENDERER), requests)
    assert all(isinstance(reply, Completion) for reply in replies)
    assert [len(reply.token_ids) for reply in replies] == [1, 2, 3]
    with pytest.raises(RuntimeError, match="s0: no power"):
        sample(ScriptedEngine(lambda _: EngineFailure("no power"), RENDERER), requests)


def test_equal_rows_are_attempts_at_one_task() -> None:
    rows = [{"acts": 1}, {"acts": 2}, {"acts": 1}, {"acts": 1}]
    made = list(jobs(rows, Counting, SelfSummary(8), 7))
    assert [job.attempt for job in made] == [0, 0, 1, 2]
    assert len({job.key for job in made}) == 4
    assert attempts_of(["a", "b", "a"]) == [0, 0, 1]


def test_a_task_is_named_by_its_content_alone() -> None:
    assert task_id({"a": 1, "b": "é"}) == task_id({"b": "é", "a": 1})
    assert task_id({"a": 1}) != task_id({"a": 2})


def test_environments_are_named_and_refused_by_name() -> None:
    assert isinstance(environment_maker("recall", {"page_words": 10})(), Environment)
    with pytest.raises(UserError, match="environment_kwargs"):
        environment_maker("recall", {"nonsense": 1})
    with pytest.raises(UserError, match="is a OrderedDict, not a"):
        environment_maker("collections:OrderedDict", {})
