"""A flat YAML file of fields, read strictly: a mistake is one sentence that names the file, the field and the value."""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import yaml

from summarization.resolve import UserError, closest


class NoDuplicates(yaml.SafeLoader):
    """YAML in which a key stands once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """As its parent, but a key that is given twice is an error."""
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"field '{key}' is given twice", node.start_mark)
        return super().construct_mapping(node, deep)


def read_fields(path: str, hints: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a YAML file.

    Args:
        hints: The type of each field that there is.

    Raises:
        UserError: The file is missing, is no flat mapping, has a field that is not in ``hints``, or a value of another
            type. A number written as text (YAML reads 1e-5 so) is let through, as are types that YAML cannot say.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error
    try:
        content: Any = yaml.load(text, NoDuplicates)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # A date such as 2026-13-40 and nesting without end are not YAMLErrors.
        raise UserError(f"{path}: is no valid YAML ({one_sentence(str(error))})") from error
    if not isinstance(content, dict):
        raise UserError(f"{path}: must hold 'field: value' lines, but it holds a {type(content).__name__}")
    for key, value in content.items():
        if key not in hints:
            raise UserError(f"{path}: there is no field '{key}'; {closest(str(key), list(hints))}")
        converted = isinstance(value, str) and get_origin(hints[key]) not in (list, dict)
        if not converted and not fits(value, hints[key]):
            raise UserError(f"{path}: {key} is {value!r}: must be {in_words(hints[key])}")
    return content


def fits(value: object, hint: Any) -> bool:
    """Whether a YAML value is of the annotated type; types that YAML cannot say are let through."""
    if get_origin(hint) in (Union, types.UnionType):
        return any(fits(value, part) for part in get_args(hint))
    if get_origin(hint) is list:
        return isinstance(value, list) and all(fits(item, get_args(hint)[0]) for item in value)
    if hint is dict or get_origin(hint) is dict:
        return isinstance(value, dict)
    if hint in (int, float):
        return not isinstance(value, bool) and isinstance(value, int if hint is int else int | float)
    return isinstance(value, hint) if hint in (bool, str, types.NoneType) else True


def in_words(hint: Any) -> str:
    """An annotated type as a user would say it."""
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(in_words(part) for part in get_args(hint))
    if get_origin(hint) in (list, tuple):
        return f"a list, each item {in_words(get_args(hint)[0])}"
    if hint is dict or get_origin(hint) is dict:
        return "a mapping"
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text", types.NoneType: "null"}
    return words.get(hint, getattr(hint, "__name__", str(hint)))


def one_sentence(text: str) -> str:
    """White space folded, and cut where it grows long."""
    return re.sub(r"\s+", " ", text.strip())[:500]
