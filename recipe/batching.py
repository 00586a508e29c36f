"""Segments -> rows -> micro-batches. The only file that knows the names of TRL's batch.

A segment with sampled tokens is a row. In the batch that TRL shuffles and splits, prompts are padded on the left and
completions on the right. A micro-batch is cut from it by a budget of tokens and padded anew::

    batch       [....prompt|completion.....]      micro-batch   [shared|rest of prompt, completion]
                [prompt....|completion.....]                    [shared|rest.....................]
                [......prom|completion.....]                    [shared|rest................]....

so that padding stands on the right only, and only up to the longest row of the micro-batch. Rows that begin alike go
together, so that what they share is forwarded once: the first segments of a task's attempts up to their first sample,
and all other segments of it up to their summaries.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from rollouts.episode import Episode, Segment

Batch = dict[str, torch.Tensor]
MOST_PADDING = 0.1
"""The share of a micro-batch that may be padding."""
LEAST_SHARED = 0.05
"""The share of a micro-batch that a common prefix must save to be forwarded by itself."""


@dataclass(frozen=True)
class Row:
    """One training row: a segment and an advantage for each of its completion tokens, (T,).

    ``kin`` is equal for rows that begin alike: first segments of one task, or later ones.
    """

    segment: Segment
    advantages: tuple[float, ...]
    kin: int = 0


def rows_of(episode: Episode, turn_advantages: Sequence[float]) -> list[Row]:
    """The rows of an episode; segments in which the trained policy sampled nothing give none.

    Args:
        turn_advantages: One for each trained turn of the episode, in order over all segments.
    """
    trained = sum(turn.trained for segment in episode.segments for turn in segment.turns)
    if len(turn_advantages) != trained:
        raise AssertionError(f"{len(turn_advantages)} advantages for {trained} trained turns")
    remaining = iter(turn_advantages)
    rows: list[Row] = []
    for segment in episode.segments:
        advantages: list[float] = []
        for turn in segment.turns:
            advantages += [0.0] * len(turn.appended_ids)
            advantages += [next(remaining) if turn.trained else 0.0] * len(turn.sampled_ids)
        if segment.sampled_tokens:
            rows.append(Row(segment, tuple(advantages), _kin(episode, segment)))
    return rows


def _kin(episode: Episode, segment: Segment) -> int:
    """A number for the opening of an episode and for whether a segment is its first; equal on every rank."""
    opening = episode.segments[0]
    return zlib.crc32(repr((opening.prompt_ids, segment is opening)).encode())


def assert_exactly_once(episodes: Sequence[Episode], rows: Sequence[Row]) -> None:
    """Law L3: every token that the policy sampled is in one row, unmasked, with its log-probability; no other is.

    Raises:
        AssertionError: It is not so.
    """
    sampled = [
        (token, logprob)
        for episode in episodes
        for segment in episode.segments
        for turn in segment.turns
        if turn.trained
        for token, logprob in zip(turn.sampled_ids, turn.logprobs, strict=True)
    ]
    trained = [
        (token, logprob)
        for row in rows
        for token, logprob, bit in zip(
            row.segment.completion_ids, row.segment.logprobs, row.segment.loss_mask, strict=True
        )
        if bit
    ]
    if sampled != trained:
        raise AssertionError(f"{len(sampled)} tokens were sampled, {len(trained)} are trained; they must be the same")
    for row in rows:
        if len(row.advantages) != len(row.segment.completion_ids):
            raise AssertionError(f"{len(row.advantages)} advantages for {len(row.segment.completion_ids)} tokens")


def collate(rows: Sequence[Row], count: int, pad_id: int, device: torch.device | str) -> Batch:
    """The rows as TRL's batch, filled up with rows of padding to ``count``.

    Returns:
        ``prompt_ids``, ``prompt_mask`` (R, P); ``completion_ids``, ``completion_mask``, ``tool_mask``, ``advantages``,
        ``sampling_logps`` (R, T), ``kin`` (R,). A row of padding has one prompt token and one completion token, both
        masked from the loss, so that a forward pass over it is defined.
    """
    if len(rows) > count:
        raise AssertionError(f"{len(rows)} rows do not fit into {count}")
    prompt = max((len(row.segment.prompt_ids) for row in rows), default=1)
    completion = max((len(row.segment.completion_ids) for row in rows), default=1)
    batch: Batch = {
        "prompt_ids": torch.full((count, prompt), pad_id),
        "prompt_mask": torch.zeros((count, prompt), dtype=torch.long),
        "completion_ids": torch.full((count, completion), pad_id),
        "completion_mask": torch.zeros((count, completion), dtype=torch.long),
        "tool_mask": torch.zeros((count, completion), dtype=torch.long),
        "advantages": torch.zeros((count, completion)),
        "sampling_logps": torch.zeros((count, completion)),
        "kin": torch.zeros(count, dtype=torch.long),
    }
    for index, row in enumerate(rows):
        segment, p, t = row.segment, len(row.segment.prompt_ids), len(row.segment.completion_ids)
        batch["prompt_ids"][index, prompt - p :] = torch.tensor(segment.prompt_ids)
        batch["prompt_mask"][index, prompt - p :] = 1
        batch["completion_ids"][index, :t] = torch.tensor(segment.completion_ids)
        batch["completion_mask"][index, :t] = 1
        batch["tool_mask"][index, :t] = torch.tensor(segment.loss_mask)
        batch["advantages"][index, :t] = torch.tensor(row.advantages)
        batch["sampling_logps"][index, :t] = torch.tensor(segment.logprobs)
        batch["kin"][index] = row.kin
    batch["prompt_mask"][len(rows) :, -1] = 1
    batch["completion_mask"][len(rows) :, 0] = 1
    return {name: tensor.to(device) for name, tensor in batch.items()}


@dataclass(frozen=True)
class MicroBatch:
    """Rows that are forwarded together, in TRL's names.

    Attributes:
        batch: As :func:`collate` returns it, padded on the right only.
        rows: Indices of its rows in the batch that it was cut from.
        tokens: Tokens forwarded, padding left out.
        padding: Padding forwarded.
        sampled: Tokens that are trained.
        shared: Leading tokens, equal in all rows and not trained, that are forwarded once.
    """

    batch: Batch
    rows: tuple[int, ...]
    tokens: int
    padding: int
    sampled: int
    shared: int = 0


def micro_batches(
    batch: Mapping[str, torch.Tensor], token_budget: int, skip_idle: bool, share: bool = False
) -> Iterator[MicroBatch]:
    """Cut a batch into micro-batches of at most ``token_budget`` tokens, padding included (or of one row).

    Rows of similar length go together: a micro-batch also ends where a tenth of it would be padding.

    Args:
        batch: As :func:`collate` returns it, perhaps with more (R, T) tensors.
        token_budget: Rows times the longest of them.
        skip_idle: Leave out rows in which every advantage is zero, since they have no gradient.
        share: Have what rows have in common at their beginning forwarded once, where that saves enough.
    """
    mask = batch["completion_mask"] * batch["tool_mask"]
    wanted = ((batch["advantages"] * mask) != 0).any(1) if skip_idle else mask.any(1)
    prompts, lengths = batch["prompt_mask"].sum(1), batch["completion_mask"].sum(1)
    totals = (prompts + lengths).tolist()
    order = sorted((i for i in range(len(totals)) if wanted[i]), key=lambda i: totals[i])
    for family in _families(batch, order) if share else [order]:
        start = 0
        while start < len(family):
            end, tokens = start + 1, totals[family[start]]
            while end < len(family):
                longest = totals[family[end]]
                area, tokens = (end + 1 - start) * longest, tokens + longest
                if area > token_budget or area - tokens > MOST_PADDING * area:
                    break
                end += 1
            yield _cut(batch, family[start:end], share)
            start = end


def _families(batch: Mapping[str, torch.Tensor], rows: Sequence[int]) -> list[list[int]]:
    """Rows that begin alike apart from others, if what they share is worth it; all other rows together, as in ``rows``.

    Smaller micro-batches cost time too, so rows are not kept apart for nothing.
    """
    kin: dict[int, list[int]] = {}
    for row, number in zip(rows, batch["kin"][list(rows)].tolist(), strict=True):
        kin.setdefault(number, []).append(row)
    families = [family for family in kin.values() if len(family) > 1 and _cut(batch, family, share=True).shared]
    apart = {row for family in families for row in family}
    rest = [row for row in rows if row not in apart]
    return [*families, *([rest] if rest else [])]


def _cut(batch: Mapping[str, torch.Tensor], rows: list[int], share: bool = False) -> MicroBatch:
    """Some rows, padded to the longest of them; with ``share``, their common prefix counts once where it is long."""
    index = torch.tensor(rows, device=batch["prompt_ids"].device)
    prompt_lengths = batch["prompt_mask"][index].sum(1)
    completion_lengths = batch["completion_mask"][index].sum(1)
    shortest = int(prompt_lengths.min())
    width = int((prompt_lengths + completion_lengths).max())
    prompt_width = batch["prompt_ids"].size(1)
    # Column of the old layout that stands in each column of the new one, (B, width).
    columns = torch.arange(width, device=index.device)[None] + (prompt_width - prompt_lengths)[:, None]
    real = torch.arange(width, device=index.device)[None] < (prompt_lengths + completion_lengths)[:, None]
    columns = columns.clamp(max=prompt_width + batch["completion_ids"].size(1) - 1)

    def moved(prompt_part: torch.Tensor, completion_part: torch.Tensor) -> torch.Tensor:
        whole = torch.cat([prompt_part, completion_part], 1)[index]
        return torch.gather(whole, 1, columns) * real.to(whole.dtype)

    ids = moved(batch["prompt_ids"], batch["completion_ids"])
    mask = moved(batch["prompt_mask"], batch["completion_mask"])
    cut: Batch = {
        "prompt_ids": ids[:, :shortest],
        "prompt_mask": mask[:, :shortest],
        "completion_ids": ids[:, shortest:],
        "completion_mask": mask[:, shortest:],
    }
    for name, tensor in batch.items():
        if name not in cut:
            if tensor.dim() == 2:
                filling = torch.zeros_like(batch["prompt_ids"], dtype=tensor.dtype)
                cut[name] = moved(filling, tensor)[:, shortest:]
            else:
                cut[name] = tensor[index] if tensor.dim() == 1 else tensor
    tokens = int(real.sum())
    trained = cut["completion_mask"] * cut["tool_mask"]
    shared = _common_prefix(ids, real, trained) if share else 0
    return MicroBatch(
        cut, tuple(rows), tokens - shared * (len(rows) - 1), real.numel() - tokens, int(trained.sum()), shared
    )


def _common_prefix(ids: torch.Tensor, real: torch.Tensor, trained: torch.Tensor) -> int:
    """How many leading tokens all rows share, 0 where forwarding them once saves little.

    The last token before the first trained one is none of them: its hidden state predicts what is trained.

    Args:
        ids: Tokens, (B, T).
        real: What of them is no padding, (B, T).
        trained: What of the last of them is trained, (B, C).
    """
    before = trained.new_zeros(ids.size(0), ids.size(1) - trained.size(1))
    predicts = torch.cat([before, trained], 1)[:, 1:]  # (B, T-1)
    common = ((ids == ids[:1]) & real).all(0)[:-1] & ~predicts.any(0)
    shared = int(common.long().cumprod(0).sum())
    return shared if shared * (ids.size(0) - 1) >= LEAST_SHARED * ids.numel() else 0


def idle_micro_batch(batch: Mapping[str, torch.Tensor]) -> MicroBatch:
    """A micro-batch of one short row that trains nothing, for a rank that has fewer than the others."""
    lengths = batch["prompt_mask"].sum(1) + batch["completion_mask"].sum(1)
    chunk = _cut(batch, [int(lengths.argmin())])
    nothing = {name: torch.zeros_like(chunk.batch[name]) for name in ("tool_mask", "advantages")}
    return replace(chunk, batch={**chunk.batch, **nothing}, tokens=0, padding=chunk.tokens, sampled=0)
