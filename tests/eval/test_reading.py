"""The environment that reads evaluation tasks page by page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pytest

from eval.reading import Reading, replayed, task_class
from eval.tasks.base import Ask, Task, cut, scattered
from eval.tasks.known import BUILTIN, FORMATS
from summarization.resolve import UserError
from tests.eval.tasks.samples import words

QUESTION = "which is the last line ?"


class Lines(Task):
    """Ten numbered lines of ten words; asks for the last."""

    name = "lines"
    about = "for tests"
    defaults: ClassVar[Mapping[str, Any]] = {"loud": False, "times": 1}
    answer_prefix = "It is"

    @property
    def question(self) -> str:
        return QUESTION

    def pieces(self) -> Iterator[str]:
        for index in range(10):
            yield f"line{index} " + "word " * 8 + "end"

    def answers(self) -> Sequence[str]:
        return ("line9",)

    def scores(self, answer: str) -> Mapping[str, float]:
        return {"official": float("line9" in answer), "strict": float(answer.strip() == "line9")}


HERE = f"{__name__}:Lines"
ROW = {"task": HERE, "seed": 1, "tokens": 100}


def read(environment: Reading, row: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """What opens the episode, and what is delivered after it."""
    opening = [m.content for m in environment.reset(row).messages]
    delivered: list[str] = []
    while True:
        observation = environment.advance(None)
        delivered += [m.content for m in observation.messages]
        if observation.needs_act:
            return opening, delivered


def test_pieces_are_put_together_into_pages() -> None:
    _, delivered = read(Reading(words, page_tokens=30), ROW)
    assert [words(page) for page in delivered[:-1]] == [30, 30, 30, 10]
    assert " ".join(delivered[:-1]).split() == " ".join(Lines(Ask(1, 100, words)).pieces()).split()


def test_a_piece_larger_than_a_page_is_a_page() -> None:
    _, delivered = read(Reading(words, page_tokens=3), ROW)
    assert [words(page) for page in delivered[:-1]] == [10] * 10


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [
        ("both", QUESTION, QUESTION),
        ("first", QUESTION, Lines.ending),
        ("last", Lines.wait, QUESTION),
    ],
)
def test_where_the_question_stands(asked: str, first: str, last: str) -> None:
    environment = Reading(words)
    opening, delivered = read(environment, {**ROW, "asked": asked})
    assert opening == [Lines.system, first]
    assert delivered[-1] == last
    assert environment.task_text() == ("" if asked == "last" else QUESTION)


def test_a_blank_reading_delivers_nothing_but_knows_the_answer() -> None:
    environment = Reading(words, blank=True)
    _, delivered = read(environment, ROW)
    assert delivered == [QUESTION]
    environment.advance("line9")
    assert environment.metrics()["strict"] == 1.0
    assert environment.metrics()["read_tokens"] == 0.0


def test_both_scores_and_the_prefix() -> None:
    environment = Reading(words)
    environment.reset(ROW)
    while not (observation := environment.advance(None)).needs_act:
        continue
    assert observation.answer_prefix == "It is"
    assert environment.reward() == 0.0
    assert environment.advance("the answer is line9").done
    found = environment.metrics()
    assert (found["official"], found["strict"], found["success"], found["read_tokens"]) == (1.0, 0.0, 0.0, 100.0)


def test_a_replay_scores_as_the_episode_did() -> None:
    assert replayed(Reading(words), ROW, "line9")["strict"] == 1.0


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"task": HERE, "seed": 1}, "no column 'tokens'"),
        ({**ROW, "asked": "middle"}, "asked is 'middle'"),
        ({**ROW, "task": "niah_singel_1"}, "did you mean 'niah_single_1'"),
        ({**ROW, "task": "eval.tasks.base:Ask"}, "not a subclass"),
        ({**ROW, "options": {"lod": True}}, "did you mean 'loud'"),
        ({**ROW, "options": {"loud": 1}}, "loud is 1"),
        ({**ROW, "options": {"times": True}}, "times is True"),
    ],
)
def test_a_wrong_row_is_refused(row: Mapping[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Reading(words).reset(row)


def test_every_task_has_a_name_a_line_and_options_that_it_knows() -> None:
    for name in BUILTIN:
        kind = task_class(name)
        assert kind.name == name
        assert kind.about
        assert "\n" not in kind.about
    assert all(task_class(f"{name}_file").about for name in FORMATS)


@pytest.mark.parametrize("name", [name for name in BUILTIN if name not in ("recall", "chain")])
@pytest.mark.parametrize("tokens", [2000, 9000])
def test_a_right_answer_is_right_and_lengths_hold(name: str, tokens: int) -> None:
    """The answer that a task says is right scores 1 by both scores, and its pages are as long as asked for."""
    environment = Reading(words)
    row = {"task": name, "seed": 5, "tokens": tokens}
    _, delivered = read(environment, row)
    assert abs(sum(map(words, delivered[:-1])) - tokens) <= 0.02 * tokens
    again = Reading(words)
    assert read(again, row)[1] == delivered
    other = Reading(words)
    assert read(other, {**row, "seed": 6})[1] != delivered
    environment.advance("xyzzy")
    assert environment.metrics()["strict"] == 0.0


@pytest.mark.parametrize("kind", ["find", "latest"])
@pytest.mark.parametrize("name", ["recall", "chain"])
def test_recall_as_a_task(name: str, kind: str) -> None:
    environment = Reading(words, page_tokens=1)
    _, delivered = read(environment, {"task": name, "seed": 3, "tokens": 2000, "options": {"kind": kind}})
    assert abs(sum(map(words, delivered[:-1])) - 2000) <= 40
    (fact,) = environment.needed()
    pages = [index for index, page in enumerate(delivered[:-1]) if fact in page]
    assert pages
    if name == "chain":
        assert pages == [0]
    environment.advance(fact)
    assert environment.reward() == 1.0


def test_scattered_needles_all_come_in_order_and_the_length_holds() -> None:
    hay = iter(lambda: "a b c d e f g", None)
    found = list(scattered(["X 1", "Y 2", "Z 3"], [0.0, 0.5, 1.0], hay, 100, words))
    assert [needle for _, needle in found if needle is not None] == [0, 1, 2]
    assert sum(words(piece) for piece, _ in found) == 100
    assert found[0] == ("X 1", 0)
    assert found[-1] == ("Z 3", 2)
    with pytest.raises(UserError, match="ask for a longer sample"):
        list(scattered(["one two three"], [0.5], hay, 2, words))


def test_cut_keeps_whole_words_that_fit() -> None:
    assert cut("a b c d", 2, words) == "a b"
    assert cut("a b", 5, words) == "a b"
    assert cut("a", 0, words) == ""
