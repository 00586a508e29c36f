"""Chat template <-> token ids, append-only inside a segment.

The template is rendered with placeholders where the contents go, and split at them. What the template wrote is encoded
with its control tokens; what stood in a message is encoded as ordinary text, so that an observation that spells
``<|im_end|>`` cannot end a turn. A message appended later is what the template adds for it after a fixed
conversation, so sampled tokens are never decoded and encoded again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from rollouts.contents import Contents
from rollouts.episode import Episode
from rollouts.tools import FORMATS, Call, CallFormat, Schema
from summarization.messages import Message
from summarization.resolve import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_SLOT = re.compile(r"palimpsestslot(\d+)x")
_SYSTEM, _USER, _ASSISTANT = Message("system", "S"), Message("user", "U"), Message("assistant", "A")


def _slot(index: int) -> str:
    return f"palimpsestslot{index}x"


class Renderer:
    """Turns messages into token ids for one tokenizer and one set of tools.

    Args:
        tokenizer: With a chat template.
        tools: JSON schemas that the template should show; they stay in the rendering of every window.
        template_kwargs: Passed to the template (``enable_thinking`` and the like).

    Raises:
        UserError: There is no chat template, or it rewrites earlier turns (it is not append-only).
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        tools: Sequence[Mapping[str, Any]] = (),
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.tools = [dict(tool) for tool in tools]
        self.template_kwargs = dict(template_kwargs or {})
        self._siblings: dict[str, Renderer] = {}
        self._encoded: dict[str, tuple[int, ...]] = {}
        # Renderings hold slots in place of contents, so there are as many as sequences of roles: few.
        self._pieces: dict[str, tuple[tuple[int, tuple[int, ...]], ...]] = {}
        self._rendered: dict[tuple[tuple[Message, ...], bool], str] = {}
        self._following: dict[tuple[tuple[str, str | None], ...], str] = {}
        self._contents = Contents(tokenizer)
        if not tokenizer.chat_template:
            raise UserError(f"policy: the tokenizer '{self.name}' has no chat template; name a policy that has one")
        self._check_append_only()
        self._check_control_tokens()

    @property
    def name(self) -> str:
        """What the tokenizer calls itself, for messages."""
        return self.tokenizer.name_or_path or type(self.tokenizer).__name__

    def with_tools(self, tools: Sequence[Schema]) -> Renderer:
        """This renderer with other tools; the same one for the same tools, so that what it keeps is shared."""
        if list(tools) == self.tools:
            return self
        key = json.dumps(list(tools), sort_keys=True)
        if key not in self._siblings:
            sibling = Renderer(self.tokenizer, tools, self.template_kwargs)
            # What a content is encoded to does not depend on the tools.
            sibling._contents, sibling._siblings = self._contents, self._siblings
            self._siblings[key] = sibling
        return self._siblings[key]

    @cached_property
    def call_format(self) -> CallFormat:
        """How the policy calls tools: between tags where the template shows tools and writes calls so; else lines."""
        tags, call = FORMATS["tags"], Call("example", {"text": "one", "count": 2})
        function = {"name": call.name, "arguments": dict(call.arguments)}
        schema = {"type": "function", "function": {**function, "description": "", "parameters": {}}}
        said = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}

        def rendered(messages: Sequence[Mapping[str, Any]], tools: Any) -> str:
            kwargs = {**self.template_kwargs, "tools": tools, "tokenize": False}
            return str(self.tokenizer.apply_chat_template([dict(message) for message in messages], **kwargs))

        try:
            opening = [_USER.as_dict()]
            shown = rendered(opening, [schema]) != rendered(opening, None)
            written = rendered([*opening, said], None).partition(rendered(opening, None))[2]
        except Exception:
            # A template may refuse tools in any way it likes; to those they are told in plain text.
            return FORMATS["lines"]
        return tags if shown and tags.parse(written, ()) == (call,) else FORMATS["lines"]

    @cached_property
    def _calls_in_control_tokens(self) -> bool:
        """Whether calls are written with control tokens, which the text of an act must then show."""
        return "<tool_call>" in self.tokenizer.all_special_tokens

    @cached_property
    def stop_ids(self) -> frozenset[int]:
        """Tokens that end a turn: the tokenizer's eos and the token with which the template closes an assistant's."""
        eos: Any = self.tokenizer.eos_token_id
        stops: set[int] = set() if eos is None else {eos}
        if self.closing_ids and self.closing_ids[0] in self.tokenizer.all_special_ids:
            stops.add(self.closing_ids[0])
        if not stops:
            raise UserError(f"policy: the tokenizer '{self.name}' has no eos token, so no turn could end")
        return frozenset(stops)

    @cached_property
    def generation_ids(self) -> tuple[int, ...]:
        """What opens an assistant's turn."""
        return self._scaffold_ids(self._after((_USER,), (), generation=True))

    @cached_property
    def closing_ids(self) -> tuple[int, ...]:
        """What the template writes after an assistant's content."""
        text = self._text((_USER, Message("assistant", _slot(0))), generation=False)
        return self._scaffold_ids(text.partition(_slot(0))[2])

    def opening(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Token ids of the messages that open a window."""
        slotted = [Message(m.role, _slot(i), m.name) for i, m in enumerate(messages)]
        try:
            text = self._text(slotted, generation=False)
        except Exception:
            # Some templates insist that user and assistant alternate; to those, one user speaks once.
            messages = _merged(messages)
            slotted = [Message(m.role, _slot(i), m.name) for i, m in enumerate(messages)]
            text = self._text(slotted, generation=False)
        return self._encode(text, messages)

    def appended(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Token ids of messages (user or tool) that follow in the same window."""
        speakers = tuple((message.role, message.name) for message in messages)
        if speakers not in self._following:
            slotted = [Message(role, _slot(i), name) for i, (role, name) in enumerate(speakers)]
            self._following[speakers] = self._after((_USER, _ASSISTANT), slotted, generation=False)
        return self._encode(self._following[speakers], messages)

    def closing(self, sampled_ids: Sequence[int]) -> tuple[int, ...]:
        """What must follow a sampled turn before the next message: the template's closing, less what was sampled."""
        if sampled_ids and self.closing_ids and sampled_ids[-1] == self.closing_ids[0]:
            return self.closing_ids[1:]
        return self.closing_ids

    def decode(self, token_ids: Sequence[int]) -> str:
        """Sampled ids as text, control tokens removed; where calls are written with some, only those around a turn."""
        if self._calls_in_control_tokens:
            around: Any = (self.tokenizer.pad_token_id, self.tokenizer.bos_token_id)
            hidden = {*self.stop_ids, *around}
            return str(self.tokenizer.decode([token for token in token_ids if token not in hidden])).strip()
        return str(self.tokenizer.decode(list(token_ids), skip_special_tokens=True)).strip()

    def transcript(self, episode: Episode) -> str:
        """An episode as text a person can read: each window with its prompt and turns, control tokens shown."""
        lines = [f"task {dict(episode.task)}", f"status {episode.status.value}, reward {episode.reward}"]
        for index, segment in enumerate(episode.segments):
            lines += [f"\n===== window {index + 1} of {len(episode.segments)} =====", self._shown(segment.prompt_ids)]
            for turn in segment.turns:
                lines += [
                    self._shown(turn.appended_ids),
                    f"----- sampled ({turn.kind.value}, {turn.finish.value}) -----",
                ]
                lines += [self._shown(turn.sampled_ids), "-----"]
            lines.append(self._shown(segment.trailing_ids))
        return "\n".join(lines) + "\n"

    def _shown(self, token_ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(token_ids)))

    def count(self, text: str) -> int:
        """Tokens of ``text`` as the content of a message."""
        return len(self.content_ids(text))

    def split(self, message: Message, most: int) -> list[Message]:
        """Cut a message into parts whose contents have at most ``most`` tokens, preferably between words."""
        if self.count(message.content) <= most:
            return [message]
        text = message.content
        if len(text) < 2 or most < 1:
            raise ValueError(f"cannot cut {len(text)} characters into parts of {most} tokens")
        middle = len(text) // 2
        space = max(text.rfind(" ", 1, middle + 1), text.rfind("\n", 1, middle + 1))
        at = space if space > len(text) // 4 else middle
        halves = (text[:at], text[at:])
        return [part for half in halves if half for part in self.split(Message(message.role, half, message.name), most)]

    def _text(self, messages: Sequence[Message], generation: bool) -> str:
        # Contents are slots here, so there are as many different renderings as sequences of roles: few.
        key = (tuple(messages), generation)
        if key not in self._rendered:
            self._rendered[key] = str(
                self.tokenizer.apply_chat_template(
                    [m.as_dict() for m in messages],
                    tools=cast(Any, self.tools or None),
                    tokenize=False,
                    add_generation_prompt=generation,
                    **self.template_kwargs,
                )
            )
        return self._rendered[key]

    def _after(self, base: Sequence[Message], messages: Sequence[Message], generation: bool) -> str:
        """What the template adds to ``base`` for ``messages`` and, if asked, a generation prompt."""
        before, after = self._text(base, generation=False), self._text((*base, *messages), generation)
        if not after.startswith(before):
            raise UserError(
                f"policy: the chat template of '{self.name}' rewrites earlier turns when a message is appended, so it "
                "cannot be used here; use one that only appends"
            )
        return after[len(before) :]

    def _scaffold_ids(self, text: str) -> tuple[int, ...]:
        if text not in self._encoded:
            self._encoded[text] = tuple(self.tokenizer.encode(text, add_special_tokens=False)) if text else ()
        return self._encoded[text]

    def content_ids(self, text: str) -> tuple[int, ...]:
        """Token ids of ``text`` as the content of a message: control tokens spelled in it stay text."""
        return self._contents(text)

    def _encode(self, text: str, messages: Sequence[Message]) -> tuple[int, ...]:
        if text not in self._pieces:
            self._pieces[text] = self._cut(text)
        pieces = self._pieces[text]
        ids = list(pieces[0][1])
        for index, following in pieces[1:]:
            ids += self.content_ids(messages[index].content)
            ids += following
        return tuple(ids)

    def _cut(self, text: str) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """A rendering cut at its slots: the message of each, and the ids of what the template wrote after it."""
        slots = list(_SLOT.finditer(text))
        starts = [0, *(match.end() for match in slots)]
        ends = [*(match.start() for match in slots), len(text)]
        messages = [-1, *(int(match.group(1)) for match in slots)]
        return tuple(
            (index, self._scaffold_ids(text[start:end]))
            for index, start, end in zip(messages, starts, ends, strict=True)
        )

    def _check_append_only(self) -> None:
        """Render conversations whole and piece by piece; the two must agree, however long they are and with a system
        message or without."""
        page, answer = Message("user", _slot(1)), Message("assistant", _slot(2))
        closing = self._text((_USER, answer), generation=False).partition(_slot(2))[2]
        turn = self._after((_USER, _ASSISTANT), (page,), generation=True) + _slot(2) + closing
        last = self._after((_USER, _ASSISTANT), (page,), generation=False)
        beginnings: list[tuple[Message, ...]] = [(_USER, _ASSISTANT)]
        if self._takes_system():
            beginnings.append((_SYSTEM, _USER, _ASSISTANT))
        for beginning in beginnings:
            opening = self._text(beginning, generation=False)
            for turns in (1, 24):
                whole = self._text((*beginning, *(page, answer) * turns, page), generation=False)
                if whole != opening + turn * turns + last:
                    raise UserError(
                        f"policy: the chat template of '{self.name}' is not append-only: a conversation of "
                        f"{len(beginning) + 2 * turns + 1} messages rendered whole differs from the same one rendered "
                        "turn by turn; use a template that leaves earlier turns as they are"
                    )

    def _takes_system(self) -> bool:
        """Whether the template renders a system message; some raise an error of Jinja's."""
        try:
            return bool(self._text((_SYSTEM, _USER, _ASSISTANT), generation=False))
        except Exception:
            return False

    def _check_control_tokens(self) -> None:
        """Refuse a tokenizer for which a control token spelled in a text is that control token."""
        unknown: Any = self.tokenizer.unk_token_id
        control = set(self.tokenizer.all_special_ids) - {unknown}
        for token in self.tokenizer.all_special_tokens:
            if control.intersection(self.content_ids(f"a {token} a")):
                raise UserError(
                    f"policy: the tokenizer '{self.name}' reads '{token}' in a text as a control token, so a page "
                    "could end the policy's turn; use a tokenizer that honours split_special_tokens"
                )


def _merged(messages: Sequence[Message]) -> list[Message]:
    """Neighbouring messages of one role made one."""
    merged: list[Message] = []
    for message in messages:
        if merged and merged[-1].role == message.role:
            merged[-1] = Message(message.role, f"{merged[-1].content}\n\n{message.content}", message.name)
        else:
            merged.append(message)
    return merged
