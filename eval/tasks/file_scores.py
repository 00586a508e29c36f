"""Scores of the public benchmarks, two for each: ``official`` and ``strict``.

``official`` is what the public scorer gives, faults included: substrings that accept ``12345678`` for ``1234567``, or a
dump of the text. ``strict`` is what a person would call right: whole tokens, any alias, nothing wrong beside them.
All are functions of texts alone. InfiniteBench, with a rule for each of its tasks, is in ``infinitebench_scores``.
"""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from difflib import SequenceMatcher

from eval.tasks.match import string_match_all, string_match_part

Scores = Mapping[str, float]

# Beyond this many words more than the right answer has, an answer is a dump of the text.
SPARE_WORDS = 40
_ROOMS = ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")
BABILONG_LABELS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("qa1", "qa2", "qa3", "qa4", "qa11", "qa12", "qa13"), _ROOMS),
    "qa5": ("bill", "fred", "jeff", "mary", "apple", "football", "milk"),
    **dict.fromkeys(("qa6", "qa9", "qa17", "qa18"), ("no", "yes")),
    "qa7": ("none", "one", "three", "two"),
    "qa8": ("apple", "football", "milk", "nothing"),
    "qa10": ("maybe", "no", "yes"),
    "qa14": ("bedroom", "cinema", "kitchen", "office", "park", "school"),
    "qa15": ("cat", "mouse", "sheep", "wolf"),
    "qa16": ("gray", "green", "white", "yellow"),
    "qa19": tuple("e,e e,n e,s n,e n,n n,w s,e s,s s,w w,n w,s w,w".split()),
    "qa20": ("bedroom", "bored", "garden", "hungry", "kitchen", "thirsty", "tired"),
}
_COMPARISONS = ("more common", "less common", "same frequency")
_UNKNOWN = re.compile(
    r"\b(?:unknown|unanswerable|(?:do|did|does)(?:n['’]t| not) (?:know|mention|say|specify|provide|have)|"
    r"never (?:mentioned|said|told)|cannot (?:be )?(?:answer|determine|tell|know|say)\w*|"
    r"no (?:information|mention|record)|not (?:enough|been )?(?:information|mentioned|provided|specified|available))\b",
    re.IGNORECASE,
)


def both(official: float, strict: float) -> Scores:
    """The two scores under the names that every task uses."""
    return {"official": float(official), "strict": float(strict)}


def tokens(text: str) -> list[str]:
    """Words and numbers in lower case, without punctuation."""
    return re.findall(r"\w+", text.lower())


def phrase_in(phrase: str, text: str) -> bool:
    """Whether all tokens of ``phrase`` stand in ``text`` next to each other; a phrase of punctuation does as it is."""
    wanted, words = tokens(phrase), tokens(text)
    if not wanted:
        return bool(phrase.strip()) and phrase.strip() in text
    return any(words[i : i + len(wanted)] == wanted for i in range(len(words) - len(wanted) + 1))


def brief(answer: str, rights: Sequence[str]) -> bool:
    """Whether the answer is no longer than an answer is."""
    return len(answer.split()) <= SPARE_WORDS + sum(len(right.split()) for right in rights)


def normal(text: str) -> str:
    """As SQuAD's scorer compares answers: lower case, no punctuation, no articles, single spaces."""
    bare = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return " ".join(re.sub(r"\b(?:a|an|the)\b", " ", bare).split())


def ruler(answer: str, outputs: Sequence[str], metric: str, question: str, context: str) -> Scores:
    """RULER: the share of references that the answer holds (``string_match_all``), or whether it holds any (``_part``).

    Strict: references as whole tokens; 0 for any other candidate of their shape (numbers, UUIDs, variable names, or,
    where the references are single words, words of the text).
    """
    whole = [phrase_in(reference, answer) for reference in outputs]
    if metric == "string_match_part":
        return both(string_match_part(answer, outputs), any(whole) and brief(answer, outputs))
    wrong = _others_of_shape(answer, outputs, question, context)
    return both(string_match_all(answer, outputs), 0.0 if wrong else sum(whole) / len(whole))


