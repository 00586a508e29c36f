"""A YAML and the command line, read into dataclasses; every mistake is one sentence."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import yaml
from trl import TrlParser

from recipe.config import (
    CompactionArguments,
    CreditArguments,
    EpisodeArguments,
    PolicyArguments,
    StageArguments,
    TrainingConfig,
)
from summarization.resolve import UserError, closest

GROUPS = (PolicyArguments, EpisodeArguments, CompactionArguments, CreditArguments, StageArguments, TrainingConfig)


@dataclass(frozen=True)
class Arguments:
    """All that a run was asked to do."""

    policy: PolicyArguments
    episodes: EpisodeArguments
    compaction: CompactionArguments
    credit: CreditArguments
    stages: StageArguments
    training: TrainingConfig
    source: str

    @property
    def output_dir(self) -> Path:
        """Where everything is written."""
        return Path(str(self.training.output_dir))


def parse(argv: Sequence[str]) -> Arguments:
    """Read ``--config FILE`` and what follows it on the command line, which wins over the file.

    Raises:
        UserError: Anything that cannot work, with the file, the field, the value and the remedy.
    """
    # TrlParser looks for '--config' alone, and would pass over '--config=FILE' without reading the file.
    argv = [part for word in argv for part in (word.split("=", 1) if word.startswith("--config=") else [word])]
    source = "command line"
    if "--config" in argv:
        at = argv.index("--config")
        if at + 1 >= len(argv):
            raise UserError("--config: name a YAML file after it")
        source = argv[at + 1]
        _check_file(source)
    _check_flags(argv, source)
    argv, mappings = _take_mappings(argv, source)
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint), _merged_config(argv, mappings) as argv:
            parsed = TrlParser(cast(Any, GROUPS)).parse_args_and_config(args=argv)
    except UserError as error:
        raise UserError(f"{source}: {error}") from error
    except (ValueError, TypeError) as error:
        raise UserError(f"{source}: {_one_sentence(str(error))}") from error
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        text = complaint.getvalue().strip().splitlines()
        raise UserError(f"{source}: {re.sub(r'^.*error: ', '', text[-1]) if text else 'not understood'}") from stop
    return Arguments(*parsed, source=source)


def _take_mappings(argv: Sequence[str], source: str) -> tuple[list[str], dict[str, Any]]:
    """Take ``--field '{key: value}'`` out of the command line; argparse cannot read it."""
    hints: dict[str, Any] = {name: hint for group in GROUPS for name, hint in get_type_hints(group).items()}
    words = list(argv)
    rest: list[str] = []
    mappings: dict[str, Any] = {}
    while words:
        word = words.pop(0)
        flag, joined, text = word.partition("=")
        name = flag[2:].replace("-", "_")
        if not word.startswith("--") or get_origin(hints.get(name)) is not dict:
            rest.append(word)
            continue
        if not joined:
            text = words.pop(0) if words else ""
        try:
            mappings[name] = yaml.load(text, _NoDuplicates)
        except yaml.YAMLError:
            mappings[name] = text
        if not isinstance(mappings[name], dict):
            raise UserError(f"{source}: {name} is {text!r}: must be a mapping, such as '{{page_words: 40}}'")
    return rest, mappings


@contextlib.contextmanager
def _merged_config(argv: list[str], mappings: dict[str, Any]) -> Iterator[list[str]]:
    """The command line with a file that holds the mappings beside what the named file says."""
    if not mappings:
        yield argv
        return
    at = argv.index("--config") if "--config" in argv else None
    content = {} if at is None else yaml.safe_load(Path(argv[at + 1]).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.yaml"
        file.write_text(yaml.safe_dump({**content, **mappings}), encoding="utf-8")
        rest = argv if at is None else [*argv[:at], *argv[at + 2 :]]
        yield ["--config", str(file), *rest]


def _check_flags(argv: Sequence[str], source: str) -> None:
    """Refuse a flag that nothing knows; beginnings of names are let through, since argparse completes them."""
    known = [field.name for group in GROUPS for field in fields(group) if field.init]
    for word in argv:
        name = word.partition("=")[0][2:].replace("-", "_")
        flags = [*known, *(f"no_{field}" for field in known), "config", "help"]
        if word.startswith("--") and not any(flag.startswith(name) for flag in flags):
            raise UserError(f"{source}: there is no field '{name}'; {closest(name, known)}")


def _check_file(path: str) -> None:
    """Refuse a file that is missing, not a flat mapping, or has a key that nothing knows or a value of another type."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error
    try:
        content: Any = yaml.load(text, _NoDuplicates)
    except yaml.YAMLError as error:
        raise UserError(f"{path}: is no valid YAML ({_one_sentence(str(error))})") from error
    if not isinstance(content, dict):
        raise UserError(f"{path}: must hold 'field: value' lines, but it holds a {type(content).__name__}")
    known = [field.name for group in GROUPS for field in fields(group) if field.init]
    hints: dict[str, Any] = {name: hint for group in GROUPS for name, hint in get_type_hints(group).items()}
    for key, value in content.items():
        if key == "env":
            continue
        if key not in known:
            raise UserError(f"{path}: there is no field '{key}'; {closest(str(key), known)}")
        # argparse converts text, as in 1e-5, which YAML reads as text; everything else it takes as it is.
        converted = isinstance(value, str) and get_origin(hints[key]) not in (list, dict)
        if not converted and not _fits(value, hints[key]):
            raise UserError(f"{path}: {key} is {value!r}: must be {_in_words(hints[key])}")


def _fits(value: object, hint: Any) -> bool:
    """Whether a YAML value is of the annotated type; types that YAML cannot say are let through."""
    if get_origin(hint) in (Union, types.UnionType):
        return any(_fits(value, part) for part in get_args(hint))
    if get_origin(hint) is list:
        return isinstance(value, list) and all(_fits(item, get_args(hint)[0]) for item in value)
    if hint is dict or get_origin(hint) is dict:
        return isinstance(value, dict)
    if hint in (int, float):
        return not isinstance(value, bool) and isinstance(value, int if hint is int else int | float)
    return isinstance(value, hint) if hint in (bool, str, types.NoneType) else True


def _in_words(hint: Any) -> str:
    """An annotated type as a user would say it."""
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_in_words(part) for part in get_args(hint))
    if get_origin(hint) is list:
        return f"a list, each item {_in_words(get_args(hint)[0])}"
    if hint is dict or get_origin(hint) is dict:
        return "a mapping"
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text", types.NoneType: "null"}
    return words.get(hint, getattr(hint, "__name__", str(hint)))


class _NoDuplicates(yaml.SafeLoader):
    """YAML in which a key stands once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"field '{key}' is given twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _one_sentence(text: str) -> str:
    return re.sub(r"\s+", " ", text.strip())[:500]
