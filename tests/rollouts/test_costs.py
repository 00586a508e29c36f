"""What an episode may cost: every token forwarded once, every page made once, every text encoded once."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

import pytest

from rollouts.collect import collect
from rollouts.contents import Contents
from rollouts.engines.transformers import TransformersEngine
from rollouts.environments.recall import Recall, tasks
from rollouts.episode import Episode
from rollouts.jobs import jobs
from rollouts.policies.tiny import tiny_model, tiny_tokenizer
from rollouts.rendering import Renderer
from rollouts.runner import Limits
from summarization.prompts import TINY
from summarization.strategies import SelfSummary

WINDOW, GROUPS, SIZE = 256, 2, 4


class CountedPages(Recall):
    """``recall`` that counts the pages it makes."""

    made: ClassVar[Counter[tuple[int, int]]] = Counter()

    def page(self, index: int) -> str:
        self.made[self.seed, index] += 1
        return super().page(index)


def played(words: int = 900, sessions: int = GROUPS * SIZE) -> tuple[list[Episode], TransformersEngine, Renderer]:
    tokenizer = tiny_tokenizer()
    renderer = Renderer(tokenizer)
    engine = TransformersEngine(
        tiny_model(tokenizer, 0), window=WINDOW, stop_ids=renderer.stop_ids, max_sessions=sessions
    )
    CountedPages.made.clear()
    rows = [row for row in tasks("test", GROUPS, words, ["find"]) for _ in range(SIZE)]
    made = jobs(rows, lambda: CountedPages(page_words=32), SelfSummary(4, style=TINY), seed=0)
    return collect(made, {"policy": engine}, renderer, Limits(WINDOW, 4)), engine, renderer


def contexts(episodes: list[Episode]) -> list[list[int]]:
    """All that each window held, up to its last sampled token."""
    return [
        [*segment.prompt_ids, *(token for turn in segment.turns for token in (*turn.appended_ids, *turn.sampled_ids))]
        for episode in episodes
        for segment in episode.segments
    ]


@pytest.mark.parametrize("sessions", [1, 3, GROUPS * SIZE])
def test_every_token_of_a_window_is_forwarded_once_and_the_last_never(sessions: int) -> None:
    episodes, engine, _ = played(sessions=sessions)
    windows = contexts(episodes)
    assert len(windows) >= 5 * len(episodes)
    assert engine.forwarded_tokens + engine.shared_tokens == sum(len(ids) - 1 for ids in windows)
    # Siblings read the same pages in their first windows, up to what they sample at its end.
    assert (engine.shared_tokens > 0) == (sessions > 1)


def test_a_window_takes_one_prefill_and_a_forward_for_each_further_token() -> None:
    """However many pages it holds, and with all sessions in the same forwards."""
    forwards: list[tuple[int, ...]] = []

    def note(module: Any, inputs: Any, settings: dict[str, Any]) -> None:
        forwards.append(tuple(settings["input_ids"].shape))

    tokenizer = tiny_tokenizer()
    renderer = Renderer(tokenizer)
    model = tiny_model(tokenizer, 0)
    model.register_forward_pre_hook(note, with_kwargs=True)
    engine = TransformersEngine(model, window=WINDOW, stop_ids=renderer.stop_ids, max_sessions=1)
    rows = list(tasks("test", 1, 2000, ["find"]))
    episodes = collect(
        jobs(rows, lambda: Recall(page_words=32), SelfSummary(4, style=TINY), seed=0),
        {"policy": engine},
        renderer,
        Limits(WINDOW, 4),
    )
    windows = contexts(episodes)
    sampled = episodes[0].sampled_tokens
    assert episodes[0].metrics["environment/pages"] > 4 * len(windows)
    assert len([shape for shape in forwards if shape[1] > 1]) == len(windows)
    assert len(forwards) == sampled
    assert engine.padded_tokens == 0


def test_pages_are_made_once_an_episode_and_texts_encoded_once_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()
    call = Contents.__call__

    def noted(self: Contents, text: str) -> tuple[int, ...]:
        asked[text] += 1
        return call(self, text)

    monkeypatch.setattr(Contents, "__call__", noted)
    episodes, _, renderer = played()
    pages = int(episodes[0].metrics["environment/pages"])
    assert len(CountedPages.made) == GROUPS * pages
    assert set(CountedPages.made.values()) == {SIZE}
    assert renderer._contents.encoded == len(asked)
    assert asked.total() > 3 * len(asked)


def test_a_longer_episode_keeps_no_more() -> None:
    """Sessions that are over are forgotten, and so are the texts of long ago."""
    for words in (900, 9000):
        _, engine, renderer = played(words)
        assert not engine._sessions
        assert engine._cache.slots <= GROUPS * SIZE
        assert renderer._contents._remembered.cache_info().currsize <= 1024
        assert len(renderer._pieces) < 16
        assert len(renderer._following) < 8
