"""Needed facts of rows of public files: known where the row tells, from the piece on that states them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval.tasks.base import Ask
from eval.tasks.files import FILE_TASKS, FileTask
from summarization.metrics import held
from tests.eval.tasks.samples import words

FILLER = "The sea is wide and the sky is blue over all of it.\n" * 30
UUID = "0f0e0d0c-1234-4abc-8def-001122334455"


def made(folder: Path, format: str, row: dict[str, Any], name: str = "sample", **options: object) -> FileTask:
    path = folder / f"{name}.jsonl"
    path.write_text(json.dumps(row) + "\n")
    return FILE_TASKS[f"{format}_file"](Ask(0, 0, words, {"path": str(path), **options}))


def known(task: FileTask) -> list[tuple[str, ...]]:
    """What is needed before each piece, and after the last: each fact from the piece on that completes it."""
    found = []
    for _ in task.pieces():
        found.append(tuple(task.needed()))
    found.append(tuple(task.needed()))
    return found


@pytest.mark.parametrize("values", [["1234567", "7654321"], [UUID], ["ABCDE", "FGHIJ", "KLMNO"]])
def test_rulers_references_are_needed_from_where_they_stand(tmp_path: Path, values: list[str]) -> None:
    text = FILLER.join(f"It is {value}.\n" for value in values)
    task = made(tmp_path, "ruler", {"input": f"{FILLER}{text}{FILLER}\nWhat are they in the text?", "outputs": values})
    steps = known(task)
    assert steps[0] == ()
    assert steps[-1] == tuple(values)
    assert {len(step) for step in steps} == set(range(len(values) + 1))
    assert [len(step) for step in steps] == sorted(len(step) for step in steps)


def test_a_fact_is_needed_only_after_its_piece(tmp_path: Path) -> None:
    task = made(
        tmp_path, "ruler", {"input": f"{FILLER}It is 1234567.\n{FILLER}\nWhat is it, then?", "outputs": ["1234567"]}
    )
    read: list[str] = []
    for piece in task.pieces():
        assert bool(task.needed()) == any(held("1234567", earlier) for earlier in read)
        read.append(piece)


@pytest.mark.parametrize(
    ("outputs", "name", "metric"),
    [
        (["apple", "pear"], "cwe", "auto"),
        (["York"], "qa_1", "auto"),
        (["1234567"], "x", "string_match_part"),
        (["1234567", "pear"], "y", "auto"),
        (["42"], "z", "auto"),
        (["9999999"], "not_there", "auto"),
    ],
)
def test_words_of_everyday_text_tell_nothing(tmp_path: Path, outputs: list[str], name: str, metric: str) -> None:
    text = f"{FILLER}apple pear York 1234567 42 99999990\nWhich ones are in it?"
    (tmp_path / name).mkdir()
    task = made(tmp_path / name, "ruler", {"input": text, "outputs": outputs}, metric=metric)
    assert known(task)[-1] == ()


def test_the_reply_of_mrcr_over_several_pieces(tmp_path: Path) -> None:
    reply = "\n".join(f"Line {number} of a long poem about penguins." for number in range(60))
    chat = [
        {"role": "user", "content": "write a poem"},
        {"role": "assistant", "content": reply},
        {"role": "user", "content": "write a story"},
        {"role": "assistant", "content": FILLER},
        {"role": "user", "content": "Prepend Ab12 to the 1st poem."},
    ]
    row = {"prompt": json.dumps(chat), "answer": f"Ab12{reply}", "random_string_to_prepend": "Ab12"}
    steps = known(made(tmp_path, "mrcr", row))
    assert steps[-1] == (reply,)
    assert 4 < steps.index((reply,)) < len(steps) - 1
    missing = {**row, "answer": "Ab12another poem"}
    assert known(made(tmp_path, "mrcr", missing))[-1] == ()


def test_parents_of_graphwalks(tmp_path: Path) -> None:
    edges = ["aa -> bb", *(f"x{n} -> y{n}" for n in range(300)), "cc -> bb", "aa -> cc", "dd -> aa"]
    prompt = "The graph has the edges:\n" + "\n".join(edges) + "\n\nOperation:\nFind the parents of node bb."
    row = {"prompt": prompt, "answer_nodes": ["cc", "aa"], "problem_type": "parents"}
    steps = known(made(tmp_path, "graphwalks", row))
    assert steps[-1] == ("aa", "cc")
    assert ("aa",) in steps
    assert known(made(tmp_path, "graphwalks", {**row, "problem_type": "bfs"}))[-1] == ()


def test_what_infinitebench_hides(tmp_path: Path) -> None:
    row = {"context": f"{FILLER}The pass key is 71432. {FILLER}", "input": "What is the key?", "answer": ["71432"]}
    assert known(made(tmp_path, "infinitebench", row, "passkey"))[-1] == ("71432",)
    assert known(made(tmp_path, "infinitebench", row, "math_find"))[-1] == ()
