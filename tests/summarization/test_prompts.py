"""The words around a compaction."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summarization.parse import SCRATCH_CLOSE, SCRATCH_OPEN
from summarization.prompts import STYLES, TINY, Progress, PromptStyle, carry_message, request_message


@pytest.mark.parametrize("name", sorted(STYLES))
def test_every_style_says_all_that_it_is_given(name: str) -> None:
    style = STYLES[name]
    request = request_message(style, 7, "where is ada ?")
    assert request.role == "user"
    assert "7 tokens" in request.content
    assert "where is ada ?" in request.content
    carried = carry_message(style, "ada is in oslo", Progress(1, 2, 3, turns_left=4, keep="plan"))
    assert carried.role == "user"
    assert re.findall(r"\d", carried.content) == ["1", "2", "3", "4"]
    assert "ada is in oslo" in carried.content
    assert "plan" in carried.content


def test_the_request_names_the_marks_that_the_parser_reads() -> None:
    content = request_message(PromptStyle(), 7, "t").content
    assert SCRATCH_OPEN in content
    assert SCRATCH_CLOSE in content


@pytest.mark.parametrize("name", sorted(STYLES))
def test_what_is_unlimited_or_empty_leaves_no_trace(name: str) -> None:
    text = carry_message(STYLES[name], "s", Progress(1, 2, 3)).content
    assert re.findall(r"\d", text) == ["1", "2", "3"]
    assert "None" not in text
    assert "left" not in text


@pytest.mark.parametrize("name", sorted(STYLES))
def test_no_turns_left_is_said_and_is_not_no_limit(name: str) -> None:
    text = carry_message(STYLES[name], "s", Progress(1, 2, 3, turns_left=0)).content
    assert re.findall(r"\d", text) == ["1", "2", "3", "0"]


def test_the_tiny_style_uses_digits_and_the_words_of_its_templates() -> None:
    """A closed vocabulary is built from request, state and carry; a word from elsewhere would be unknown to it."""
    known = {word for text in (TINY.request, TINY.state, TINY.carry) for word in re.sub(r"\{\w+\}", " ", text).split()}
    text = carry_message(TINY, "", Progress(12, 34, 567, turns_left=890)).content
    assert set(text.split()) - known <= set("0123456789")
    assert "8 9 0" in text


@given(st.text(), st.text())
def test_texts_are_carried_as_they_are(summary: str, keep: str) -> None:
    text = carry_message(PromptStyle(), summary, Progress(1, 2, 3, keep=keep)).content
    assert summary in text
    assert keep in text
    assert summary in request_message(PromptStyle(), 8, summary).content


@pytest.mark.parametrize("field", ["request", "state", "left", "carry"])
@pytest.mark.parametrize("template", ["{nothing}", "{", "{}", "{0}"])
def test_a_template_that_cannot_be_filled_in_is_refused(field: str, template: str) -> None:
    with pytest.raises(ValueError, match=f"prompt '{field}' cannot be filled in.*its fields are"):
        replace(PromptStyle(), **{field: template})


@pytest.mark.parametrize("template", ["{budget:d}", "{budget.bits}", "{budget[key]}"])
def test_what_would_fail_only_in_use_is_refused_at_once(template: str) -> None:
    with pytest.raises(ValueError, match=r"prompt 'request' cannot be filled in.*\{budget\}, \{task\}"):
        PromptStyle(request=template)


def test_a_carry_without_the_summary_is_refused() -> None:
    with pytest.raises(ValueError, match=r"prompt 'carry' does not name \{summary\}"):
        PromptStyle(carry="{state}")
