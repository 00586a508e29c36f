"""Scores of InfiniteBench: a rule for each of its tasks. Summaries are left out: their scorer (ROUGE) is."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from eval.tasks.file_scores import Scores, both, brief, letter, normal, phrase_in

Label = str | int | float
_CHINESE_MARKS = (
    "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～、〃》「」『』【】〔〕〖〗〝〞–—‘’‛“”„‟…‧"
)


def infinitebench(answer: str, labels: Sequence[Label], task: str) -> Scores:
    """The rule of ``task``; ``labels`` are the right answers, for choices its text and its letter."""
    official, strict = RULES[task]
    return both(official(answer, labels), strict(answer, labels))


def _words(text: str, marks: str) -> list[str]:
    return re.sub(f"[{re.escape(marks)}]", " ", text).split()


def _numbers(text: str) -> list[str]:
    return re.findall(r"\d+", text)


def _first_number(answer: str, labels: Sequence[Label]) -> float:
    return float(_numbers(answer)[:1] == [str(labels[0])])


def _only_number(answer: str, labels: Sequence[Label]) -> float:
    """Strict: the right number, whole, and no other."""
    return float(set(re.findall(r"-?\d+(?:\.\d+)?", answer)) == {str(labels[0])})


def _word(answer: str, labels: Sequence[Label]) -> float:
    return float(str(labels[0]) in _words(answer, "\n:\"'.,?!{}"))


def _name(answer: str, labels: Sequence[Label]) -> float:
    """Official compares capital words with the label as it is, so that a label of two words is never right."""
    return float(str(labels[0]) in [word.upper() for word in _words(answer, "\n:\"'.,?!{}")])


def _phrase(answer: str, labels: Sequence[Label]) -> float:
    """Strict: any alias as whole tokens, in an answer of an answer's length."""
    texts = [str(label) for label in labels]
    return float(any(phrase_in(text, answer) for text in texts) and brief(answer, texts))


def _substring(answer: str, labels: Sequence[Label]) -> float:
    return float(any(str(label).lower() in answer.lower() for label in labels))


def _after(answer: str, openings: Sequence[str], marks: str, labels: Sequence[Label]) -> bool | None:
    """Whether a label follows the first of ``openings`` that the answer has; None where it has none."""
    text = re.sub(" +", " ", re.sub(f"[{re.escape(marks)}]", " ", answer))
    for opening in openings:
        if opening in text:
            rest = text[text.index(opening) + len(opening) + 1 :]
            return any(rest.startswith(str(label)) for label in labels)
    return None


def _choice(answer: str, labels: Sequence[Label]) -> float:
    """Official: the answer's first letter if it is A to D, else what follows "answer is", else the first A to D."""
    if not answer:
        return 0.0
    if answer[0] in "ABCD":
        return float(answer[0] in labels)
    marks = "\n\"'.,?!{}"
    told = _after(answer, ("answer is:", "answer:", "answer is", "option is"), marks, labels)
    if told is not None:
        return float(told)
    first = next((word for word in _words(answer, marks) if word in "ABCD"), None)
    return float(first in labels)


def _debug(answer: str, labels: Sequence[Label]) -> float:
    """Official: the letter with a full stop or colon at once, or letter or name after "answer is:"."""
    if answer[:2] in (f"{labels[-1]}.", f"{labels[-1]}:"):
        return 1.0
    text = re.sub("[oO]ption", " ", answer.strip())
    return float(_after(text, ("answer is:", "is:", "answer:"), "\n`'\"-*", labels[::-1]) or False)


def _strict_choice(answer: str, labels: Sequence[Label]) -> float:
    """Strict: one clear letter, or the text of the right option and nothing else."""
    return float(letter(answer) == labels[-1] or normal(answer) == normal(str(labels[0])))


def _run(answer: str, labels: Sequence[Label]) -> float:
    words = _words(answer, "\n.`'\":")
    return float(bool(words) and re.fullmatch(r"-?\d+", words[-1]) is not None and words[-1] == str(labels[0]))


def _find(answer: str, labels: Sequence[Label]) -> float:
    found = re.search(r"\d+\.\d+|\d+", answer)
    return float(found is not None and float(found.group()) == float(labels[0]))


def _calc(answer: str, labels: Sequence[Label]) -> float:
    """The share of intermediate results that are right before the first wrong one."""
    given = [int(number) for number in _numbers(answer)][: len(labels)]
    right = 0
    while right < len(given) and given[right] == labels[right]:
        right += 1
    return right / len(labels)


def _all_calc(answer: str, labels: Sequence[Label]) -> float:
    """Strict: as official, but with signs, and 0 for more numbers than were asked for."""
    given = [int(number) for number in re.findall(r"-?\d+", answer)]
    pairs = list(zip(given, labels, strict=False))
    right = next((index for index, (a, b) in enumerate(pairs) if a != b), len(pairs))
    return 0.0 if len(given) > len(labels) else right / len(labels)


def _f1(answer: Sequence[str], label: Sequence[str]) -> float:
    common = sum((Counter(answer) & Counter(label)).values())
    return 2 * common / (len(answer) + len(label)) if common else 0.0


def _qa(answer: str, labels: Sequence[Label]) -> float:
    return max(_f1(normal(answer).split(), normal(str(label)).split()) for label in labels)


def _characters(text: str) -> list[str]:
    return [letter for letter in text.lower() if letter not in string.punctuation + _CHINESE_MARKS and letter.strip()]


def _qa_chinese(answer: str, labels: Sequence[Label]) -> float:
    return max(_f1(_characters(answer), _characters(str(label))) for label in labels)


def _held_chinese(answer: str, labels: Sequence[Label]) -> float:
    """Strict: Chinese has no spaces, so a right answer is a part of one that is at most four times as long."""
    given = "".join(_characters(answer))
    rights = ["".join(_characters(str(label))) for label in labels]
    return float(any(right and right in given and len(given) <= 4 * len(right) + 10 for right in rights))


Rule = Callable[[str, Sequence[Label]], float]
RULES: Mapping[str, tuple[Rule, Rule]] = {
    "passkey": (_first_number, _only_number),
    "number_string": (_first_number, _only_number),
    "kv_retrieval": (_word, _phrase),
    "longdialogue_qa_eng": (_name, _phrase),
    "longbook_choice_eng": (_choice, _strict_choice),
    "longbook_qa_eng": (_qa, _phrase),
    "longbook_qa_chn": (_qa_chinese, _held_chinese),
    "math_find": (_find, _only_number),
    "math_calc": (_calc, _all_calc),
    "code_run": (_run, _only_number),
    "code_debug": (_debug, _strict_choice),
    "substring": (_substring, _phrase),
}
