"""How calls are written and read: three formats, and everything that is none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trl.chat_template_utils import qwen2_5_chat_template

from rollouts.policies.tiny import tiny_tokenizer
from rollouts.rendering import Renderer
from rollouts.tools import FORMATS, BadCall, Call, cut, schema_of
from summarization.resolve import UserError
from tests.benchmarks.worlds import tool_tokenizer
from tests.rollouts.tool_worlds import PLAIN_TEMPLATE, TOOL_TEMPLATE, Library, Undocumented, byte_tokenizer

LIBRARY = Library()
SCHEMAS = [schema_of(tool) for tool in (LIBRARY.page, LIBRARY.burn)]
PLAIN_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("name", ["tags", "lines"])
@given(arguments=st.dictionaries(st.text(), PLAIN_JSON, max_size=3), before=st.sampled_from(["", "I think.\n"]))
def test_what_is_written_is_read_back(name: str, arguments: dict[str, Any], before: str) -> None:
    form = FORMATS[name]
    # The tags themselves may stand in no argument: they are what a call is cut out by.
    if "tool_call>" in json.dumps(arguments, ensure_ascii=False) or "</think>" in json.dumps(arguments):
        return
    call = Call("page", arguments)
    assert form.parse(before + form.write(call), SCHEMAS) == (call,)
    assert form.parse(f"{form.write(call)}\n{form.write(call)}", SCHEMAS) == (call, call)


@given(
    act=st.text()
    | st.lists(st.sampled_from(["<tool_call>", "</tool_call>", "Action:", "page", *'{}[]"\n'])).map("".join)
)
def test_every_text_holds_some_number_of_calls(act: str) -> None:
    for form in FORMATS.values():
        assert all(isinstance(found, Call | BadCall) for found in form.parse(act, SCHEMAS))


@pytest.mark.parametrize(
    "act",
    [
        '<tool_call>{"name": "page", "arguments": {}}',
        "<tool_call>page</tool_call>",
        '<tool_call>{"arguments": {}}</tool_call>',
        '<tool_call>{"name": "page", "arguments": [1]}</tool_call>',
        '<tool_call>{"name": "page", "arguments": {"number": NaN}}</tool_call>',
        '<tool_call>{"name": 3}</tool_call>',
        "<tool_call>" + "[" * 100_000 + "</tool_call>",
        '<tool_call>{"name": "page", "arguments": {"number": ' + "9" * 5000 + "}}</tool_call>",
    ],
)
def test_a_call_between_tags_that_cannot_be_read(act: str) -> None:
    (found,) = FORMATS["tags"].parse(act, SCHEMAS)
    assert isinstance(found, BadCall)
    assert found.reason


@pytest.mark.parametrize("act", ["Action:", "Action: 3", "Action: page number=3", "Action: page {", "Action: page [1]"])
def test_a_line_that_cannot_be_read(act: str) -> None:
    (found,) = FORMATS["lines"].parse(act, SCHEMAS)
    assert isinstance(found, BadCall)


def test_words_fill_the_parameters_in_order() -> None:
    parse = FORMATS["words"].parse
    assert parse("page 3", SCHEMAS) == (Call("page", {"number": 3}),)
    assert parse("page 3 very loud", SCHEMAS) == (Call("page", {"number": 3, "loud": "very loud"}),)
    assert parse("burn", SCHEMAS) == (Call("burn", {}),)
    assert parse("  ", SCHEMAS) == ()
    assert isinstance(parse("burn it", SCHEMAS)[0], BadCall)
    assert isinstance(parse("fly", SCHEMAS)[0], BadCall)


def test_a_call_that_is_only_thought_of_is_none() -> None:
    thought = FORMATS["tags"].write(Call("burn", {}))
    assert FORMATS["tags"].parse(f"<think>{thought}</think>no", SCHEMAS) == ()
    assert FORMATS["tags"].parse(f"<think>hm</think>{thought}", SCHEMAS) == (Call("burn", {}),)


def test_the_template_decides_the_format() -> None:
    assert Renderer(byte_tokenizer(TOOL_TEMPLATE)).call_format.name == "tags"
    assert Renderer(byte_tokenizer(qwen2_5_chat_template)).call_format.name == "tags"
    assert Renderer(byte_tokenizer(PLAIN_TEMPLATE)).call_format.name == "lines"
    assert Renderer(tiny_tokenizer()).call_format.name == "lines"


def test_tags_that_are_control_tokens_are_seen_in_an_act() -> None:
    tokenizer = tool_tokenizer()
    act = '<tool_call>{"name": "read", "arguments": {}}</tool_call><|im_end|>'
    ids = tokenizer.encode(act, add_special_tokens=False)
    assert FORMATS["tags"].parse(Renderer(tokenizer).decode(ids), SCHEMAS) == (Call("read", {}),)


def test_a_renderer_with_tools_is_made_once() -> None:
    renderer = Renderer(byte_tokenizer(TOOL_TEMPLATE))
    assert renderer.with_tools([]) is renderer
    assert renderer.with_tools(SCHEMAS) is renderer.with_tools(list(SCHEMAS))


def test_a_tool_without_a_docstring_is_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"Undocumented\.page' has no schema .* Google docstring"):
        schema_of(Undocumented().page)


def test_a_cut_says_how_much_is_missing() -> None:
    assert cut("a" * 10, 10) == "a" * 10
    assert cut("a" * 10, 0) == "a" * 10
    assert cut("a" * 1010, 10) == "a" * 10 + " [... cut: 1,000 of 1,010 characters left out ...]"
