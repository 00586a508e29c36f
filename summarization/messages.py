"""The message: what a chat template renders. The one carrier that every layer shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ROLES = ("system", "user", "assistant", "tool")


@dataclass(frozen=True)
class Message:
    """One chat message.

    Attributes:
        role: One of ``system``, ``user``, ``assistant``, ``tool``.
        content: Its text. It is always encoded as ordinary text: control tokens spelled in it stay text.
        name: For a tool's result, the tool's name; no other message has one.
    """

    role: str
    content: str
    name: str | None = None

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ValueError(f"message role is '{self.role}', must be one of {', '.join(ROLES)}")

    @property
    def is_result(self) -> bool:
        """Whether it answers a call: it stands with the call, in one window."""
        return self.role == "tool" or self.name is not None

    def as_dict(self) -> dict[str, Any]:
        """The mapping that chat templates read."""
        fields: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.name is not None:
            fields["name"] = self.name
        return fields

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Message:
        """The inverse of :meth:`as_dict`; keys that a template does not need are ignored."""
        content = fields.get("content")
        return cls(str(fields["role"]), "" if content is None else str(content), fields.get("name"))
