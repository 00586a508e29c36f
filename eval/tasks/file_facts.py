"""Which facts the answer to a row of a public file needs, where the row itself tells: for survival and retention.

- RULER, where all references are asked for and look like nothing else (numbers, UUIDs, names of variables): each
  reference, from where the text first has it. Not for common words and for questions, whose references are words of
  everyday text: the first time that such a word stands there, it states nothing.
- MRCR: the reply asked for, whole. GraphWalks, parents: each parent, from its edge on; not for breadth-first search,
  whose way the row does not have. InfiniteBench's pass keys, numbers and key-value pairs: the value.

None for the others: the rows of BABILong, MemAgent, LongBench and OOLONG have a label, a choice or a count, which the
text need not hold; LongMemEval marks whole turns, of which a summary need keep but a part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from eval.tasks.formats import Sample

DISTINCTIVE = re.compile(r"\d{5,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[A-Z]{5}")
RETRIEVED = ("passkey", "number_string", "kv_retrieval")


@dataclass(frozen=True)
class Placed:
    """A fact, and how many characters other than white space have been read when it has."""

    fact: str
    read: int


def facts_of(format: str, sample: Sample, metric: str) -> tuple[Placed, ...]:
    """The needed facts of a sample in the order in which its text states them; empty where the row does not tell."""
    ends = dict(_ends(format, sample, metric))
    return tuple(
        Placed(fact, len("".join(sample.context[:end].split()))) for fact, end in sorted(ends.items(), key=_end)
    )


def _end(entry: tuple[str, int]) -> int:
    return entry[1]


def _ends(format: str, sample: Sample, metric: str) -> Iterator[tuple[str, int]]:
    """Facts, and where in the context each is complete."""
    if format == "ruler" and metric == "string_match_all":
        if all(DISTINCTIVE.fullmatch(answer) for answer in sample.answers):
            yield from _standing(sample, sample.answers)
    elif format == "mrcr":
        reply = sample.answers[0].removeprefix(sample.more["prefix"]).strip()
        start = sample.context.find(reply) if reply else -1
        if start >= 0:
            yield reply, start + len(reply)
    elif format == "graphwalks" and sample.more["problem_type"] == "parents":
        named = set(re.findall(r"\w+", sample.question))
        for edge in re.finditer(r"(\w+) -> (\w+)", sample.context):
            if edge[2] in named and edge[1] in sample.answers:
                yield edge[1], edge.end()
    elif format == "infinitebench" and metric in RETRIEVED:
        yield from _standing(sample, sample.answers)


def _standing(sample: Sample, answers: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """Those that stand in the context as whole words, where they first do."""
    for answer in answers:
        found = re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", sample.context)
        if found:
            yield answer, found.end()
