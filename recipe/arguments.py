"""A YAML and the command line, read into dataclasses; every mistake is one sentence."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

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
        return Path(self.training.output_dir)


def parse(argv: Sequence[str]) -> Arguments:
    """Read ``--config FILE`` and what follows it on the command line, which wins over the file.

    Raises:
        UserError: Anything that cannot work, with the file, the field, the value and the remedy.
    """
    argv = list(argv)
    source = "command line"
    if "--config" in argv:
        at = argv.index("--config")
        if at + 1 >= len(argv):
            raise UserError("--config: name a YAML file after it")
        source = argv[at + 1]
        _check_file(source)
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            parsed = TrlParser(GROUPS).parse_args_and_config(args=argv)
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


def _check_file(path: str) -> None:
    """Refuse a file that is missing, not a flat mapping, or has a key that nothing knows."""
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
    for key in content:
        if key not in known and key != "env":
            raise UserError(f"{path}: there is no field '{key}'; {closest(str(key), known)}")


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
