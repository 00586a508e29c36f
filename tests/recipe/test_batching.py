"""Laws L3 and L7 at the level of rows: every sampled token once, whatever is padded or cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recipe.batching import Row, assert_exactly_once, collate, idle_micro_batch, micro_batches, rows_of
from rollouts.episode import Episode, Segment, Turn, TurnKind
from tests.recipe.worlds import random_episode, windowed_episode


def episodes(count: int, seed: int = 0, **shape: Any) -> list[Episode]:
    return [random_episode({"row": index}, 0, seed, **shape) for index in range(count)]


def trained_turns(episode: Episode) -> list[Turn]:
    return [turn for segment in episode.segments for turn in segment.turns if turn.trained]


def rows(made: list[Episode]) -> list[Row]:
    """Rows whose every turn has an advantage of its own."""
    return [row for e in made for row in rows_of(e, [index + 1.0 for index, _ in enumerate(trained_turns(e))])]


def test_a_turns_advantage_is_spread_over_its_sampled_tokens() -> None:
    first = Segment(
        (1, 2), (Turn((3,), (4, 5), (-0.1, -0.2), TurnKind.ACT), Turn((6,), (7,), (-0.3,), TurnKind.SUMMARY))
    )
    second = Segment((1,), (Turn((8, 9), (10, 11), (-0.4, -0.5), TurnKind.ACT),))
    episode = replace(episodes(1)[0], segments=(first, second))
    assert [row.advantages for row in rows_of(episode, [1.0, 2.0, 3.0])] == [
        (0.0, 1.0, 1.0, 0.0, 2.0),
        (0.0, 0.0, 3.0, 3.0),
    ]


def test_segments_in_which_the_policy_sampled_nothing_are_no_rows() -> None:
    foreign = Segment((1,), (Turn((2,), (3,), (0.0,), TurnKind.SUMMARY, trained=False),))
    own = Segment((1,), (Turn((2,), (3,), (0.0,), TurnKind.ACT),))
    episode = replace(episodes(1)[0], segments=(foreign, own))
    (row,) = rows_of(episode, [1.0])
    assert row.segment == own


@pytest.mark.parametrize("change", [-1, 1])
def test_every_trained_turn_needs_an_advantage_of_its_own(change: int) -> None:
    episode = episodes(1)[0]
    count = len(trained_turns(episode))
    with pytest.raises(AssertionError, match=f"{count + change} advantages for {count} trained turns"):
        rows_of(episode, [1.0] * (count + change))


def test_exactly_once_holds_for_what_rows_of_makes() -> None:
    made = episodes(20)
    assert_exactly_once(made, rows(made))


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(lambda made: made[:-1], id="a row is missing"),
        pytest.param(lambda made: [*made, made[-1]], id="a row is twice there"),
        pytest.param(lambda made: [made[1], made[0], *made[2:]], id="rows change places"),
        pytest.param(
            lambda made: [replace(made[0], advantages=made[0].advantages[:-1]), *made[1:]], id="an advantage is missing"
        ),
    ],
)
def test_exactly_once_sees_rows(broken: Callable[[list[Row]], list[Row]]) -> None:
    made = episodes(5)
    with pytest.raises(AssertionError, match=r"tokens were sampled|advantages for"):
        assert_exactly_once(made, broken(rows(made)))


def _drop(turn: Turn, at: int) -> Turn:
    kept = [index for index in range(len(turn.sampled_ids)) if index != at]
    return replace(
        turn,
        sampled_ids=tuple(turn.sampled_ids[index] for index in kept),
        logprobs=tuple(turn.logprobs[index] for index in kept),
    )


def _double(turn: Turn, at: int) -> Turn:
    ids, logprobs = turn.sampled_ids, turn.logprobs
    return replace(turn, sampled_ids=(*ids[: at + 1], *ids[at:]), logprobs=(*logprobs[: at + 1], *logprobs[at:]))


def _another_token(turn: Turn, at: int) -> Turn:
    ids = turn.sampled_ids
    return replace(turn, sampled_ids=(*ids[:at], ids[at] + 1, *ids[at + 1 :]))


def _another_logprob(turn: Turn, at: int) -> Turn:
    logprobs = turn.logprobs
    return replace(turn, logprobs=(*logprobs[:at], logprobs[at] - 1e-6, *logprobs[at + 1 :]))


def _masked(turn: Turn, at: int) -> Turn:
    return replace(turn, trained=False)


def _unmasked(turn: Turn, at: int) -> Turn:
    """An observation's last token is trained as though it had been sampled."""
    appended = (*turn.appended_ids, 5)
    return replace(
        turn,
        appended_ids=appended[:-1],
        sampled_ids=(appended[-1], *turn.sampled_ids),
        logprobs=(0.0, *turn.logprobs),
    )


