"""Files of task rows: what is wrong is named by file, line and column, before anything is trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from recipe.task_rows import read_task_rows
from summarization.resolve import UserError

GOOD = b'{"seed": 1, "text": "a"}\n'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "holds no task"),
        (b"\n \n", "holds no task"),
        (GOOD + b"{", "line 2: is no JSON"),
        (GOOD + b"[1]\n", "line 2: must be an object, is a list"),
        (GOOD + b"null\n", "line 2: must be an object, is null"),
        (GOOD + b"3\n", "line 2: must be an object, is a whole number"),
        (GOOD + b"{}\n", "line 2: is an empty object"),
        (GOOD * 4998 + b'{"seed": 1}\n', "line 4999: lacks the column 'text', which line 1 has"),
        (b"\n" + GOOD + b'\n{"seed": 1}\n', "line 4: lacks the column 'text', which line 2 has"),
        (GOOD * 2 + b'{"seed": "1", "text": "a"}\n', "line 3: column 'seed' is text, but a whole number in line 1"),
        (GOOD + b'{"seed": 1.0, "text": "a"}\n', "line 2: column 'seed' is a number with a point"),
        (GOOD + b'{"seed": true, "text": "a"}\n', "line 2: column 'seed' is true or false"),
        (b'{"a": null}\n{"a": 1}\n{"a": []}\n', "line 3: column 'a' is a list, but a whole number in line 2"),
        (GOOD + b'{"seed": 1, "text": "a", "seed": 2}\n', "line 2: column 'seed' is given twice"),
        (b'{"a": {"b": 1, "b": 2}}\n', "line 1: column 'b' is given twice"),
        (GOOD + b'{"seed": 1, "text": "\xff"}\n', "line 2: is no UTF-8"),
        ('{"seed": 1}\n'.encode("utf-16"), "line 1: is no UTF-8"),
        (b'{"a": 1}\n{"a": 1, "b": 2}\n', "line 2: has the column 'b', which line 1 lacks"),
        (b'{"a": {"x": 1}}\n{"a": {"y": 1}}\n', "task 1: column 'a' would be kept as {'x': 1, 'y': None}"),
        (b'{"a": [1, "b"]}\n', "column 'a' cannot be kept"),
        (b'{"seed": NaN}\n', "line 1: holds NaN"),
        (b'{"seed": -Infinity}\n', "line 1: holds -Infinity"),
        (b'{"seed": 1e999}\n', "line 1: column 'seed' is too large"),
        (b'{"seed": 9223372036854775808}\n', "line 1: column 'seed' is a whole number of more than 64 bits"),
        (b'{"seed": ' + b"1" * 5000 + b"}\n", "line 1: is no JSON"),
        (b"[" * 100_000 + b"\n", "line 1: is no JSON"),
        (b'{"text": "\\ud800"}\n', "line 1: column 'text' holds half of a surrogate pair"),
        (b'{"list": [{"text": "\\udfff"}]}\n', "line 1: column 'list' holds half of a surrogate pair"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        read_task_rows(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"\xef\xbb\xbf" + GOOD, [{"seed": 1, "text": "a"}]),
        (GOOD.replace(b"\n", b"\r\n") * 2, [{"seed": 1, "text": "a"}] * 2),
        (GOOD + b"\n" + GOOD.strip(), [{"seed": 1, "text": "a"}] * 2),
        (b'{"a": null}\n{"a": 1}\n{"a": null}\n', [{"a": None}, {"a": 1}, {"a": None}]),
        (b'{"a": {"x": [1]}}\n{"a": {"x": []}}\n', [{"a": {"x": [1]}}, {"a": {"x": []}}]),
        ('{"text": "one\u2028two\u0085three\\u000b\x7f"}\n'.encode(), [{"text": "one\u2028two\u0085three\x0b\x7f"}]),
        (b'{"n": -9223372036854775808}\n', [{"n": -(2**63)}]),
        (b'{"emoji": "\\ud83d\\ude00"}\n', [{"emoji": "\U0001f600"}]),
    ],
)
def test_what_is_right_is_read(tmp_path: Path, content: bytes, rows: list[dict[str, Any]]) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(content)
    assert read_task_rows(path) == rows


def test_a_missing_or_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"train_file is '.*none': it cannot be read"):
        read_task_rows(tmp_path / "none")
    with pytest.raises(UserError, match="cannot be read"):
        read_task_rows(tmp_path)


def rows_or_refusal(path: Path) -> list[dict[str, Any]] | str:
    try:
        return read_task_rows(path)
    except UserError as error:
        return str(error)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from("abc"), SCALARS, max_size=3) | JSON, max_size=5))
def test_rows_come_back_as_trl_will_see_them_or_are_refused(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "property.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    read = rows_or_refusal(path)
    if isinstance(read, str):
        assert str(path) in read
        return
    assert read == rows
    assert list(Dataset.from_list(read)) == read


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_rows_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.jsonl"
    path.write_bytes(content)
    read = rows_or_refusal(path)
    assert str(path) in read if isinstance(read, str) else read
