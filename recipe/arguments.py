"""A YAML and the command line, read into dataclasses; every mistake is one sentence."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast, get_origin, get_type_hints

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
from rollouts.yaml_file import NoDuplicates, one_sentence, read_fields
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
    if not argv or not argv[0].startswith("-"):
        given = f", not just '{argv[0]}'" if argv else ""
        raise UserError(f"--config: name a YAML file, such as --config configs/quickstart.yaml{given}")
    if "--config" in argv:
        at = argv.index("--config")
        if at + 1 >= len(argv):
            raise UserError("--config: name a YAML file after it")
        if argv.count("--config") > 1:
            raise UserError("--config: is given twice; name one YAML file, and give what differs as flags")
        source = argv[at + 1]
        read_fields(source, {**_hints(), "env": dict})
    _check_flags(argv, source)
    argv, mappings = _take_mappings(argv, source)
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint), _merged_config(argv, mappings) as argv:
            parsed = TrlParser(cast(Any, GROUPS)).parse_args_and_config(args=argv)
    except UserError as error:
        raise UserError(f"{source}: {error}") from error
    # The last three come of settings of accelerate and DeepSpeed that TRL passes on unchecked.
    except (ValueError, TypeError, OSError, AttributeError, ImportError) as error:
        raise UserError(f"{source}: {one_sentence(str(error))}") from error
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        text = complaint.getvalue().strip().splitlines()
        raise UserError(f"{source}: {re.sub(r'^.*error: ', '', text[-1]) if text else 'not understood'}") from stop
    return Arguments(*parsed, source=source)


def _take_mappings(argv: Sequence[str], source: str) -> tuple[list[str], dict[str, Any]]:
    """Take ``--field '{key: value}'`` out of the command line; argparse cannot read it."""
    hints = _hints()
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
            mappings[name] = yaml.load(text, NoDuplicates)
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


def _hints() -> dict[str, Any]:
    """The type of every field that a YAML may say."""
    named = {field.name for group in GROUPS for field in fields(group) if field.init}
    return {name: hint for group in GROUPS for name, hint in get_type_hints(group).items() if name in named}


def _check_flags(argv: Sequence[str], source: str) -> None:
    """Refuse a flag that nothing knows; beginnings of names are let through, since argparse completes them."""
    known = [field.name for group in GROUPS for field in fields(group) if field.init]
    for word in argv:
        name = word.partition("=")[0][2:].replace("-", "_")
        flags = [*known, *(f"no_{field}" for field in known), "config", "help"]
        if word.startswith("--") and not any(flag.startswith(name) for flag in flags):
            raise UserError(f"{source}: there is no field '{name}'; {closest(name, known)}")
