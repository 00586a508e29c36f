"""Whether an answer holds what was wanted: RULER's two measures, and strict ones that a dump of the text cannot please.

RULER's measures look for substrings, case ignored: ``12345678`` holds ``1234567``, and so does a copy of the whole
text. The strict ones look for whole tokens, and whoever names another candidate of the same kind gets nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import lru_cache

UNKNOWN = "unknown"
ABSTENTIONS = (
    UNKNOWN,
    "not mentioned",
    "not given",
    "not stated",
    "not found",
    "not provided",
    "not specified",
    "not in the text",
    "not there",
    "no mention",
    "no information",
    "does not say",
    "does not mention",
    "cannot be determined",
)
"""Ways to say that the text does not tell, for the measure by substrings."""

NUMBERS = re.compile(r"\d{5,}")
"""Numbers that may be an answer; shorter ones are numbers of list items."""
UUIDS = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

_ABSTAINS = re.compile(
    r"(?<!\w)(?:unknown|none|nothing|n/a"
    r"|no (?:\w+ ){0,4}?(?:mention|information|answer|value|record|such|number|uuid|numbers|uuids)"
    r"|(?:not|never|cannot) (?:\w+ ){0,3}?(?:mention(?:ed)?|give|given|stated?|found|find|provided?|specif(?:y|ied)"
    r"|known|know|there|present|said|say|tell|told|contain(?:ed)?|included?|appear|available|determined?|listed"
    r"|in (?:the|this|any)|answer(?:ed)?|exist))(?!\w)",
    re.IGNORECASE,
)


def string_match_all(answer: str, wanted: Sequence[str]) -> float:
    """The share of ``wanted`` that are substrings of the answer, case ignored (RULER's measure of that name)."""
    low = answer.lower()
    return sum(each.lower() in low for each in wanted) / len(wanted)


def string_match_part(answer: str, wanted: Sequence[str]) -> float:
    """1 where any of ``wanted`` is a substring of the answer, case ignored (RULER's measure of that name)."""
    low = answer.lower()
    return float(any(each.lower() in low for each in wanted))


def strict_all(answer: str, wanted: Sequence[str], of_a_kind: re.Pattern[str], beside: Collection[str] = ()) -> float:
    """The share of ``wanted`` that the answer holds as whole tokens; 0 where it names anything else of the same kind.

    Args:
        of_a_kind: Finds candidates: all that could be an answer by its looks.
        beside: Of the same looks, but no answers: what the question itself names. They may be repeated.
    """
    found, rest = _taken(answer, wanted)
    if of_a_kind.search(_taken(rest, beside)[1]):
        return 0.0
    return found / len({each.lower() for each in wanted})


def strict_part(answer: str, aliases: Sequence[str], of_a_kind: re.Pattern[str], beside: Collection[str] = ()) -> float:
    """1 where the answer holds any of ``aliases`` as whole tokens and names nothing else of the same kind."""
    return float(strict_all(answer, aliases, of_a_kind, beside) > 0)


def strict_abstention(answer: str, of_a_kind: re.Pattern[str], beside: Collection[str] = ()) -> float:
    """1 where the answer says that the text does not tell, and names no candidate all the same."""
    plain = " ".join(answer.replace("’", "'").lower().replace("can't", "cannot").replace("n't", " not").split())
    return float(_ABSTAINS.search(plain) is not None and not of_a_kind.search(_taken(answer, beside)[1]))


def any_of(words: Collection[str]) -> re.Pattern[str]:
    """Finds any of these as whole tokens, case ignored. The longest first, so that none hides in another."""
    return _whole("|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word))))


def plain_numbers(answer: str) -> str:
    """The answer with ``1,234,567`` written as ``1234567``."""
    return re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", answer)


def _taken(answer: str, wanted: Collection[str]) -> tuple[int, str]:
    """How many of ``wanted`` are in the answer, and what is left without them."""
    found = 0
    for each in sorted({each.lower() for each in wanted}, key=lambda each: (-len(each), each)):
        answer, times = _whole(r"\s+".join(re.escape(word) for word in each.split())).subn(" | ", answer)
        found += times > 0
    return found, answer


@lru_cache(maxsize=256)
def _whole(pattern: str) -> re.Pattern[str]:
    # A hyphen counts as part of a token only where a word goes on behind it: "- 17" and "-17" are items of a list.
    return re.compile(rf"(?<!\w)(?<!\w-)(?:{pattern})(?!\w)(?!-\w)(?!\.\d)", re.IGNORECASE)
