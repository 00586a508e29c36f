"""The files in which a run notes what it has done, read so that a broken one is named, with what to delete."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml

from rollouts.yaml_file import one_sentence
from summarization.resolve import UserError

Record = TypeVar("Record")


def read_record(path: Path, delete: str, take: Callable[[Any], Record]) -> Record:
    """What ``take`` makes of the content of a JSON or YAML file.

    Args:
        delete: What to delete where the file is broken, and what happens then.
        take: Turns the parsed content into what is wanted; what it raises of a content of another form is caught.

    Raises:
        UserError: The file cannot be read, is cut off, or holds something else.
    """
    try:
        text = path.read_text(encoding="utf-8")
        return take(yaml.safe_load(text) if path.suffix == ".yaml" else json.loads(text))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        reason = one_sentence(str(error))
    except (TypeError, LookupError, AttributeError) as error:
        reason = f"holds something else, {one_sentence(str(error))}"
    raise UserError(f"{path}: is broken ({reason}): {delete}")
