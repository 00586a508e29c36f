"""What an OpenAI-compatible endpoint answers, read tolerantly: it becomes a reply or a reason, never a crash."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class PassingFailure(Exception):
    """An attempt failed, but the next may not.

    Attributes:
        wait: Seconds that the endpoint asks to wait; None where it does not say.
    """

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


@dataclass(frozen=True)
class Reply:
    """A reply's content; token counts are None where the endpoint does not say."""

    text: str
    finish: str | None
    token_ids: tuple[int, ...] | None
    logprobs: tuple[float, ...]
    prompt_tokens: int | None
    completion_tokens: int | None


def json_of(payload: bytes) -> Any:
    """The reply's value; None where it is none."""
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None


def at(value: Any, *path: str | int) -> Any:
    """What stands at ``path`` in a value from JSON; None where nothing does."""
    for key in path:
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            return None
    return value


def error_text(fields: Any) -> str:
    """The message of an error, wherever the endpoint puts it."""
    for path in (("error", "message"), ("error",), ("message",), ("detail",)):
        found = at(fields, *path)
        if found:
            return found if isinstance(found, str) else json.dumps(found)
    return ""


def parsed(payload: bytes, shown: Callable[[str], str]) -> Reply:
    """A reply of either protocol.

    Raises:
        PassingFailure: It is none.
    """
    fields = json_of(payload)
    choice = at(fields, "choices", 0)
    if not isinstance(choice, dict):
        if not payload.strip():
            raise PassingFailure("the reply is empty")
        said = error_text(fields) or payload[:1000].decode("utf-8", "replace")
        raise PassingFailure(f"the reply is no {'completion' if fields is not None else 'JSON'} ({shown(said)})")
    text = at(choice, "message", "content") if "message" in choice else at(choice, "text")
    if isinstance(text, list):
        text = "".join(part for part in (at(part, "text") for part in text) if isinstance(part, str))
    finish = choice.get("finish_reason")
    token_ids = _token_ids(choice)
    if not isinstance(text, str):
        # A model that thinks may use up its tokens before it says anything.
        if token_ids is None and finish != "length":
            raise PassingFailure(f"the reply has no text (finish_reason {shown(str(finish))})")
        text = ""
    scores = at(choice, "logprobs", "token_logprobs")
    if scores is None:
        content = at(choice, "logprobs", "content")
        scores = [at(entry, "logprob") for entry in content] if isinstance(content, list) else []
    return Reply(
        text,
        finish if isinstance(finish, str) else None,
        token_ids,
        tuple(_logprob(score) for score in scores) if isinstance(scores, list) else (),
        _count(at(fields, "usage", "prompt_tokens")),
        _count(at(fields, "usage", "completion_tokens")),
    )


def _token_ids(choice: dict[str, Any]) -> tuple[int, ...] | None:
    """The sampled ids where the reply has them, in one of two ways."""
    ids = choice.get("token_ids")
    if not isinstance(ids, list):
        named = at(choice, "logprobs", "tokens")
        found = [re.fullmatch(r"token_id:(\d{1,9})", str(name), re.ASCII) for name in named or ()]
        ids = [int(match.group(1)) for match in found if match] if found and all(found) else []
    whole = ids and all(isinstance(token, int) and not isinstance(token, bool) and token >= 0 for token in ids)
    return tuple(ids) if whole else None


def _logprob(value: Any) -> float:
    """A log-probability; 0 where it is none."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and -math.inf < value <= 0 else 0.0


def _count(value: Any) -> int | None:
    """A count of tokens; None where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**40 else None


def without(text: str, prefix: str) -> str:
    """A reply without the prefix that it repeats."""
    start = prefix.strip()
    return text.lstrip()[len(start) :] if start and text.lstrip().startswith(start) else text
