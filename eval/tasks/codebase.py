"""``codebase``: real Python source, file by file, and one question that its syntax tree answers.

Four kinds of question:

- ``defined_in``: which file defines a function or class whose name is defined once in all that is read.
- ``default_of``: the default of a parameter.
- ``constant``: the value of a module's constant.
- ``caller_of``: which function calls something that only one function calls in all that is read.

Files come in an order drawn for each sample, none twice, at most an eighth of the sample each, so that a short sample
has several. There is no public scorer: ``official`` is the substring match that RULER would use.

In the twin ``absent`` (:mod:`eval.tasks.twins`) the file with the answer is left out and other files fill its place;
code states nothing that it takes back, so there is no ``contradicted``.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from eval.tasks.base import Ask, Task, cut
from eval.tasks.codebase_answers import named_functions, named_paths, named_values, only_value
from eval.tasks.codebase_index import Definition, Symbols, chunks, python_files, source, symbols
from eval.tasks.match import UNKNOWN, string_match_all
from eval.tasks.twins import ABSENT, abstention, allowed
from summarization.metrics import held
from summarization.resolve import UserError, closest

KINDS = ("defined_in", "default_of", "constant", "caller_of")
CHUNK_WORDS, CHUNK_CHARACTERS = 100, 1000
DRAWS = 60
_NOTHING = re.compile(r"(?!)")


@dataclass(frozen=True)
class Excerpt:
    """What is read of a file: whole lines ``first`` to ``last``, in ``pieces``, the last cut to ``kept`` characters."""

    name: str
    path: Path
    first: int
    last: int
    pieces: int
    kept: int


@dataclass(frozen=True)
class Fact:
    """A question and its answer, which stands at ``line`` of excerpt ``excerpt``.

    ``name`` is what no other file may define or call; empty where the question names the file.
    """

    name: str
    question: str
    answer: str
    excerpt: int
    line: int


class Codebase(Task):
    """See the module's docstring. Options: ``kind`` (or ``any``) and ``folder`` (empty for the standard library)."""

    name: ClassVar[str] = "codebase"
    about: ClassVar[str] = "questions about real Python source: where defined, which default, what value, who calls"
    defaults: ClassVar[Mapping[str, Any]] = {"kind": "any", "folder": "", **ABSENT}

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask)
        kind = self.options["kind"]
        if kind not in (*KINDS, "any"):
            raise UserError(f"task 'codebase': kind is '{kind}'; {closest(kind, [*KINDS, 'any'])}")
        kinds = self.draw("kind").sample(KINDS, len(KINDS)) if kind == "any" else [kind]
        self._read = (0, 0)
        self.kind, self.excerpts, self.fact, self._functions = self._choose(kinds)

    @property
    def question(self) -> str:
        return self.fact.question + allowed(self.options)

    def pieces(self) -> Iterator[str]:
        for number, excerpt in enumerate(self.excerpts):
            for part, (last, text) in enumerate(_parts(excerpt.name, excerpt.path, excerpt.first), start=1):
                if part > excerpt.pieces:
                    break
                final = part == excerpt.pieces
                self._read = (number, excerpt.last if final else last)
                yield text[: excerpt.kept] if final else text

    def answers(self) -> Sequence[str]:
        return (UNKNOWN if self.options["absent"] else self.fact.answer,)

    def needed(self) -> Sequence[str]:
        if self.options["absent"]:
            return ()
        return (self.fact.answer,) if (self.fact.excerpt, self.fact.line) <= self._read else ()

    def scores(self, answer: str) -> Mapping[str, float]:
        right = self.fact.answer
        if self.options["absent"]:
            found = abstention(answer, _NOTHING)
            return {**found, "strict": 0.0 if self._named(answer) else found["strict"]}
        if self.kind == "defined_in":
            strict = named_paths(answer) == {right} or answer.strip("`'\" .\n") == right.removesuffix(".py")
        elif self.kind == "caller_of":
            strict = named_functions(answer, self._functions, self.question) == {right}
        else:
            strict = only_value(answer, right, self.question)
        return {"official": string_match_all(answer, [right]), "strict": float(strict)}

    def _named(self, answer: str) -> set[str]:
        """What the answer names of the kind asked for."""
        if self.kind == "defined_in":
            return named_paths(answer)
        if self.kind == "caller_of":
            return named_functions(answer, self._functions, self.question)
        return named_values(answer, self.question)

    def _choose(self, kinds: Sequence[str]) -> tuple[str, tuple[Excerpt, ...], Fact, frozenset[str]]:
        for kind in kinds:
            for attempt in range(DRAWS):
                excerpts = self._excerpts(attempt)
                found = _found(excerpts)
                candidates = _FINDERS[kind](found)
                if len(candidates) > 1:
                    # A value first, then a fact with it, so that a frequent value is no better a guess than another.
                    rng = self.draw("fact", kind, attempt)
                    fact = rng.choice(candidates[rng.choice(sorted(candidates))])
                    functions = _functions(found)
                    if self.options["absent"]:
                        excerpts = self._excerpts(attempt, without=excerpts[fact.excerpt].name)
                        found = _found(excerpts)
                        if _speaks_of(found, fact.name):
                            continue
                    return kind, excerpts, fact, functions | _functions(found)
                if self._all_files_read(excerpts):
                    break
        raise UserError(
            f"task 'codebase': kind is '{self.options['kind']}', but {self.ask.tokens} tokens of "
            f"'{self.options['folder'] or 'the standard library'}' hold fewer than two answers to choose from: ask "
            "for a longer sample"
        )

    def _all_files_read(self, excerpts: Sequence[Excerpt]) -> bool:
        return len(excerpts) == len(python_files(self.options["folder"]))

    def _excerpts(self, attempt: int, without: str = "") -> tuple[Excerpt, ...]:
        """Draw files until the length is reached: in parts of them first, in whole files where those do not suffice.

        Args:
            without: A file to pass over.
        """
        files = python_files(self.options["folder"])
        tokens, count = self.ask.tokens, self.ask.count
        read = 0
        for share in (tokens // 8, tokens):
            rng = self.draw("files", attempt)
            chosen: list[Excerpt] = []
            read = 0
            for name, path in rng.sample(files, len(files)):
                facts = symbols(path)
                if facts is None or not facts.starts:
                    continue
                whole = share == tokens or share > path.stat().st_size
                first = 1 if whole else rng.choice((1, *facts.starts))
                # Only after the draw, so that all other files are read as the twin reads them.
                if name == without:
                    continue
                excerpt, size = _fill(name, path, first, min(share, tokens - read), tokens - read <= share, count)
                if excerpt is not None:
                    chosen.append(excerpt)
                    read += size
                # A hundredth of the length is too little for a heading and a line of code.
                if (tokens - read) * 100 <= tokens:
                    return tuple(chosen)
        raise UserError(
            f"task 'codebase': length is {tokens} tokens, but the Python files of "
            f"'{self.options['folder'] or 'the standard library'}' have only {read}: ask for less, or name a larger "
            "folder"
        )


def _parts(name: str, path: Path, first: int) -> Iterator[tuple[int, str]]:
    """The file from line ``first`` on, each part under a heading of its own; with the last whole line of each."""
    lines = (source(path) or "").split("\n")
    for number, (start, last, text) in enumerate(chunks(lines, first, CHUNK_WORDS, CHUNK_CHARACTERS), start=1):
        yield last, f"# {name}, part {number}, from line {start}\n{text}"


def _fill(name: str, path: Path, first: int, room: int, final: bool, count: Any) -> tuple[Excerpt | None, int]:
    """As much of a file as there is room for; cut at a line's end, or (``final``) anywhere."""
    read = pieces = kept = 0
    last_line = first - 1
    for last, text in _parts(name, path, first):
        size = count(text)
        if read + size <= room:
            read, pieces, kept, last_line = read + size, pieces + 1, len(text), last
            continue
        short = cut(text, room - read, count)
        whole_lines = short.count("\n") - 1
        if not final and whole_lines > 0:
            short = short[: short.rindex("\n")]
        if short and (final or whole_lines > 0):
            read, pieces, kept = read + count(short), pieces + 1, len(short)
            last_line += max(whole_lines, 0)
        break
    return (Excerpt(name, path, first, last_line, pieces, kept) if pieces else None), read


def _found(excerpts: Sequence[Excerpt]) -> Found:
    return [(excerpt, facts) for excerpt in excerpts if (facts := symbols(excerpt.path)) is not None]


def _speaks_of(found: Found, name: str) -> bool:
    """Whether anything that is read defines or calls the name."""
    return any(
        (place.name if isinstance(place, Definition) else place.callee) == name and _within(excerpt, place.line)
        for excerpt, facts in found
        for place in (*facts.definitions, *facts.calls)
    )


Found = Sequence[tuple[Excerpt, Symbols]]
Candidates = Mapping[str, Sequence[Fact]]


def _definitions(found: Found) -> Candidates:
    seen = Counter(d.name for excerpt, facts in found for d in facts.definitions if _within(excerpt, d.line))
    candidates = defaultdict(list)
    for number, (excerpt, facts) in enumerate(found):
        for definition in facts.definitions:
            if definition.top and _within(excerpt, definition.line) and seen[definition.name] == 1:
                question = (
                    f"Which file defines the {definition.kind} `{definition.name}`? Answer with its path alone, as the "
                    "headings of the text have it."
                )
                candidates[excerpt.name].append(Fact(definition.name, question, excerpt.name, number, definition.line))
    return candidates


def _defaults(found: Found) -> Candidates:
    return _values(found, "defaults", "In `{file}`, what is the default of the parameter `{name}` of `{owner}`?")


def _constants(found: Found) -> Candidates:
    return _values(found, "constants", "In `{file}`, what value does the constant `{name}` have?")


def _values(found: Found, what: str, template: str) -> Candidates:
    candidates = defaultdict(list)
    for number, (excerpt, facts) in enumerate(found):
        for value in getattr(facts, what):
            if _within(excerpt, value.first_line) and _within(excerpt, value.line):
                question = template.format(file=excerpt.name, name=value.name, owner=value.owner)
                # A value that the question gives away tells nothing about who read the text.
                if not held(value.value, question):
                    asked = f"{question} Answer with the value alone."
                    candidates[value.value].append(Fact("", asked, value.value, number, value.line))
    return candidates


def _callers(found: Found) -> Candidates:
    calls = defaultdict(list)
    for number, (excerpt, facts) in enumerate(found):
        for call in facts.calls:
            if _within(excerpt, call.line):
                known = call.caller if call.caller_line and _within(excerpt, call.caller_line) else ""
                calls[call.callee].append((known, number, call.line, call.caller_line))
    candidates = defaultdict(list)
    for callee, places in calls.items():
        caller, number, line, _ = places[0]
        one = len({(place[0], place[1], place[3]) for place in places}) == 1
        if one and caller and caller != callee and len(callee) > 3:
            question = (
                f"Only one function or method in the text calls `{callee}`. Which one? Answer with the name alone of "
                "the function or method that contains the call."
            )
            candidates[caller].append(Fact(callee, question, caller, number, line))
    return candidates


def _within(excerpt: Excerpt, line: int) -> bool:
    return excerpt.first <= line <= excerpt.last


def _functions(found: Found) -> frozenset[str]:
    return frozenset(
        definition.name
        for excerpt, facts in found
        for definition in facts.definitions
        if definition.kind == "function" and _within(excerpt, definition.line)
    )


_FINDERS = {"defined_in": _definitions, "default_of": _defaults, "constant": _constants, "caller_of": _callers}
