"""Token ids -> what a person reads: messages with their roles, and sampled tokens one by one.

Roles are found among the token ids and not in the text: a page that spells a control token stays text.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from jinja2 import TemplateError

from rollouts.rendering import Renderer
from summarization.messages import Message
from summarization.resolve import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

UNFINISHED = "\ufffd"
"""What a tokenizer decodes the first bytes of a character to."""
LONGEST_CHARACTER = 8
"""Tokens after which a character that is still unfinished is taken for broken bytes."""
PROBE = "x"

Piece = tuple[str, str]
"""A role (empty where the template names none) and a text."""


class Decoder:
    """Reads token ids with the tokenizer that wrote them.

    Args:
        tokenizer: Of the policy. Without a chat template that can be read backwards, roles are left out.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self._by_first: dict[int, list[tuple[tuple[int, ...], str]]] = {}
        self._closings: list[tuple[int, ...]] = []
        try:
            renderer = Renderer(tokenizer)
        except UserError:
            # A tokenizer that could not play episodes can still read them.
            renderer = None
        if renderer is not None:
            self._learn_roles(renderer)
        # Every window of a group opens alike.
        self.messages = lru_cache(maxsize=512)(self._messages)

    def text(self, ids: Sequence[int]) -> str:
        """The text of ids, control tokens shown."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The text of each token, such that they join to the text of all; a character made of several tokens stands
        at the last of them."""
        pieces: list[str] = []
        start = read = 0
        for end in range(1, len(ids) + 1):
            before, upto = self.text(ids[start:read]), self.text(ids[start:end])
            if upto.endswith(UNFINISHED) and end < len(ids) and end - read < LONGEST_CHARACTER:
                pieces.append("")
                continue
            pieces.append(upto[len(before) :])
            start, read = read, end
        return pieces

    def _messages(self, ids: tuple[int, ...]) -> tuple[Piece, ...]:
        """The messages that ids are made of, what the template wrote around them left out."""
        found: list[Piece] = []
        role, begin, at = "", 0, 0
        while at < len(ids):
            opening = self._opening_at(ids, at)
            if opening is None:
                at += 1
                continue
            self._add(found, role, ids[begin:at])
            ids_of_role, role = opening
            at += len(ids_of_role)
            begin = at
        self._add(found, role, ids[begin:])
        return tuple(found)

    def _add(self, found: list[Piece], role: str, ids: tuple[int, ...]) -> None:
        for closing in self._closings:
            if ids[len(ids) - len(closing) :] == closing:
                ids = ids[: len(ids) - len(closing)]
                break
        if ids:
            found.append((role, self.text(ids)))

    def _opening_at(self, ids: tuple[int, ...], at: int) -> tuple[tuple[int, ...], str] | None:
        for opening, role in self._by_first.get(ids[at], ()):
            if ids[at : at + len(opening)] == opening:
                return opening, role
        return None

    def _learn_roles(self, renderer: Renderer) -> None:
        """Render a probe in each role; what stands before it opens the role, what stands after it closes it."""
        probe, control = renderer.content_ids(PROBE), set(self.tokenizer.all_special_ids)
        openings: dict[tuple[int, ...], str] = {}
        closings: set[tuple[int, ...]] = set()

        def learn(role: str, ids: tuple[int, ...]) -> None:
            at = next((i for i in range(len(ids)) if ids[i : i + len(probe)] == probe), None)
            if at is None:
                return
            # Without a control token, ordinary text could look like it.
            if control.intersection(ids[:at]):
                openings.setdefault(ids[:at], role)
            # The policy may have sampled the first tokens of a closing itself.
            closing = ids[at + len(probe) :]
            closings.update(closing[start:] for start in range(len(closing)))

        learn("user", renderer.appended((Message("user", PROBE),)))
        learn("assistant", (*renderer.generation_ids, *probe, *renderer.closing_ids))
        for role, render in (("tool", renderer.appended), ("system", renderer.opening)):
            try:
                learn(role, render((Message(role, PROBE),)))
            except (TemplateError, UserError):
                # This template knows no such role, so no episode has it.
                continue
        self._closings = sorted(closings, key=len, reverse=True)
        for opening in sorted(openings, key=len, reverse=True):
            self._by_first.setdefault(opening[0], []).append((opening, openings[opening]))
