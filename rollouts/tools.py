"""Tools: their schemas, and the ways in which a policy writes a call.

A format says how tools are told to the policy, how calls are found in an act, and how a result is said. Three of them:

- :class:`TagCalls`: ``<tool_call>{"name": "read", "arguments": {"page": 3}}</tool_call>``, the form of Qwen2.5, Qwen3
  and Hermes, for chat templates that show tools and write calls so.
- :class:`LineCalls`: a line ``Action: read {"page": 3}``, told in the system message, for models without such a
  template.
- :class:`WordCalls`: the act is ``read 3``, for a closed vocabulary that has no JSON.

Nothing here runs a tool; :mod:`rollouts.tool_environment` does.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from transformers.utils import get_json_schema
from transformers.utils.chat_template_utils import DocstringParsingException, TypeHintParsingException

from summarization.messages import Message
from summarization.resolve import UserError

Schema = Mapping[str, Any]

COMPACT = "compact_context"
COMPACT_SCHEMA: Schema = {
    "type": "function",
    "function": {
        "name": COMPACT,
        "description": "Have the context summarized now, instead of when the window is full.",
        "parameters": {"type": "object", "properties": {}},
    },
}


@dataclass(frozen=True)
class Call:
    """A call as the policy wrote it; whether there is such a tool is not known here.

    Attributes:
        name: Of the tool.
        arguments: By parameter name.
    """

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class BadCall:
    """What was meant as a call and cannot be read as one.

    Attributes:
        text: As it was written.
        reason: What is wrong with it, for the policy.
    """

    text: str
    reason: str


class CallFormat(Protocol):
    """How a policy calls tools."""

    @property
    def name(self) -> str:
        """Its name among :data:`FORMATS`."""
        ...

    @property
    def shown_by_template(self) -> bool:
        """Whether the chat template is given the schemas."""
        ...

    def instructions(self, schemas: Sequence[Schema]) -> str:
        """What the system message must say about tools; empty where the chat template says it."""
        ...

    def parse(self, act: str, schemas: Sequence[Schema]) -> tuple[Call | BadCall, ...]:
        """The calls of an act, in order. Never raises: every string holds some number of calls."""
        ...

    def write(self, call: Call) -> str:
        """The act that makes a call, for demonstrations and oracles."""
        ...

    def result(self, name: str, text: str) -> Message:
        """The message that says what a tool answered. It has a name, which marks it as a result."""
        ...


@dataclass(frozen=True)
class TagCalls:
    """JSON between tags, for a chat template that shows the tools itself."""

    name: str = "tags"
    shown_by_template: bool = True

    def instructions(self, schemas: Sequence[Schema]) -> str:
        return ""

    def parse(self, act: str, schemas: Sequence[Schema]) -> tuple[Call | BadCall, ...]:
        calls: list[Call | BadCall] = []
        for block in without_thoughts(act).split("<tool_call>")[1:]:
            text, closed, _ = block.partition("</tool_call>")
            calls.append(_call_of_json(text) if closed else BadCall(text, "</tool_call> is missing"))
        return tuple(calls)

    def write(self, call: Call) -> str:
        body = json.dumps({"name": call.name, "arguments": dict(call.arguments)}, ensure_ascii=False)
        return f"<tool_call>\n{body}\n</tool_call>"

    def result(self, name: str, text: str) -> Message:
        return Message("tool", text, name)


@dataclass(frozen=True)
class LineCalls:
    """One line a call, in plain text."""

    name: str = "lines"
    shown_by_template: bool = False

    def instructions(self, schemas: Sequence[Schema]) -> str:
        lines = [
            "You act by calling tools. To call one, write a line of its own: the word Action, a colon, the tool's name "
            'and its arguments as one JSON object, such as\nAction: example {"text": "one", "count": 2}\n'
            "The answer comes in the next message. An act without such a line is your final answer.\n\nTools:"
        ]
        for schema in schemas:
            function = schema["function"]
            lines.append(f"{function['name']}: {function.get('description', '')}".rstrip(": "))
            required = set(function["parameters"].get("required", ()))
            for name, about in function["parameters"].get("properties", {}).items():
                optional = "" if name in required else ", optional"
                kind = about.get("type", "any")
                lines.append(f"  {name} ({kind}{optional}): {about.get('description', '')}".rstrip(": "))
        return "\n".join(lines)

    def parse(self, act: str, schemas: Sequence[Schema]) -> tuple[Call | BadCall, ...]:
        act = without_thoughts(act)
        calls: list[Call | BadCall] = []
        at = 0
        while found := _ACTION.search(act, at):
            line_end = act.find("\n", found.end())
            at = len(act) if line_end < 0 else line_end
            rest = act[found.end() : at]
            if not found["name"]:
                calls.append(BadCall(act[found.start() : at], "a tool's name must follow 'Action:'"))
            elif not rest.strip():
                calls.append(Call(found["name"], {}))
            else:
                arguments, end = _json_at(act, found.end())
                if isinstance(arguments, dict):
                    calls.append(Call(found["name"], arguments))
                    at = end
                else:
                    calls.append(BadCall(act[found.start() : at], "the arguments must be one JSON object"))
        return tuple(calls)

    def write(self, call: Call) -> str:
        arguments = f" {json.dumps(dict(call.arguments), ensure_ascii=False)}" if call.arguments else ""
        return f"Action: {call.name}{arguments}"

    def result(self, name: str, text: str) -> Message:
        return Message("user", f"Result of {name}:\n{text}", name)


@dataclass(frozen=True)
class WordCalls:
    """The whole act is one call: the tool's name, then a word for each parameter; the last takes all that are left."""

    name: str = "words"
    shown_by_template: bool = False

    def instructions(self, schemas: Sequence[Schema]) -> str:
        return ""

    def parse(self, act: str, schemas: Sequence[Schema]) -> tuple[Call | BadCall, ...]:
        act = without_thoughts(act)
        words = act.split()
        if not words:
            return ()
        for schema in schemas:
            if schema["function"]["name"] == words[0]:
                parameters = schema["function"]["parameters"].get("properties", {})
                if not parameters and words[1:]:
                    return (BadCall(act, f"'{words[0]}' takes no words after it"),)
                # As many words as there are parameters; all that is left over belongs to the last.
                given = act.split(maxsplit=len(parameters))[1:]
                named = zip(parameters.items(), given, strict=False)
                return (Call(words[0], {name: _typed(word.strip(), about) for (name, about), word in named}),)
        return (BadCall(act, f"an act must begin with one of {', '.join(tool_names(schemas))}"),)

    def write(self, call: Call) -> str:
        return " ".join([call.name, *(str(value) for value in call.arguments.values())])

    def result(self, name: str, text: str) -> Message:
        return Message("user", text, name)


