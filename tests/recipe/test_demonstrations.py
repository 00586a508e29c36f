"""Scripted writers: what each keeps, and windows that look like those of real episodes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from recipe.config import CompactionArguments, EpisodeArguments
from recipe.demonstrations import (
    answer,
    careless_summary,
    demonstrations,
    expert_summary,
    repeated_spans,
    statements,
)
from recipe.midtrain import check_demonstrable
from rollouts.episode import Segment, TurnKind
from rollouts.policies.tiny import tiny_model, tiny_tokenizer
from rollouts.rendering import Renderer
from rollouts.runner import Limits
from summarization.resolve import UserError

RENDERER = Renderer(tiny_tokenizer())
PAGES = "ada oslo . harp king . rain fell . ada rome . tea 20 ."
REQUEST = " summarize in 8 tokens : where is ada ?"


def made(count: int, seed: int = 0, **changes: Any) -> list[Segment]:
    settings: dict[str, Any] = {
        "environment": {"page_words": 32, "facts_per_page": 4},
        "budgets": [8, 40],
        "kinds": ["find", "latest"],
        "expert_share": 0.5,
        "drill_share": 0.5,
        "words": (100, 400),
    }
    rows = demonstrations(RENDERER, Limits(window=256, act_tokens=8), seed=seed, **{**settings, **changes})
    return list(itertools.islice(rows, count))


def test_statements_are_found_in_the_order_of_their_last_mention() -> None:
    assert list(statements(PAGES).items()) == [
        ("harp", "harp king"),
        ("ada", "ada rome"),
        ("tea", "tea 20"),
    ]


def test_the_expert_keeps_what_the_task_needs() -> None:
    assert expert_summary(PAGES + REQUEST, 4) == "ada rome ."
    # With more room it also keeps what was read last.
    assert expert_summary(PAGES + REQUEST, 40) == "ada rome . tea 20 . harp king ."


def test_without_it_the_expert_says_so() -> None:
    assert expert_summary(PAGES + " summarize in 4 tokens : where is zelda ?", 4) == "unknown ."


@pytest.mark.parametrize("budget", [2, 4, 5, 8, 20])
def test_summaries_fit_their_budget(budget: int) -> None:
    for write in (expert_summary, careless_summary):
        assert len(RENDERER.content_ids(write(PAGES + REQUEST, budget))) + 1 <= max(budget, 3)


def test_the_careless_writer_keeps_the_newest_that_fit() -> None:
    assert careless_summary(PAGES + REQUEST, 40) == "tea 20 . ada rome . harp king ."
    assert careless_summary("rain fell" + REQUEST, 40) == "none ."


def test_the_careless_writer_first_repeats_what_was_carried_at_its_latest_value() -> None:
    assert careless_summary("harp duke . " + PAGES + REQUEST, 4, "harp duke .") == "harp king ."
    assert careless_summary("bread 7 . " + PAGES + REQUEST, 4, "bread 7 .") == "bread 7 ."
    assert careless_summary("bread 7 . " + PAGES + REQUEST, 9, "bread 7 .") == "bread 7 . tea 20 ."
    assert careless_summary(PAGES + REQUEST, 4, "unknown .") == "unknown ."


def test_answers_are_the_latest_statement_in_the_window() -> None:
    assert answer(PAGES + " where is ada ?") == "ada rome"
    assert answer(PAGES + " who owns harp ? how much is tea ?") == "tea 20"
    assert answer(PAGES + " where is zelda ?") == "unknown"
    assert answer(PAGES) == "unknown"


def test_demonstrations_depend_on_their_seed_alone() -> None:
    assert made(40) == made(40)
    assert made(40) != made(40, seed=1)


def test_windows_hold_and_their_words_are_known() -> None:
    unknown = RENDERER.tokenizer.unk_token_id
    for segment in made(300):
        assert segment.length <= 256
        assert unknown not in (*segment.prompt_ids, *segment.completion_ids)
        for turn in segment.turns:
            assert len(turn.sampled_ids) <= (40 if turn.kind is TurnKind.SUMMARY else 8)
            assert turn.sampled_ids[-1] in RENDERER.stop_ids


def test_what_is_demonstrated_can_be_read_off_the_window() -> None:
    """Copy and lookup: every statement that is sampled stands in the context before it."""
    said = 0
    for segment in made(300):
        context = list(segment.prompt_ids)
        for turn in segment.turns:
            context += turn.appended_ids
            before = statements(RENDERER.decode(context))
            for key, statement in statements(RENDERER.decode(turn.sampled_ids)).items():
                assert before[key] == statement
                said += 1
            context += turn.sampled_ids
    assert said > 500


def test_experts_write_their_share() -> None:
    def relevant(share: float) -> float:
        kept = total = 0
        for segment in made(600, expert_share=share, drill_share=0.0, budgets=[8]):
            *_, last = segment.turns
            if last.kind is TurnKind.SUMMARY:
                context = RENDERER.decode([*segment.prompt_ids, *segment.completion_ids[: -len(last.sampled_ids)]])
                needed = statements(context).get(context.split()[-2])
                if needed:
                    total += 1
                    kept += needed in RENDERER.decode(last.sampled_ids)
        return kept / total

    assert relevant(1.0) == 1.0
    assert relevant(0.0) < 0.3
    assert relevant(0.0) < relevant(0.5) < 1.0


def test_spans_are_repeated() -> None:
    rows = list(repeated_spans(range(5, 50), 100, 6, 24, 0))
    assert len(rows) == 100
    for row in rows:
        assert 12 <= len(row) <= 48
        assert row[: len(row) // 2] == row[len(row) // 2 :]
    assert rows == list(repeated_spans(range(5, 50), 100, 6, 24, 0))


@pytest.mark.parametrize(
    ("episodes", "compaction"),
    [
        ({"environment": "collections:OrderedDict"}, {"prompt_style": "tiny"}),
        ({"environment_kwargs": {"style": "prose"}}, {"prompt_style": "tiny"}),
        ({}, {"prompt_style": "default"}),
    ],
)
def test_what_no_writer_can_demonstrate_is_refused(episodes: dict[str, Any], compaction: dict[str, Any]) -> None:
    check_demonstrable(EpisodeArguments(), CompactionArguments(prompt_style="tiny"))
    with pytest.raises(UserError, match="midtrain"):
        check_demonstrable(EpisodeArguments(**episodes), CompactionArguments(**compaction))


def test_the_tiny_policy_knows_every_word_it_may_meet() -> None:
    tokenizer = tiny_tokenizer()
    assert len(tokenizer) == len(tokenizer.get_vocab())
    model = tiny_model(tokenizer, 0, hidden=16, layers=1, heads=2)
    assert model.config.vocab_size == len(tokenizer)