def _others_of_shape(answer: str, outputs: Sequence[str], question: str, context: str) -> bool:
    for shape in (r"\d+(?:\.\d+)?", r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", r"[A-Z]{5}"):
        if all(re.fullmatch(shape, output) for output in outputs):
            # The numbers of a numbered list are no candidates.
            listed = re.sub(r"(?m)^\s*\d+[.)]\s", " ", answer)
            named = set(re.findall(rf"(?<![\w.-]){shape}(?![\w-])", listed))
            return bool(named - set(outputs) - set(re.findall(rf"\b{shape}\b", question)))
    if any(len(output.split()) != 1 for output in outputs):
        return not brief(answer, outputs)
    known = {token for text in (*outputs, question) for token in tokens(text)}
    others = {word for word in tokens(answer) if word not in known and len(word) > 2 and not word.isdigit()}
    return bool(others) and bool(others & set(tokens(context)))


def memagent(answer: str, answers: Sequence[str], metric: str) -> Scores:
    """MemAgent's RULER-HQA: first answer only, one normalised text within the other (``sub_em``), or equal (``em``).

    Official reads what follows the last "the answer is", or the last ``\\boxed{}``, and gives 0 where there is neither.
    As either may be the longer one, a single letter of the answer scores 1. Strict takes any alias as whole tokens.
    """
    boxed = re.findall(r"\\boxed\{([^{}]*)\}", answer)
    _, said, rest = answer.replace("*", "").rpartition("the answer is")
    given = boxed[-1] if boxed else rest.strip().strip(".").strip() if said else ""
    text, right = normal(given), normal(answers[0])
    official = bool(given) and (text == right if metric == "em" else right in text or text in right)
    final = given or answer
    if metric == "em":
        return both(official, any(normal(final) == normal(alias) for alias in answers))
    return both(official, any(phrase_in(alias, final) for alias in answers) and brief(final, answers))


def babilong_labels(task: str, target: str) -> tuple[str, ...]:
    """The labels of a task, by its name (``qa1``) or, where it is unknown, by the first task that has the target."""
    if task in BABILONG_LABELS:
        return BABILONG_LABELS[task]
    wanted = {part.strip() for part in target.lower().split(",")}
    return next(
        (labels for labels in BABILONG_LABELS.values() if target in labels or wanted <= set(labels)),
        tuple(sorted(wanted)),
    )


def babilong_named(answer: str, question: str, labels: Collection[str]) -> set[str]:
    """The labels that BABILong's scorer finds: substrings of an answer's first sentence that the question lacks."""
    first = re.split(r"\.|<context>|<example>", answer.lower())[0]
    return {label for label in labels if label in first and label not in question.lower()}


def babilong(answer: str, target: str, question: str, labels: Sequence[str]) -> Scores:
    """BABILong: the target must be the only label in the first sentence, those of the question apart.

    Official looks for substrings, so that ``none`` also names ``one`` and is wrong. Strict reads whole words.
    """
    target = target.lower()
    named = babilong_named(answer, question, labels)
    wanted = target.split(",") if "," in target and len(target) > 3 else [target]
    official = named == set(wanted) and len(named) == len(wanted)
    parts = {part.strip() for part in target.split(",")}
    strict = {label for label in labels if phrase_in(label, answer)} - {x for x in labels if phrase_in(x, question)}
    if not parts <= set(labels):  # directions and the like, which no list of labels covers
        return both(official, tokens(answer) == tokens(target))
    return both(official, strict == parts and brief(answer, [target]))


def mrcr_official(answer: str, right: str, prefix: str) -> float:
    """MRCR's published score, faults included; ``right`` begins with the prefix."""
    if not answer.startswith(prefix):
        return 0.0
    return SequenceMatcher(None, answer.removeprefix(prefix), right.removeprefix(prefix)).ratio()


def mrcr(answer: str, right: str, prefix: str) -> Scores:
    """MRCR: 0 without the prefix, else the sequence-match ratio of what follows it.

    Official lets difflib set frequent letters aside (its autojunk), which lowers the ratio of long texts; strict does
    not, forgives white space before the prefix, and gives nothing for more than four times the text.
    """
    wanted = right.removeprefix(prefix)
    official = mrcr_official(answer, right, prefix)
    given = answer.strip()
    if not given.startswith(prefix) or len(given) > 4 * len(right) + 100:
        return both(official, 0.0)
    texts = given.removeprefix(prefix).strip(), wanted.strip()
    return both(official, SequenceMatcher(None, *texts, autojunk=False).ratio())


def graphwalks(answer: str, nodes: Sequence[str]) -> Scores:
    """GraphWalks: F1 of the set of nodes in ``Final Answer: [...]``.

    Official parses as the code on the data set's card does: that list must stand on the very last line, spelled so,
    with at most one blank before the bracket; quotes are part of a name, and what follows the list is not looked at. In
    two points it departs from that code, which would leave ``Final Answer: [`` on the first node, so that it is never
    right, and give 1 to a list without any right node: no published number can come from either.

    Strict takes the last such list, wherever it stands and whatever marks surround its names; it gives 0 where more
    than twice as many nodes are named as are right.
    """
    last = re.search(r"Final Answer: ?\[(.*)\]", answer.split("\n")[-1])
    official = set_f1(names_in(last.group(1)), set(nodes)) if last else 0.0
    lists = re.findall(r"final answer:?\W*?\[([^\]]*)\]", answer, re.IGNORECASE)
    named = names_in(re.sub(r"[`'\"*\s]", "", lists[-1]).lower()) if lists else set()
    wanted = {node.lower() for node in nodes}
    return both(official, set_f1(named, wanted) if lists and len(named) <= 2 * len(wanted) else 0.0)


def names_in(names: str) -> set[str]:
    """The names of a list that is separated by commas."""
    return {name.strip() for name in names.split(",") if name.strip()}


def set_f1(named: set[str], wanted: set[str]) -> float:
    """F1 of two sets; 1 where both are empty."""
    return 2 * len(named & wanted) / (len(named) + len(wanted)) if named or wanted else 1.0


def letter(answer: str) -> str | None:
    """The one letter of A to D that the answer settles on; None for none, or for several."""
    text = answer.replace("*", "").strip()
    told = re.findall(r"(?i:answer|choice|option)(?i:\s+is)?\s*:?\s*[\"'(\[]*([A-D])(?!\w)", text)
    opening = re.match(r"[(\[\"']*([A-D])(?:[)\]\"'.:,]|\s*$)", text)
    found = set(told) or ({opening.group(1)} if opening else set(re.findall(r"\(([A-D])\)", text)))
    return found.pop() if len(found) == 1 else None


def longbench_v2(answer: str, right: str) -> Scores:
    """LongBench v2: the letter after "The correct answer is", to the letter; strict takes any clear single choice."""
    text = answer.replace("*", "")
    told = re.search(r"The correct answer is \(([A-D])\)", text) or re.search(r"The correct answer is ([A-D])", text)
    return both(told is not None and told.group(1) == right, letter(answer) == right)


def oolong_gold(answer: str) -> str | int | date:
    """The answer of an OOLONG row: the file has a list of one, written as Python."""
    day = re.search(r"datetime\.date\((\d+), (\d+), (\d+)\)", answer)
    if day:
        return date(*(int(part) for part in day.groups()))
    try:
        value = ast.literal_eval(answer)
    except (ValueError, SyntaxError):
        return answer
    value = value[0] if isinstance(value, list | tuple) and value else value
    return value if isinstance(value, int) and not isinstance(value, bool) else str(value)


def oolong(answer: str, right: str, answer_type: str) -> Scores:
    """OOLONG-synth: what follows the last colon; equal, or for numbers 0.75 to the power of the difference.

    Strict has no such grace for numbers, ignores case and punctuation, and wants one comparison, not two.
    """
    gold = oolong_gold(right)
    given = re.sub(r"[*\[\]]", "", answer.split(":")[-1].strip()) if ":" in answer else answer
    if ":" not in answer and len(answer) >= 20:
        given = (answer.split() or [""])[-1]
    if ":" in answer and len(given) >= 20:
        given = next((phrase for phrase in _COMPARISONS if phrase in given), given)
    official = 0.0
    if given == str(gold) or (given in _COMPARISONS and given in str(gold)):
        official = 1.0
    elif "NUMERIC" in answer_type and isinstance(gold, int) and re.fullmatch(r"\s*[-+]?\d+\s*", given):
        official = 0.75 ** abs(gold - int(given))
    elif isinstance(gold, date):
        official = float(_day(given) == gold)
    final = answer.split(":")[-1].strip(" \n\t*[]'\"`.")
    if isinstance(gold, date):
        return both(official, _day(final) == gold)
    named = [phrase for phrase in _COMPARISONS if phrase in final.lower()]
    if any(phrase in str(gold) for phrase in _COMPARISONS):
        return both(official, len(named) == 1 and named[0] in str(gold))
    return both(official, tokens(final.replace(",", "")) == tokens(str(gold).replace(",", "")))


def _day(text: str) -> date | None:
    for form in ("%Y-%m-%d", "%b %d, %Y", "%B %d, %Y", "%d %B %Y", "%d %b %Y", "%m/%d/%Y", "%Y/%m/%d"):
        try:
            return datetime.strptime(text.strip(), form).date()
        except ValueError:
            continue
    return None


def longmemeval(answer: str, right: str, abstains: bool) -> Scores:
    """LongMemEval without a judge: all words of the right answer, anywhere (official) or as a phrase (strict).

    The public score is a language model's verdict, which accepts a paraphrase; both of these are stricter. Where the
    right answer is that there is none, the answer must say so.
    """
    if abstains:
        says = _UNKNOWN.search(answer) is not None
        return both(says, says and brief(answer, [right]))
    wanted: Collection[str] = set(tokens(normal(right)))
    held = bool(wanted) and wanted <= set(tokens(normal(answer)))
    return both(held, held and phrase_in(normal(right), normal(answer)) and brief(answer, [right]))
