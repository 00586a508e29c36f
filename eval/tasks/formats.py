"""Files of public benchmarks, as they are: one small reader and one scorer for each format.

A reader takes a row's fields and gives a :class:`Sample`: the long text, the question apart from it, the right answers.
What older files lack is tolerated; what no sample can do without is refused, with file, line and field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from eval.tasks import file_scores
from eval.tasks.infinitebench_scores import RULES, infinitebench
from eval.tasks.tables import Fields
from summarization.resolve import UserError, closest

LONGEST_QUESTION_WORDS = 150
CHOICES = ("A", "B", "C", "D")


@dataclass(frozen=True)
class Sample:
    """A row in our own shape. ``more`` has what the format's scorer needs besides."""

    context: str = field(repr=False)
    question: str
    answers: tuple[str, ...]
    answer_prefix: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Format:
    """A file format: its reader, its scorer, and the metrics that may be asked for (``auto`` is always among them)."""

    about: str
    read: Callable[[Fields], Sample]
    score: Callable[[Sample, str, str], file_scores.Scores]
    metrics: tuple[str, ...] = ()
    automatic: Callable[[Sample, str], str] = lambda sample, path: "auto"


def split_question(text: str) -> tuple[str, str]:
    """Text and question of a RULER prompt, which are one text in its files.

    The question begins at the last line that starts with ``Question:``; where there is none within the last 150 words,
    at the last line of at least four words (shorter ones are ``Answer:`` or the end of a chat template); where that is
    longer, it is the last 150 words.
    """
    for pattern in (r"(?m)^[^\S\n]*Question:", r"(?m)^(?=[^\n]*\S+[^\S\n]+\S+[^\S\n]+\S+[^\S\n]+\S)"):
        start = max((match.start() for match in re.finditer(pattern, text)), default=-1)
        if start >= 0 and len(text[start:].split()) <= LONGEST_QUESTION_WORDS:
            return text[:start].rstrip(), text[start:].strip()
    starts = [match.start() for match in re.finditer(r"\S+", text)]
    start = starts[-LONGEST_QUESTION_WORDS] if len(starts) > LONGEST_QUESTION_WORDS else 0
    return text[:start].rstrip(), text[start:].strip()


def _ruler(fields: Fields) -> Sample:
    context, question = split_question(fields.whole("input"))
    return Sample(context, question, fields.texts("outputs"), fields.text("answer_prefix", ""))


def _memagent(fields: Fields) -> Sample:
    if not isinstance(fields.values.get("context"), str):
        raise fields.wrong("context", "text, or numbers of passages together with the option 'passages'")
    asked = f'{fields.whole("input").strip()}\nEnd with "the answer is" and the answer.'
    return Sample(fields.whole("context"), asked, fields.texts("answers"))


def _babilong(fields: Fields) -> Sample:
    return Sample(fields.whole("input"), fields.whole("question"), (fields.whole("target"),))


def _mrcr(fields: Fields) -> Sample:
    messages: Any = fields.values.get("prompt")
    if isinstance(messages, str):
        try:
            messages = json.loads(messages)
        except ValueError as error:
            raise fields.wrong("prompt", "a JSON list of messages") from error
    valid = isinstance(messages, list) and messages and all(_is_message(message) for message in messages)
    if not valid or messages[-1]["role"] != "user":
        raise fields.wrong("prompt", "a JSON list of messages with role and content, the last from the user")
    prefix = fields.text("random_string_to_prepend")
    return Sample(_dialogue(messages[:-1]), messages[-1]["content"], (fields.whole("answer"),), "", {"prefix": prefix})


def _is_message(message: Any) -> bool:
    return isinstance(message, Mapping) and all(isinstance(message.get(key), str) for key in ("role", "content"))


def _dialogue(messages: Sequence[Mapping[str, str]]) -> str:
    return "\n\n".join(f"{message['role'].capitalize()}: {message['content']}" for message in messages)


def _graphwalks(fields: Fields) -> Sample:
    name = "answer_nodes" if fields.has("answer_nodes") or not fields.has("answer") else "answer"
    prompt = fields.whole("prompt")
    start = prompt.rfind("Operation:")
    # The examples come first and have operations of their own; the last one is what is asked.
    context, question = (prompt[:start].rstrip(), prompt[start:].strip()) if start >= 0 else split_question(prompt)
    if len(question.split()) > LONGEST_QUESTION_WORDS:
        context, question = split_question(prompt)
    asked = f"{question}\nEnd with a last line of the form: Final Answer: [node, node]"
    nodes = fields.texts(name, least=0)
    return Sample(context, asked, nodes, "", {"problem_type": fields.text("problem_type", "")})


def _longbench_v2(fields: Fields) -> Sample:
    right = fields.whole("answer").strip()
    if right not in CHOICES:
        raise fields.wrong("answer", "one of A, B, C, D")
    choices = "\n".join(f"({letter}) {fields.text(f'choice_{letter}').strip()}" for letter in CHOICES)
    asked = f"{fields.whole('question').strip()}\n{choices}\nAnswer in the form: The correct answer is (letter)"
    return Sample(fields.whole("context"), asked, (right,))


def _oolong(fields: Fields) -> Sample:
    answer = fields.values.get("answer")
    right = repr(answer) if isinstance(answer, list) and answer else fields.whole("answer")
    more = {"answer": right, "answer_type": fields.text("answer_type", "")}
    shown = (str(file_scores.oolong_gold(right)),)
    return Sample(fields.whole("context_window_text"), fields.whole("question"), shown, "", more)


