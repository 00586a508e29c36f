"""The message, to and from the mapping that chat templates read."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summarization.messages import ROLES, Message


@given(st.sampled_from(ROLES), st.text(), st.none() | st.text())
def test_a_message_survives_its_mapping(role: str, content: str, name: str | None) -> None:
    message = Message(role, content, name)
    assert Message.from_dict(message.as_dict()) == message


def test_templates_see_a_name_only_where_there_is_one() -> None:
    assert Message("user", "x").as_dict() == {"role": "user", "content": "x"}
    assert Message("tool", "x", "search").as_dict() == {"role": "tool", "content": "x", "name": "search"}


def test_other_keys_are_ignored_and_no_content_is_empty_content() -> None:
    assert Message.from_dict({"role": "assistant", "content": None, "tool_calls": []}) == Message("assistant", "")
    assert Message.from_dict({"role": "assistant"}) == Message("assistant", "")


@pytest.mark.parametrize(("content", "text"), [(0, "0"), (False, "False"), (3.5, "3.5")])
def test_a_result_that_is_no_text_is_not_dropped(content: object, text: str) -> None:
    assert Message.from_dict({"role": "tool", "content": content}).content == text


@pytest.mark.parametrize("role", ["robot", "", "User"])
def test_an_unknown_role_is_refused_with_the_known_ones(role: str) -> None:
    with pytest.raises(ValueError, match=f"message role is '{role}'.*system, user, assistant, tool"):
        Message(role, "x")
    with pytest.raises(ValueError, match="message role"):
        Message.from_dict({"role": role, "content": "x"})


def test_a_message_never_changes() -> None:
    with pytest.raises(FrozenInstanceError):
        Message("user", "x").content = "y"  # type: ignore[misc]
