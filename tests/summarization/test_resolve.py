"""Names in a YAML, and what is said of wrong ones."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import pytest

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
        (".relative:Thing", "neither a built-in name"),
        ("", "neither a built-in name"),
    ],
)
def test_a_wrong_name_is_told_what_would_be_right(name: str, said: str) -> None:
    with pytest.raises(UserError, match="thing") as caught:
        resolve(name, BUILTIN, "thing")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_module_that_needs_a_missing_package_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "needs_it.py").write_text("import package_that_is_missing\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match="needs the package 'package_that_is_missing'"):
        resolve("needs_it:Thing", BUILTIN, "thing")


def test_a_module_that_imports_what_is_not_there_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wants_too_much.py").write_text("from json import no_such_name\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=r"thing: 'wants_too_much:Thing' cannot be imported .*no_such_name"):
        resolve("wants_too_much:Thing", BUILTIN, "thing")


def test_an_error_inside_a_users_module_is_theirs_to_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "divides.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ZeroDivisionError):
        resolve("divides:Thing", BUILTIN, "thing")


def test_a_far_off_name_is_answered_with_public_names_only() -> None:
    with pytest.raises(UserError, match=r"known names are .*JSONDecoder") as caught:
        resolve("json:qqqqqqqq", BUILTIN, "thing")
    assert "__" not in str(caught.value)


def test_closest_lists_what_is_known_where_nothing_is_near() -> None:
    assert closest("zzz", ["a", "b"]) == "known names are a, b"
    assert closest("zzz", []) == "no names are known"