FORMATS: Mapping[str, CallFormat] = {"tags": TagCalls(), "lines": LineCalls(), "words": WordCalls()}


@dataclass(frozen=True)
class ToolSettings:
    """What an environment is told of the policy before it is reset.

    Attributes:
        format: How the policy calls tools.
        result_characters: The longest result of a tool; what is longer is cut, with a mark. 0 for no limit.
        seconds: The longest that one step's asynchronous tools may take; 0 for no limit.
        offer_compaction: Whether the policy may ask for a compaction, by the tool ``compact_context``.
    """

    format: CallFormat
    result_characters: int = 50_000
    seconds: float = 0.0
    offer_compaction: bool = False


def tool_names(schemas: Sequence[Schema]) -> list[str]:
    """The names of tools, in order."""
    return [str(schema["function"]["name"]) for schema in schemas]


def schema_of(function: Callable[..., Any]) -> Schema:
    """The JSON schema of a function or a bound method, from its type hints and its Google docstring.

    Raises:
        UserError: It has no docstring, or lacks a hint or the description of a parameter.
    """
    return _schema_of(inspect.unwrap(getattr(function, "__func__", function)))


@lru_cache(maxsize=1024)
def _schema_of(function: Callable[..., Any]) -> Schema:
    try:
        return get_json_schema(function)
    except (DocstringParsingException, TypeHintParsingException, ValueError) as error:
        where = f"{function.__module__}.{function.__qualname__}"
        raise UserError(
            f"environment: tool '{where}' has no schema ({error}); give it type hints and a Google docstring with a "
            "line for each argument"
        ) from error


def without_thoughts(act: str) -> str:
    """An act without what was thought before it: a call that is only thought of is none."""
    return act.rpartition("</think>")[2]


def cut(text: str, most: int) -> str:
    """``text`` of at most ``most`` characters and a mark that says how many were left out; 0 for no limit."""
    if not most or len(text) <= most:
        return text
    return f"{text[:most]} [... cut: {len(text) - most:,} of {len(text):,} characters left out ...]"


_ACTION = re.compile(r"^[ \t]*Action:[ \t]*(?P<name>[A-Za-z_]\w*)?", re.MULTILINE)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _json_at(text: str, start: int) -> tuple[Any, int]:
    """The JSON value that begins at ``start``, after blanks, and where it ends; None where there is none."""
    start += len(text[start:]) - len(text[start:].lstrip())
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None, start


def _typed(word: str, about: Mapping[str, Any]) -> Any:
    """A word as the number that its parameter wants; as it is where it is none."""
    kind = {"integer": int, "number": float}.get(about.get("type", ""), str)
    try:
        return kind(word)
    except ValueError:
        return word


def _call_of_json(text: str) -> Call | BadCall:
    value, end = _json_at(text, 0)
    if not isinstance(value, dict) or text[end:].strip():
        return BadCall(text, "a call must be one JSON object with 'name' and 'arguments'")
    name, arguments = value.get("name"), value.get("arguments", {})
    if not isinstance(name, str) or not name:
        return BadCall(text, "'name' must be the name of a tool")
    if not isinstance(arguments, dict):
        return BadCall(text, "'arguments' must be a JSON object")
    return Call(name, arguments)