@pytest.mark.parametrize("spoil", [_drop, _double, _another_token, _another_logprob, _masked, _unmasked])
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), data=st.data())
def test_exactly_once_sees_any_one_token(spoil: Callable[[Turn, int], Turn], seed: int, data: st.DataObject) -> None:
    made = episodes(3, seed)
    right = rows(made)
    assert_exactly_once(made, right)
    row = data.draw(st.integers(0, len(right) - 1))
    segment = right[row].segment
    turn = data.draw(st.integers(0, len(segment.turns) - 1))
    at = data.draw(st.integers(0, len(segment.turns[turn].sampled_ids) - 1))
    turns = (*segment.turns[:turn], spoil(segment.turns[turn], at), *segment.turns[turn + 1 :])
    spoilt = replace(segment, turns=turns)
    # The advantages fit, so that it is the tokens that are seen.
    wrong = Row(spoilt, (1.0,) * len(spoilt.completion_ids))
    with pytest.raises(AssertionError, match="tokens were sampled"):
        assert_exactly_once(made, [*right[:row], wrong, *right[row + 1 :]])


def test_prompts_are_padded_left_and_completions_right() -> None:
    made = rows(episodes(6))
    batch = collate(made, len(made) + 2, pad_id=0, device="cpu")
    assert batch["prompt_ids"].shape[0] == len(made) + 2
    for index, row in enumerate(made):
        prompt, completion = row.segment.prompt_ids, row.segment.completion_ids
        assert batch["prompt_ids"][index].tolist()[-len(prompt) :] == list(prompt)
        assert batch["prompt_mask"][index].tolist() == [0] * (batch["prompt_ids"].size(1) - len(prompt)) + [1] * len(
            prompt
        )
        rest = batch["completion_ids"].size(1) - len(completion)
        assert batch["completion_ids"][index].tolist() == [*completion, *[0] * rest]
        assert batch["completion_mask"][index].tolist() == [1] * len(completion) + [0] * rest
        assert batch["tool_mask"][index].tolist() == [*row.segment.loss_mask, *[0] * rest]
        assert batch["advantages"][index].tolist() == [*row.advantages, *[0.0] * rest]
        assert batch["sampling_logps"][index].tolist() == pytest.approx([*row.segment.logprobs, *[0.0] * rest])
    for index in range(len(made), len(made) + 2):
        assert int(batch["tool_mask"][index].sum()) == 0
        assert float(batch["advantages"][index].abs().sum()) == 0.0
        # One token on either side, where a real row would have one too.
        assert batch["prompt_mask"][index].nonzero().tolist() == [[batch["prompt_ids"].size(1) - 1]]
        assert batch["completion_mask"][index].nonzero().tolist() == [[0]]
    with pytest.raises(AssertionError, match="do not fit"):
        collate(made, len(made) - 1, 0, "cpu")


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000), budget=st.integers(1, 400), padding=st.integers(0, 5), skip=st.booleans())
def test_micro_batches_hold_every_sampled_token_once(seed: int, budget: int, padding: int, skip: bool) -> None:
    made = rows(episodes(5, seed))
    batch = collate(made, len(made) + padding, 0, "cpu")
    wanted = Counter(
        (token, advantage, float(torch.tensor(logprob)))
        for row in made
        for token, advantage, logprob, bit in zip(
            row.segment.completion_ids, row.advantages, row.segment.logprobs, row.segment.loss_mask, strict=True
        )
        if bit
    )
    found: Counter[tuple[int, float, float]] = Counter()
    lengths: list[int] = []
    for chunk in micro_batches(batch, budget, skip_idle=skip):
        b = chunk.batch
        real = int(b["prompt_mask"].sum() + b["completion_mask"].sum())
        forwarded = b["prompt_ids"].numel() + b["completion_ids"].numel()
        assert (chunk.tokens, chunk.padding) == (real, forwarded - real)
        assert forwarded <= budget or len(chunk.rows) == 1
        # Padding stands on the right only.
        for row in torch.cat([b["prompt_mask"], b["completion_mask"]], 1).tolist():
            assert row == sorted(row, reverse=True)
            lengths.append(sum(row))
        mask = (b["completion_mask"] * b["tool_mask"]).bool()
        assert chunk.sampled == int(mask.sum())
        for token, advantage, logprob in zip(
            b["completion_ids"][mask].tolist(),
            b["advantages"][mask].tolist(),
            b["sampling_logps"][mask].tolist(),
            strict=True,
        ):
            found[token, advantage, logprob] += 1
        for position, index in enumerate(chunk.rows):
            ids = torch.cat([b["prompt_ids"][position], b["completion_ids"][position]]).tolist()
            segment = made[index].segment
            assert ids[: len(segment.prompt_ids) + len(segment.completion_ids)] == [
                *segment.prompt_ids,
                *segment.completion_ids,
            ]
    assert found == wanted
    assert lengths == sorted(lengths)


