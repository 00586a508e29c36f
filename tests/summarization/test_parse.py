"""A summary reply taken apart: every string is some summary."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summarization.parse import Summary, parse_summary

PIECES = st.lists(st.sampled_from(["<scratch>", "</scratch>", "a", " ", "\n", "fact. ", "<scr", "é"])).map("".join)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("ada is in oslo.", Summary("ada is in oslo.")),
        ("<scratch>think</scratch> ada.", Summary("ada.", "think")),
        ("before <scratch>x</scratch> after", Summary("before\nafter", "x")),
        ("", Summary("", malformed=True)),
        ("   \n", Summary("", malformed=True)),
        ("<scratch>only thoughts</scratch>", Summary("", "only thoughts", malformed=True)),
        ("<scratch>never closed", Summary("", "never closed", malformed=True)),
        ("kept <scratch>never closed", Summary("kept", "never closed", malformed=True)),
        ("stray</scratch> kept", Summary("kept", malformed=True)),
        ("a</scratch> b <scratch>c</scratch> d", Summary("a</scratch> b\nd", "c", malformed=True)),
        ("<scratch>a</scratch> b <scratch>", Summary("b <scratch>", "a", malformed=True)),
    ],
)
def test_replies(reply: str, expected: Summary) -> None:
    assert parse_summary(reply) == expected


def test_a_cut_off_reply_says_so_and_keeps_what_it_has() -> None:
    assert parse_summary("ada is in", cut_off=True) == Summary("ada is in", cut_off=True)
    assert parse_summary("<scratch>thinking on and", cut_off=True).malformed


@given(PIECES)
def test_nothing_raises_and_thoughts_never_leak(reply: str) -> None:
    summary = parse_summary(reply)
    assert summary.text == summary.text.strip()
    if not summary.malformed:
        assert summary.text
        assert "<scratch>" not in summary.text
        assert "</scratch>" not in summary.text


@given(st.text() | PIECES, st.booleans())
def test_cut_off_is_what_the_sampler_said_and_changes_nothing_else(reply: str, cut_off: bool) -> None:
    assert parse_summary(reply, cut_off) == replace(parse_summary(reply), cut_off=cut_off)


@given(st.text(st.characters(exclude_characters="<>")))
def test_plain_text_is_its_own_summary(reply: str) -> None:
    summary = parse_summary(reply)
    assert summary == Summary(reply.strip(), malformed=not reply.strip())
    assert parse_summary(summary.text) == summary
