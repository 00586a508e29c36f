"""Any class written for TRL's ``environment_factory``, as it is: one names it in a YAML.

As in TRL 1.16: ``reset(**row)`` gets all columns of the row, and a text that it returns is added to the last message
of the column ``prompt``; public methods are tools, coroutines too; an act without a call ends the episode;
``get_reward()`` scores it, and may be a coroutine. Unlike there, an instance plays one episode: it is made, called and
scored in one thread, so what is expensive to make belongs into the module.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rollouts.tool_environment import ToolEnvironment
from rollouts.tools import schema_of
from summarization.messages import ROLES, Message
from summarization.resolve import UserError

NOT_TOOLS = ("reset", "get_reward")


def is_trl_style(kind: object) -> bool:
    """Whether a class looks as one written for ``environment_factory``."""
    return inspect.isclass(kind) and inspect.isfunction(getattr(kind, "reset", None))


def public_methods(kind: type) -> list[str]:
    """The names of a class's tools, in TRL's order."""
    members = inspect.getmembers(kind, predicate=inspect.isfunction)
    return [name for name, _ in members if name not in NOT_TOOLS and not name.startswith("_")]


class TRLEnvironment(ToolEnvironment):
    """One episode of an instance of ``kind``.

    Args:
        kind: The class.
        kwargs: What its constructor takes.
        unsent: Columns that ``reset`` is not given.
    """

    def __init__(self, kind: type, kwargs: Mapping[str, Any], unsent: Sequence[str] = ()) -> None:
        self._kind, self._kwargs, self._unsent = kind, kwargs, unsent
        self._instance: Any = None

    def begin(self, task: Mapping[str, Any]) -> Sequence[Message]:
        messages = prompt_messages(task.get("prompt"), self._kind.__name__)
        # Made here and not in the constructor: this runs in the thread that later calls its tools.
        self._instance = self._kind(**self._kwargs)
        said = self._instance.reset(**{name: value for name, value in task.items() if name not in self._unsent})
        if said is None:
            return messages
        last = messages[-1]
        return [*messages[:-1], Message(last.role, last.content + text_of(said, "reset"), last.name)]

    def functions(self) -> Mapping[str, Callable[..., Any]]:
        return {name: getattr(self._instance, name) for name in public_methods(type(self._instance))}

    def reward(self) -> float | None:
        reward = self._instance.get_reward()
        return self.awaited(reward) if inspect.isawaitable(reward) else reward

    def close(self) -> None:
        super().close()
        self._instance = None


def check_trl_class(kind: type, name: str) -> None:
    """Refuse a class whose episodes could not be played or scored.

    Raises:
        UserError: It has no ``get_reward``, or a tool has no schema.
    """
    if not inspect.isfunction(getattr(kind, "get_reward", None)):
        raise UserError(
            f"environment: '{name}' has no method get_reward, so its episodes would have no reward; add "
            "get_reward(self) -> float"
        )
    for method in public_methods(kind):
        schema_of(getattr(kind, method))


def prompt_messages(prompt: object, name: str) -> list[Message]:
    """The messages of a row's column ``prompt``: a text, or a list of messages; one empty user message without it.

    Raises:
        UserError: It is something else.
    """
    if prompt is None:
        return [Message("user", "")]
    if isinstance(prompt, str):
        return [Message("user", prompt)]
    messages: Sequence[Any] = prompt if isinstance(prompt, Sequence) else ()
    if not messages or any(not isinstance(m, Mapping) or m.get("role") not in ROLES for m in messages):
        raise UserError(
            f"environment '{name}': column 'prompt' is {prompt!r:.80}, must be a text, or a list of messages with "
            "'role' and 'content'"
        )
    return [Message(m["role"], text_of(m.get("content") or "", "prompt"), m.get("name")) for m in messages]


def text_of(content: object, where: str) -> str:
    """The text of a message's content, which may be a list of text parts.

    Raises:
        UserError: It holds an image or another part that is no text.
    """
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, Mapping) and part.get("type") == "text" for part in content):
        return "".join(str(part.get("text", "")) for part in content)
    raise UserError(f"environment: {where} holds {content!r:.80}, must be text: images are not read here")
