"""The environment in which an evaluation task is read through the window, page by page, and then asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from eval.tasks.base import Ask, Count, Task
from eval.tasks.known import BUILTIN, FORMATS
from rollouts.environment import Environment, Observation
from summarization.messages import Message
from summarization.resolve import UserError, closest, resolve

ASKED = ("first", "last", "both")


def task_class(name: str) -> type[Task]:
    """The task that a name stands for.

    Raises:
        UserError: It is unknown, or no task.
    """
    kind = resolve(name, {**BUILTIN, **{f"{format}_file": path for format, path in FORMATS.items()}}, "task")
    if not (isinstance(kind, type) and issubclass(kind, Task)):
        raise UserError(f"task: '{name}' is not a subclass of eval.tasks.base.Task")
    return kind


class Reading(Environment):
    """Delivers the pages of a sample, then asks its question. Rows have ``task``, ``seed``, ``tokens``, ``options``.

    A row may have ``asked``: where the question stands (``first``, ``last``, or ``both``, the default).

    Args:
        count: Counts tokens as the policy's tokenizer does.
        page_tokens: Pieces are put together into pages of at most so many tokens; a longer piece is a page of its own.
        haystack: A text file for filler; None for text that every machine has.
        blank: Deliver no page at all: what can be answered without reading?
        on_page: Called with the tokens of each page that is delivered, for progress.
    """

    def __init__(
        self,
        count: Count,
        page_tokens: int = 256,
        haystack: str | None = None,
        blank: bool = False,
        on_page: Callable[[int], None] | None = None,
    ) -> None:
        if page_tokens < 1:
            raise UserError(f"page_tokens is {page_tokens}, must be at least 1")
        self.count, self.page_tokens, self.haystack, self.blank = count, page_tokens, haystack, blank
        self.on_page = on_page
        self.answer: str | None = None
        self.read_tokens = 0

    def reset(self, task: Mapping[str, Any]) -> Observation:
        for column in ("task", "seed", "tokens"):
            if column not in task:
                raise UserError(f"environment 'Reading': the task row has no column '{column}'; it has {sorted(task)}")
        self.asked = str(task.get("asked", "both"))
        if self.asked not in ASKED:
            raise UserError(f"asked is '{self.asked}'; {closest(self.asked, list(ASKED))}")
        ask = Ask(int(task["seed"]), int(task["tokens"]), self.count, task.get("options") or {}, self.haystack)
        self.task = task_class(str(task["task"]))(ask)
        self._pages = self._drain() if self.blank else self._paged()
        question = self.task.wait if self.asked == "last" else self.task.question
        return Observation((Message("system", self.task.system), Message("user", question)))

    def advance(self, act: str | None) -> Observation:
        if act is not None:
            self.answer = act
            return Observation(done=True)
        page = next(self._pages, None)
        if page is not None:
            return Observation((Message("user", page),))
        ending = self.task.ending if self.asked == "first" else self.task.question
        return Observation((Message("user", ending),), needs_act=True, answer_prefix=self.task.answer_prefix)

    def reward(self) -> float | None:
        """The strict score; 0 without an answer."""
        return 0.0 if self.answer is None else float(self.task.scores(self.answer)["strict"])

    def task_text(self) -> str:
        return "" if self.asked == "last" else self.task.question

    def needed(self) -> Sequence[str]:
        return self.task.needed()

    def metrics(self) -> Mapping[str, float]:
        none = {"official": 0.0, "strict": 0.0}
        scores = none if self.answer is None else {**none, **self.task.scores(self.answer)}
        return {**self.task.metrics(), **scores, "success": scores["strict"], "read_tokens": float(self.read_tokens)}

    def close(self) -> None:
        """Stop reading: a generator may hold a file open."""
        pages = getattr(self, "_pages", None)
        if pages is not None:
            pages.close()

    def _paged(self) -> Iterator[str]:
        page: list[str] = []
        held = 0
        for piece in self.task.pieces():
            size = self.count(piece)
            if page and (self.task.piece_is_page or held + size > self.page_tokens):
                yield self._close_page(page, held)
                page, held = [], 0
            page.append(piece)
            held += size
        if page:
            yield self._close_page(page, held)

    def _close_page(self, page: list[str], held: int) -> str:
        self.read_tokens += held
        if self.on_page is not None:
            self.on_page(held)
        return self.task.joiner.join(page)

    def _drain(self) -> Iterator[str]:
        for _ in self.task.pieces():
            continue
        yield from ()


def replayed(environment: Reading, row: Mapping[str, Any], answer: str) -> Mapping[str, float]:
    """The scores of an answer that was given earlier: the sample is read again, without a policy."""
    environment.reset(row)
    while not environment.advance(None).needs_act:
        continue
    environment.advance(answer)
    return environment.metrics()
