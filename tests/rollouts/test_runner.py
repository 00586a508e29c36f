"""The episode loop, driven by scripted replies: what is asked when, what is recorded, and how episodes end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest

from rollouts.collect import collect
from rollouts.engine import EngineFailure, SampleRequest
from rollouts.engines.scripted import ScriptedEngine
from rollouts.environment import Environment, Observation
from rollouts.episode import Episode, Finish, Status, TurnKind
from rollouts.policies.tiny import tiny_tokenizer
from rollouts.rendering import Renderer
from rollouts.runner import TRUNCATION_MARK, Job, Limits
from summarization.messages import Message
from summarization.prompts import TINY
from summarization.resolve import UserError
from summarization.strategies import FrozenSummary, NoCompaction, SelfSummary, SlidingWindow, Strategy

RENDERER = Renderer(tiny_tokenizer())
WORDS = ["ada", "alan", "amos", "anna", "arlo", "bella", "boris", "carla"]


class Pages(Environment):
    """Pages of so many words; after every page, or only at the end, an act is owed."""

    def __init__(self, pages: int = 10, words: int = 20, acts: str = "end", fail_at: int | None = None) -> None:
        self.pages, self.words, self.acts, self.fail_at = pages, words, acts, fail_at
        self.page = 0
        self.heard: list[str] = []
        self.closed = 0

    def reset(self, task: Mapping[str, Any]) -> Observation:
        return Observation((Message("system", "read and answer"), Message("user", "where is ada ?")))

    def advance(self, act: str | None) -> Observation:
        if act is not None:
            self.heard.append(act)
        if self.page == self.fail_at:
            raise RuntimeError("the printer burns")
        if self.page == self.pages:
            return Observation(done=True)
        self.page += 1
        text = " ".join(WORDS[(self.page + index) % len(WORDS)] for index in range(self.words))
        owed = self.acts == "each" or (self.acts == "end" and self.page == self.pages)
        return Observation((Message("user", text),), needs_act=owed)

    def reward(self) -> float | None:
        return float(len(self.heard))

    def task_text(self) -> str:
        return "where is ada ?"

    def needed(self) -> Sequence[str]:
        return ("ada is in oslo",)

    def close(self) -> None:
        self.closed += 1


def answer(request: SampleRequest) -> str | EngineFailure:
    return "ada is in oslo ." if request.kind is TurnKind.SUMMARY else "oslo"


def played(
    environment: Environment | None = None,
    strategy: Strategy | None = None,
    reply: Callable[[SampleRequest], str | EngineFailure] = answer,
    **limits: Any,
) -> tuple[Episode, ScriptedEngine]:
    """One episode in a window of 128 tokens, and the engine that was asked."""
    made = environment or Pages()
    engine = ScriptedEngine(reply, RENDERER)
    job = Job({"row": 1}, "task", 0, lambda: made, strategy or SelfSummary(8, style=TINY))
    engines = {"policy": engine, "frozen": engine}
    (episode,) = collect([job], engines, RENDERER, Limits(**{"window": 128, "act_tokens": 8, **limits}))
    return episode, engine


def test_windows_are_chained_by_summaries() -> None:
    episode, _ = played()
    assert episode.status is Status.FINISHED
    assert episode.reward == 1.0
    assert len(episode.compactions) == len(episode.segments) - 1 >= 2
    kinds = [[turn.kind for turn in segment.turns] for segment in episode.segments]
    assert kinds == [[TurnKind.SUMMARY]] * (len(kinds) - 1) + [[TurnKind.ACT]]
    for compaction, following in zip(episode.compactions, episode.segments[1:], strict=True):
        assert compaction.summary == "ada is in oslo ."
        assert compaction.kept == (True,)
        prompt = RENDERER.decode(following.prompt_ids)
        assert prompt.startswith("read and answer where is ada ?")
        assert "ada is in oslo" in prompt
    assert episode.compactions[-1].tokens_seen > 128


def test_every_page_is_delivered_in_order_whatever_is_compacted() -> None:
    small, _ = played(Pages(pages=10, words=20))
    large, _ = played(Pages(pages=10, words=20), window=1000)
    assert len(large.segments) == 1

    def pages(episode: Episode) -> list[str]:
        text = " ".join(RENDERER.decode([*s.completion_ids, *s.trailing_ids]) for s in episode.segments)
        return [word for word in text.split() if word in WORDS[1:]]

    assert pages(small) == pages(large)


def test_the_window_holds_and_is_used() -> None:
    """L5; and nothing is compacted before it must: with the next page the reserve would not have fitted."""
    for window in (90, 128, 200, 333):
        episode, engine = played(window=window)
        longest = [len(request.token_ids) + request.max_tokens for request in engine.requests]
        assert max(longest) <= window
        assert episode.metrics["peak_context"] <= window
        page = len(RENDERER.appended([Message("user", " ".join(WORDS * 3)[: 20 * 5])]))
        for compaction in episode.compactions:
            assert compaction.tokens_before > window - 64 - page


def test_a_session_only_grows_and_a_new_window_is_a_new_session() -> None:
    episode, engine = played(Pages(acts="each"))
    assert len(episode.segments) > 2
    by_session: dict[str, list[SampleRequest]] = {}
    for request in engine.requests:
        by_session.setdefault(request.session, []).append(request)
    assert len(by_session) == len(episode.segments)
    for requests in by_session.values():
        for earlier, later in pairwise(requests):
            assert list(later.token_ids[: len(earlier.token_ids)]) == list(earlier.token_ids)
    assert engine.open == set()


def test_segments_are_what_the_policy_was_given_and_said() -> None:
    """L4: the row of a segment is, token by token, the context that was sampled from."""
    episode, engine = played(Pages(acts="each"))
    rows = [[*segment.prompt_ids, *segment.completion_ids] for segment in episode.segments]
    for request in engine.requests:
        assert any(row[: len(request.token_ids)] == list(request.token_ids) for row in rows)
    assert sum(len(turn.sampled_ids) for s in episode.segments for turn in s.turns) == sum(
        bit for segment in episode.segments for bit in segment.loss_mask
    )


def test_what_another_policy_wrote_is_not_trained() -> None:
    episode, engine = played(strategy=FrozenSummary(8, style=TINY))
    assert {request.sampler for request in engine.requests if request.kind is TurnKind.SUMMARY} == {"frozen"}
    assert {request.sampler for request in engine.requests if request.kind is TurnKind.ACT} == {"policy"}
    assert all(not any(segment.loss_mask) for segment in episode.segments[:-1])
    assert sum(episode.segments[-1].loss_mask) == len(episode.segments[-1].turns[-1].sampled_ids)


def test_a_sliding_window_asks_for_nothing() -> None:
    episode, engine = played(strategy=SlidingWindow())
    assert episode.status is Status.FINISHED
    assert len(episode.compactions) >= 2
    assert [request.kind for request in engine.requests] == [TurnKind.ACT]
    assert episode.metrics["summary_tokens"] == 0


def test_without_compaction_an_episode_that_outgrows_the_window_says_so() -> None:
    assert played(strategy=NoCompaction())[0].status is Status.WINDOW_OVERFLOW
    assert played(strategy=NoCompaction(), window=1000)[0].status is Status.FINISHED


def test_a_page_larger_than_the_window_is_split_and_all_of_it_arrives() -> None:
    episode, _ = played(Pages(pages=1, words=300))
    text = " ".join(RENDERER.decode([*s.completion_ids, *s.trailing_ids]) for s in episode.segments)
    expected = [WORDS[(1 + index) % len(WORDS)] for index in range(300)]
    assert [word for word in text.split() if word in WORDS[1:]] == [word for word in expected if word != "ada"]
    assert episode.status is Status.FINISHED


def test_or_cut_with_a_mark() -> None:
    environment = Pages(pages=1, words=300)
    engine = ScriptedEngine(answer, RENDERER)
    job = Job({}, "task", 0, lambda: environment, SelfSummary(8, style=TINY))
    (episode,) = collect([job], {"policy": engine}, RENDERER, Limits(window=128, act_tokens=8, oversize="cut"))
    (segment,) = episode.segments
    marked = list(RENDERER.content_ids(TRUNCATION_MARK))
    ids = [*segment.completion_ids, *segment.trailing_ids]
    assert any(ids[start : start + len(marked)] == marked for start in range(len(ids)))
    assert episode.metrics["peak_context"] <= 128


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"environment": Pages(acts="each"), "max_turns": 3}, Status.OUT_OF_TURNS),
        ({"max_compactions": 1}, Status.OUT_OF_COMPACTIONS),
        ({"environment": Pages(fail_at=3)}, Status.ENVIRONMENT_ERROR),
        ({"reply": lambda _: EngineFailure("no power")}, Status.ENGINE_ERROR),
        ({"environment": Pages(pages=10_000_000, words=1), "seconds": 0.05}, Status.TIMED_OUT),
    ],
)
def test_an_episode_that_cannot_go_on_has_a_status(changes: dict[str, Any], status: Status) -> None:
    episode, _ = played(**changes)
    assert episode.status is status
    assert episode.reward is not None or status is Status.ENVIRONMENT_ERROR
    environment = changes.get("environment")
    if isinstance(environment, Pages):
        assert environment.closed == 1


def test_errors_say_what_happened() -> None:
    assert "the printer burns" in str(played(Pages(fail_at=3))[0].error)
    assert "no power" in str(played(reply=lambda _: EngineFailure("no power"))[0].error)


def test_summaries_that_shrink_nothing_end_the_episode() -> None:
    """Pitfall 8. Kept messages may be larger than what the window had."""

    class Hoarder(SelfSummary):
        def due(self, state: Any) -> bool:
            return True

    episode, _ = played(strategy=Hoarder(8, style=TINY, keep_last=99))
    assert episode.status is Status.INEFFECTIVE_COMPACTION
    assert len(episode.compactions) >= 2
    assert all(c.tokens_after >= c.tokens_before for c in episode.compactions[-2:])


def test_a_summary_that_was_cut_off_or_malformed_is_counted() -> None:
    long, _ = played(reply=lambda r: " ".join(WORDS) + " ada alan" if r.kind is TurnKind.SUMMARY else "oslo")
    assert all(c.cut_off for c in long.compactions)
    assert all(s.turns[-1].finish is Finish.LENGTH for s in long.segments[:-1])
    assert long.metrics["cut_off_summaries"] == len(long.compactions)
    empty, _ = played(reply=lambda r: "" if r.kind is TurnKind.SUMMARY else "oslo")
    assert all(c.malformed and c.kept == (False,) for c in empty.compactions)
    assert empty.status is Status.FINISHED


def test_counts_are_the_same_where_token_ids_are_not_kept() -> None:
    kept, _ = played(Pages(acts="each"))
    light, _ = played(Pages(acts="each"), keep_segments=False)
    assert light.segments == ()
    assert {k: v for k, v in light.metrics.items() if k != "seconds"} == {
        k: v for k, v in kept.metrics.items() if k != "seconds"
    }
    assert light.compactions == kept.compactions


def test_a_window_too_small_for_prompt_and_reserve_is_refused() -> None:
    with pytest.raises(UserError, match=r"window is 50 tokens.*set window above \d+"):
        played(window=50)


def test_a_huge_episode_holds_no_more_than_one_window() -> None:
    episode, _ = played(Pages(pages=3000, words=20), keep_segments=False)
    assert len(episode.compactions) > 500
    assert episode.metrics["peak_context"] <= 128
    assert episode.metrics["tokens_forwarded"] > 60_000
