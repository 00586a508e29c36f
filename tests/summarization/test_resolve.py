"""Names in a YAML, and what is said of wrong ones."""

from __future__ import annotations

from collections import OrderedDict

import pytest

from summarization.messages import Message
from summarization.resolve import UserError, closest, resolve

BUILTIN = {"ordered": "collections:OrderedDict"}


def test_short_names_and_import_paths() -> None:
    assert resolve("ordered", BUILTIN, "thing") is OrderedDict
    assert resolve("collections:OrderedDict", BUILTIN, "thing") is OrderedDict


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("orderd", "did you mean 'ordered'?"),
        ("collections:OrderdDict", "did you mean 'OrderedDict'?"),
        ("no_such_module:Thing", "no module 'no_such_module'"),
        ("collections:", "neither a built-in name"),
        (":Thing", "neither a built-in name"),
        ("", "neither a built-in name"),
    ],
)
def test_a_wrong_name_is_told_what_would_be_right(name: str, said: str) -> None:
    with pytest.raises(UserError, match="thing") as caught:
        resolve(name, BUILTIN, "thing")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_module_that_needs_a_missing_package_says_which(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path

    (Path(str(tmp_path)) / "needs_it.py").write_text("import package_that_is_missing\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UserError, match="needs the package 'package_that_is_missing'"):
        resolve("needs_it:Thing", BUILTIN, "thing")


def test_closest_lists_what_is_known_where_nothing_is_near() -> None:
    assert closest("zzz", ["a", "b"]) == "known names are a, b"
    assert closest("zzz", []) == "no names are known"


def test_messages_have_known_roles() -> None:
    with pytest.raises(ValueError, match="message role is 'robot'"):
        Message("robot", "x")
    assert Message.from_dict(Message("tool", "x", "f").as_dict()) == Message("tool", "x", "f")