def _infinitebench(fields: Fields) -> Sample:
    answer = fields.values.get("answer")
    plain = answer if isinstance(answer, list) else [answer]
    if not plain or any(isinstance(x, bool) or not isinstance(x, str | int | float) for x in plain):
        raise fields.wrong("answer", "text, a number, or a list of them")
    question, labels = fields.text("input"), list(plain)
    options = fields.texts("options", least=0) if fields.has("options") else ()
    if options:
        if len(labels) == 1 and labels[0] in CHOICES[: len(options)] and labels[0] not in options:
            labels = [options[CHOICES.index(labels[0])], labels[0]]
        if labels[-1] not in CHOICES or len(labels) == 1:
            if str(labels[0]) not in options[: len(CHOICES)]:
                raise fields.wrong("answer", f"one of the options {list(options)}")
            labels = [labels[0], CHOICES[options.index(str(labels[0]))]]
        listed = "\n".join(f"{letter}. {option}" for letter, option in zip(CHOICES, options, strict=False))
        question = f"{question.strip()}\n{listed}\nAnswer with the letter alone."
    if not question.strip():
        question = "What does the text ask for? Answer with nothing else."
    more = {"labels": labels, "options": options}
    return Sample(fields.whole("context"), question, tuple(str(label) for label in labels[:1]), "", more)


def _longmemeval(fields: Fields) -> Sample:
    sessions = fields.items("haystack_sessions", "a list of sessions")
    dates = fields.items("haystack_dates", least=0) if fields.has("haystack_dates") else []
    parts = []
    for number, session in enumerate(sessions):
        if not isinstance(session, list | tuple) or not all(_is_message(turn) for turn in session):
            raise fields.wrong("haystack_sessions", f"sessions of messages with role and content (see number {number})")
        when = f" of {dates[number]}" if number < len(dates) else ""
        parts.append(f"Session {number + 1}{when}\n\n{_dialogue(session)}")
    question, today = fields.whole("question"), fields.text("question_date", "")
    abstains = fields.text("question_id", "").endswith("_abs")
    kind = {"question_type": fields.text("question_type", ""), "abstains": abstains}
    asked = f"Today is {today}. {question}" if today else question
    return Sample("\n\n".join(parts), asked, (fields.whole("answer"),), "", kind)


def _ruler_metric(sample: Sample, path: str) -> str:
    parts = re.split(r"[/\\]", path)
    return "string_match_part" if any(re.match(r"qa(?:_\d|\.|$)", part) for part in parts) else "string_match_all"


def _babilong_task(sample: Sample, path: str) -> str:
    found = re.findall(r"(?<![a-z0-9])qa\d+(?!\d)", path)
    return found[-1] if found else "auto"


def _infinitebench_task(sample: Sample, path: str) -> str:
    stem = PurePosixPath(path).name.split(".")[0]
    known = {name for name in (*RULES, "longbook_sum_eng") if stem.startswith(name)}
    choice = "longbook_choice_eng" if sample.more["options"] else "substring"
    return max(known, key=len) if known else choice


FORMATS: Mapping[str, Format] = {
    "ruler": Format(
        "RULER",
        _ruler,
        lambda s, answer, metric: file_scores.ruler(answer, s.answers, metric, s.question, s.context),
        ("string_match_all", "string_match_part"),
        _ruler_metric,
    ),
    "memagent_hqa": Format(
        "MemAgent's RULER-HQA",
        _memagent,
        lambda s, answer, metric: file_scores.memagent(answer, s.answers, metric),
        ("sub_em", "em"),
        lambda s, path: "sub_em",
    ),
    "babilong": Format(
        "BABILong",
        _babilong,
        lambda s, answer, metric: file_scores.babilong(
            answer, s.answers[0], s.question, file_scores.babilong_labels(metric, s.answers[0])
        ),
        (*(f"qa{number}" for number in range(1, 21)),),
        _babilong_task,
    ),
    "mrcr": Format("MRCR", _mrcr, lambda s, answer, _: file_scores.mrcr(answer, s.answers[0], s.more["prefix"])),
    "graphwalks": Format("GraphWalks", _graphwalks, lambda s, answer, _: file_scores.graphwalks(answer, s.answers)),
    "longbench_v2": Format(
        "LongBench v2", _longbench_v2, lambda s, answer, _: file_scores.longbench_v2(answer, s.answers[0])
    ),
    "oolong": Format(
        "OOLONG-synth",
        _oolong,
        lambda s, answer, _: file_scores.oolong(answer, s.more["answer"], s.more["answer_type"]),
    ),
    "infinitebench": Format(
        "InfiniteBench",
        _infinitebench,
        lambda s, answer, metric: infinitebench(answer, s.more["labels"], metric),
        tuple(RULES),
        _infinitebench_task,
    ),
    "longmemeval": Format(
        "LongMemEval",
        _longmemeval,
        lambda s, answer, _: file_scores.longmemeval(answer, s.answers[0], s.more["abstains"]),
    ),
}


def format_named(name: str) -> Format:
    """The format of that name.

    Raises:
        UserError: There is none.
    """
    if name not in FORMATS:
        raise UserError(f"format is '{name}'; {closest(name, list(FORMATS))}")
    return FORMATS[name]


def metric_of(name: str, metric: str, sample: Sample, path: str) -> str:
    """The metric asked for, or (``auto``) the one that file and sample call for.

    Raises:
        UserError: The format has no such metric, or the file's task cannot be scored.
    """
    kind = format_named(name)
    chosen = kind.automatic(sample, path) if metric == "auto" else metric
    if chosen != "auto" and chosen not in kind.metrics:
        raise UserError(
            f"{path}: metric is '{chosen}', which format '{name}' has no scorer for; "
            f"{closest(chosen, ['auto', *kind.metrics])}"
        )
    return chosen