def test_rows_without_advantage_are_left_out_only_where_asked() -> None:
    made = [
        replace(row, advantages=(0.0,) * len(row.advantages)) if index % 2 else row
        for index, row in enumerate(rows(episodes(6)))
    ]
    batch = collate(made, len(made) + 1, 0, "cpu")
    forwarded = [sorted(i for c in micro_batches(batch, 300, skip_idle=skip) for i in c.rows) for skip in (True, False)]
    assert forwarded == [list(range(0, len(made), 2)), list(range(len(made)))]


def test_a_row_is_idle_only_if_all_its_advantages_are_zero() -> None:
    """One token with an advantage, of either sign, keeps its row; an advantage that the mask hides does not."""
    made = [replace(row, advantages=(0.0,) * len(row.advantages)) for row in rows(episodes(4))][:4]
    batch = collate(made, 4, 0, "cpu")
    last = [int(batch["tool_mask"][index].nonzero()[-1]) for index in range(4)]
    batch["advantages"][0, last[0]] = 0.5
    batch["advantages"][1, last[1]] = -0.5
    batch["tool_mask"][2, 0] = 0
    batch["advantages"][2, 0] = 0.5
    assert sorted(i for chunk in micro_batches(batch, 10_000, skip_idle=True) for i in chunk.rows) == [0, 1]
    batch["advantages"].zero_()
    assert list(micro_batches(batch, 10_000, skip_idle=True)) == []
    chunks = micro_batches(batch, 10_000, skip_idle=False)
    assert sorted(row for chunk in chunks for row in chunk.rows) == [0, 1, 2, 3]


def test_a_budget_is_used_up_to_its_last_token() -> None:
    """Four rows of ten tokens: 20 hold two, 19 hold one, and a row beyond the budget goes alone."""
    segment = Segment((1, 2, 3), (Turn((4, 5), (6, 7, 8, 9, 10), (-0.5,) * 5, TurnKind.ACT),))
    batch = collate([Row(segment, (1.0,) * 7)] * 4, 4, 0, "cpu")
    sizes = {b: [len(chunk.rows) for chunk in micro_batches(batch, b, skip_idle=False)] for b in (1, 19, 20, 39, 40)}
    assert sizes == {1: [1] * 4, 19: [1] * 4, 20: [2, 2], 39: [3, 1], 40: [4]}


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), budgets=st.tuples(st.integers(1, 400), st.integers(1, 400)))
def test_a_token_keeps_its_whole_context_however_rows_are_cut(seed: int, budgets: tuple[int, int]) -> None:
    """Law L7 without a model: what a causal model may condition on, and what the token is worth, do not change."""
    made = rows(episodes(4, seed))
    batch = collate(made, len(made) + 2, 0, "cpu")

    def seen(budget: int) -> Counter[tuple[tuple[int, ...], float, float]]:
        found: Counter[tuple[tuple[int, ...], float, float]] = Counter()
        for chunk in micro_batches(batch, budget, skip_idle=True):
            b = chunk.batch
            shared = b["prompt_ids"].size(1)
            ids = torch.cat([b["prompt_ids"], b["completion_ids"]], 1).tolist()
            for row, column in (b["completion_mask"] * b["tool_mask"]).nonzero().tolist():
                advantage, logprob = b["advantages"][row, column], b["sampling_logps"][row, column]
                found[tuple(ids[row][: shared + column + 1]), float(advantage), float(logprob)] += 1
        return found

    expected: Counter[tuple[tuple[int, ...], float, float]] = Counter()
    for row in made:
        whole = (*row.segment.prompt_ids, *row.segment.completion_ids)
        start = len(row.segment.prompt_ids)
        for t, bit in enumerate(row.segment.loss_mask):
            if bit:
                logprob = float(torch.tensor(row.segment.logprobs[t]))
                expected[whole[: start + t + 1], row.advantages[t], logprob] += 1
    assert [seen(budget) for budget in budgets] == [expected, expected]


