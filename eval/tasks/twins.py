"""Twins of a sample: the same question on a text that lacks the answer, or that first says something else.

- ``absent`` takes out whatever the answer depends on and leaves all else where it stands, so the right answer is that
  the text does not tell. It makes sense where a text that never speaks of what is asked leaves the answer open; not
  where that is an answer of its own (who took nothing carries nothing, and some word is always the most frequent).
- ``contradicted`` states another value before the one that holds, and corrects it later; the answer stays the same. It
  makes sense where a text states a value; not where it changes all the time anyway (people in small worlds, ``latest``
  of ``recall``), where all values hold together, or where nothing is stated but shown (source code, conversations).
- ``may_abstain`` has the question allow for "unknown". Set it for a sample and its twins alike: otherwise the question
  gives away which of them it is.

Twins draw alike: with and without an option, all other facts, depths and fillers are the same. A policy that abstains
on everything gets full marks on the absent twins and nothing on the others, so report the two together.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from eval.tasks.match import ABSTENTIONS, UNKNOWN, strict_abstention, string_match_part

ABSENT: Mapping[str, Any] = {"absent": False, "may_abstain": False}
"""The options of a task that has only the absent twin."""
TWINS: Mapping[str, Any] = {"absent": False, "contradicted": False, "may_abstain": False}
"""The options of a task that has both."""


def allowed(options: Mapping[str, Any], remedy: str = f"answer: {UNKNOWN}") -> str:
    """What the question says about abstaining; empty where it says nothing, and for a task without twins."""
    return f" If the text does not give it, {remedy}." if options.get("may_abstain") else ""


def abstention(answer: str, of_a_kind: re.Pattern[str], beside: Collection[str] = ()) -> Mapping[str, float]:
    """Both scores where the right answer is to abstain.

    Official: any way to say that the text does not tell, as a substring. Strict: one of them as words, and no
    candidate beside it.

    Args:
        of_a_kind: Finds candidates: all that could be an answer by its looks.
        beside: Of the same looks, but named by the question, so they may be repeated.
    """
    return {
        "official": string_match_part(answer, ABSTENTIONS),
        "strict": strict_abstention(answer, of_a_kind, beside),
    }
