"""An episode -> what the page shows of it: a row of the list, an outline, and a record of each window.

The row is read when the page opens, the outline when an episode is chosen, a window's record when it is turned to. All
are plain JSON; what JSON has no word for (NaN, infinities) becomes text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from eval.viewer.text import Decoder
from rollouts.episode import Compaction, Episode, Finish, Segment, Turn, TurnKind
from summarization.metrics import retention

Record = dict[str, Any]


def row(episode: Episode, source: str) -> Record:
    """What the list shows of an episode."""
    last = episode.compactions[-1] if episode.compactions else None
    kept = retention(episode.compactions)
    return {
        "task": episode.task_id,
        "attempt": episode.attempt,
        "source": source,
        "reward": number(episode.reward),
        "status": episode.status.value,
        "compactions": len(episode.compactions),
        "length": sum(window["length"] for window in _windows(episode)),
        "sampled": episode.sampled_tokens,
        "retention": None if kept is None else round(kept, 4),
        "held": [sum(last.kept), len(last.kept)] if last and last.needed else None,
    }


def outline(episode: Episode) -> Record:
    """All of an episode but its texts: what each window is made of, and what became of each needed fact."""
    return {
        "given": json.dumps(_plain(episode.task), indent=1, ensure_ascii=False),
        "error": episode.error,
        "metrics": {name: number(value) for name, value in episode.metrics.items()},
        "exact": bool(episode.segments),
        "windows": _windows(episode),
        "facts": facts(episode.compactions),
    }


def facts(compactions: Sequence[Compaction]) -> list[list[Any]]:
    """For each needed fact its text and its runs ``[first compaction, last compaction, kept]``, in the order in which
    the facts came to be needed. A fact may be lost and found again, and may cease to be needed."""
    runs: dict[str, list[list[int]]] = {}
    for index, compaction in enumerate(compactions):
        # A fact that is named twice is one fact.
        for fact, kept in dict(zip(compaction.needed, compaction.kept, strict=True)).items():
            of_fact = runs.setdefault(fact, [])
            if of_fact and of_fact[-1][1] == index - 1 and of_fact[-1][2] == int(kept):
                of_fact[-1][1] = index
            else:
                of_fact.append([index, index, int(kept)])
    return [[fact, of_fact] for fact, of_fact in runs.items()]


def texts(episode: Episode, decoder: Decoder | None) -> list[Record]:
    """The texts of each window. Without a decoder, or where token ids were not kept: what else the episode holds."""
    count = len(_windows(episode))
    if not episode.segments:
        found: list[Record] = [{"turns": []} for _ in range(count)]
        found[-1]["acts"] = list(episode.acts)
    else:
        said = iter(_said(episode))
        opening = episode.segments[0].prompt_ids
        found = [_segment_texts(segment, opening, decoder, said) for segment in episode.segments]
        found += [{"turns": []} for _ in range(count - len(found))]
    for compaction in episode.compactions:
        found[compaction.segment]["summary"] = compaction.summary
    return found


def _said(episode: Episode) -> list[str | None]:
    """What was sampled in each turn, as far as the episode tells without its tokens."""
    acts = sum(turn.kind is TurnKind.ACT for segment in episode.segments for turn in segment.turns)
    spoken = iter(episode.acts if len(episode.acts) == acts else [None] * acts)
    by_segment = {compaction.segment: compaction.summary for compaction in episode.compactions}
    return [
        next(spoken) if turn.kind is TurnKind.ACT else by_segment.get(index)
        for index, segment in enumerate(episode.segments)
        for turn in segment.turns
    ]


def _segment_texts(segment: Segment, opening: tuple[int, ...], decoder: Decoder | None, said: Any) -> Record:
    turns = [_turn_texts(turn, decoder, next(said)) for turn in segment.turns]
    if decoder is None:
        return {"turns": turns}
    shared = len(opening) if segment.prompt_ids[: len(opening)] == opening else 0
    return {
        "opening": decoder.messages(segment.prompt_ids[:shared]),
        "carried": decoder.messages(segment.prompt_ids[shared:]),
        "turns": turns,
        "trailing": decoder.messages(segment.trailing_ids),
    }


def _turn_texts(turn: Turn, decoder: Decoder | None, said: str | None) -> Record:
    if decoder is None:
        return {"said": said, "logprobs": []}
    return {
        "appended": decoder.messages(turn.appended_ids),
        "sampled": decoder.pieces(turn.sampled_ids),
        "logprobs": [number(round(value, 3)) for value in turn.logprobs],
    }


def _windows(episode: Episode) -> list[Record]:
    """What each window is made of, in tokens."""
    opening = episode.segments[0].prompt_ids if episode.segments else ()
    compactions = {compaction.segment: compaction for compaction in episode.compactions}
    count = max(len(episode.segments), max(compactions, default=-1) + 2)
    windows: list[Record] = []
    for index in range(count):
        made = _counted(episode, windows, compactions.get(index), compactions.get(index - 1))
        if index < len(episode.segments):
            made = _measured(episode.segments[index], opening)
        windows.append({**made, **_compacted(compactions.get(index))})
    return windows


def _measured(segment: Segment, opening: tuple[int, ...]) -> Record:
    shared = len(opening) if segment.prompt_ids[: len(opening)] == opening else 0
    return {
        "opening": shared,
        "prompt": len(segment.prompt_ids),
        "turns": [_turn(turn) for turn in segment.turns],
        "trailing": len(segment.trailing_ids),
        "length": segment.length,
    }


def _counted(episode: Episode, before: Sequence[Record], ends: Compaction | None, opens: Compaction | None) -> Record:
    """A window of which only counts were kept."""
    prompt = opens.tokens_after if opens else 0
    if ends is not None:
        length = ends.tokens_before + ends.summary_tokens
    else:
        length = int(episode.metrics.get("tokens_forwarded", 0)) - sum(window["length"] for window in before)
    summary = [[0, ends.summary_tokens, TurnKind.SUMMARY.value, 0, 1, None]] if ends and ends.summary_tokens else []
    length = max(length, prompt)
    return {"opening": 0, "prompt": prompt, "turns": summary, "trailing": 0, "length": length}


def _compacted(compaction: Compaction | None) -> Record:
    if compaction is None:
        return {}
    return {
        "before": compaction.tokens_before,
        "after": compaction.tokens_after,
        "summary": compaction.summary_tokens,
        "malformed": compaction.malformed,
        "cut_off": compaction.cut_off,
    }


def _turn(turn: Turn) -> list[Any]:
    """Appended and sampled tokens, kind, whether cut off, whether trained, advantage."""
    cut_off = int(turn.finish is Finish.LENGTH)
    advantage = None if turn.advantage is None else number(turn.advantage)
    return [len(turn.appended_ids), len(turn.sampled_ids), turn.kind.value, cut_off, int(turn.trained), advantage]


def number(value: float | None) -> float | str | None:
    """A number as JSON has it; NaN and infinities as text."""
    return value if value is None or math.isfinite(value) else str(value)


def _plain(value: Any) -> Any:
    """A task row as JSON has it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        return number(value)
    return value if value is None or isinstance(value, str | int | bool) else str(value)