def test_padding_is_little_on_a_mix_of_one_to_twelve_segments() -> None:
    made = rows(episodes(64, segments=(1, 12), turns=(1, 8)))
    chunks = list(micro_batches(collate(made, len(made), 0, "cpu"), 1024, skip_idle=False))
    padding, tokens = sum(c.padding for c in chunks), sum(c.tokens for c in chunks)
    assert padding / (padding + tokens) < 0.10


@pytest.mark.parametrize("padding", [0, 2])
def test_an_idle_micro_batch_trains_nothing(padding: int) -> None:
    made = rows(episodes(3))
    shortest = min(len(row.segment.prompt_ids) + len(row.segment.completion_ids) for row in made)
    chunk = idle_micro_batch(collate(made, len(made) + padding, 0, "cpu"))
    assert (chunk.sampled, chunk.tokens) == (0, 0)
    assert float(chunk.batch["advantages"].abs().sum()) == 0.0
    assert int(chunk.batch["tool_mask"].sum()) == 0
    assert chunk.padding == chunk.batch["prompt_ids"].numel() + chunk.batch["completion_ids"].numel()
    assert chunk.padding == (2 if padding else shortest)


def test_other_tensors_of_the_batch_are_cut_alike() -> None:
    made = rows(episodes(4))
    batch = collate(made, len(made), 0, "cpu")
    batch["old_per_token_logps"] = batch["completion_ids"].float()
    batch["num_items_in_batch"] = torch.tensor(7.0)
    for chunk in micro_batches(batch, 100, skip_idle=False):
        # What stands before the first sampled token may be the rest of a prompt, of which such tensors know nothing.
        mask = chunk.batch["tool_mask"].bool()
        assert torch.equal(chunk.batch["old_per_token_logps"][mask], chunk.batch["completion_ids"][mask].float())
        assert float(chunk.batch["num_items_in_batch"]) == 7.0


def forwards(segments: tuple[int, int], budget: int) -> list[tuple[int, int]]:
    """Tokens and padding of each micro-batch of 16 episodes of so many segments."""
    made = [windowed_episode({"row": index}, 0, 0, 256, segments) for index in range(16)]
    table = rows(made)
    batch = collate(table, len(table), 0, "cpu")
    chunks = list(micro_batches(batch, budget, skip_idle=False))
    assert sum(chunk.sampled for chunk in chunks) == sum(row.segment.sampled_tokens for row in table)
    return [(chunk.tokens, chunk.padding) for chunk in chunks]


def test_a_tenth_at_most_is_padding_for_episodes_of_1_to_12_segments() -> None:
    made = forwards((1, 12), 16384)
    tokens, padding = (sum(column) for column in zip(*made, strict=True))
    assert padding <= 0.1 * (tokens + padding)


def test_what_a_forward_holds_depends_on_the_budget_and_not_on_the_number_of_segments() -> None:
    for segments in ((1, 1), (12, 12), (60, 60)):
        sizes = [tokens + padding for tokens, padding in forwards(segments, 4096)]
        assert max(sizes) <= 4096
    assert len(sizes) > 40


def test_rows_are_kept_apart_only_where_sharing_saves_enough() -> None:
    """Kin of the benchmark's episodes share nothing; four rows that begin with 100 equal tokens share those."""
    table = rows([windowed_episode({"row": index}, 0, 0, 256, (1, 12)) for index in range(16)])
    batch = collate(table, len(table), 0, "cpu")
    apart = list(micro_batches(batch, 4096, skip_idle=False, share=True))
    pooled = list(micro_batches(batch, 4096, skip_idle=False))
    assert [chunk.rows for chunk in apart] == [chunk.rows for chunk in pooled]
    assert not any(chunk.shared for chunk in apart)

    opening = tuple(range(10, 110))
    alike = [Segment(opening, (Turn((5, index), (6,), (-1.0,), TurnKind.ACT),)) for index in range(4)]
    table += [Row(segment, (1.0,) * len(segment.completion_ids), kin=7) for segment in alike]
    chunks = list(micro_batches(collate(table, len(table), 0, "cpu"), 4096, skip_idle=False, share=True))
    assert [chunk.shared for chunk in chunks if chunk.shared] == [101]
    assert [sorted(chunk.rows) for chunk in chunks if chunk.shared] == [list(range(len(table) - 4, len(table)))]
