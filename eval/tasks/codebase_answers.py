"""What an answer about source code names: paths, functions, values. An English word that is also a name is none."""

from __future__ import annotations

import re

LONGEST_ANSWER_WORDS = 40
_NUMBERS = r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])"


def named_paths(answer: str) -> set[str]:
    """Every path of a Python file that the answer names."""
    return set(re.findall(r"[\w./-]*\w\.py(?!\w)", answer))


def named_functions(answer: str, functions: frozenset[str], question: str) -> set[str]:
    """Every function that the answer names as code; an English word that is a function's name too is none of them.

    Words count as code in quotes, before a parenthesis, with an underscore, dot, digit or capital inside, or where the
    answer is nothing but names.
    """
    pattern = r"(?P<before>[`'\"]?)(?P<name>[A-Za-z_][\w.]*)(?P<after>[`'\"(]?)"
    words = [(m["name"].rstrip(".").split(".")[-1], m) for m in re.finditer(pattern, answer)]
    listing = all(word in functions or word in ("and", "or") for word, _ in words)
    asked = set(re.findall(r"\w+", question))
    found = set()
    for word, match in words:
        inside = match["name"].rstrip(".")[1:]
        code = match["before"] or match["after"] or re.search(r"[_.\dA-Z]", inside) or inside.startswith("_")
        if word in functions and word not in asked and (listing or code or match["name"].startswith("_")):
            found.add(word)
    return found


def named_values(answer: str, question: str) -> set[str]:
    """Every number, and every text in quotes, that the answer names and the question does not."""
    numbers = set(re.findall(_NUMBERS, answer)) - set(re.findall(_NUMBERS, question))
    return numbers | _quoted(answer, question)


def only_value(answer: str, value: str, question: str) -> bool:
    """Whether a short answer gives the value and no other: no other number, and no other text in quotes."""
    if len(answer.split()) > LONGEST_ANSWER_WORDS + len(value.split()):
        return False
    if re.fullmatch(_NUMBERS, value):
        return set(re.findall(_NUMBERS, answer)) - set(re.findall(_NUMBERS, question)) == {value}
    stands = re.search(rf"(?<!\w){re.escape(value)}(?!\w)", answer) is not None
    return stands and _quoted(answer, question) <= {value}


def _quoted(answer: str, question: str) -> set[str]:
    """Texts in quotes, without those that the question has as whole words."""
    quoted = {text for _, text in re.findall(r"([`'\"])(.+?)\1", answer)}
    named = {text for text in quoted if not re.search(rf"(?<!\w){re.escape(text)}(?!\w)", question)}
    return {text.strip("`'\"") for text in named}
