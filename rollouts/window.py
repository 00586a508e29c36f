"""The policy's context while a segment is being made: what is in it, message by message and token by token.

Mutable, and the only thing in a rollout that is. It refuses to grow past the window (law L5).
"""

from __future__ import annotations

from collections.abc import Sequence

from rollouts.engine import Completion
from rollouts.episode import Segment, Turn, TurnKind
from rollouts.rendering import Renderer
from summarization.messages import Message


class Window:
    """One segment in the making.

    Args:
        renderer: Turns messages into token ids.
        size: W, the most tokens the context may ever hold.
        prompt_ids: Its first tokens, rendered.
        carried: What of them was carried over, beside the episode's own opening (system, task).
    """

    def __init__(
        self, renderer: Renderer, size: int, prompt_ids: tuple[int, ...], carried: Sequence[Message] = ()
    ) -> None:
        self._renderer = renderer
        self._size = size
        self.prompt_ids = prompt_ids
        self.ids: list[int] = list(self.prompt_ids)
        self.turns: list[Turn] = []
        self._unsampled_from = len(self.ids)
        self.messages: list[Message] = list(carried)
        self.message_tokens: list[int] = [len(renderer.appended([message])) for message in carried]
        self._check()

    @property
    def in_use(self) -> int:
        """Tokens in the window now."""
        return len(self.ids)

    def append(self, messages: Sequence[Message], ids: Sequence[int]) -> None:
        """Append messages that were rendered to ``ids``."""
        self.ids.extend(ids)
        self.messages.extend(messages)
        self.message_tokens.extend([len(ids), *(0,) * (len(messages) - 1)] if messages else [])
        self._check()

    def open_turn(self, prefix: str = "") -> None:
        """Append the generation prompt, and what the policy's turn begins with."""
        self.ids.extend(self._renderer.generation_ids)
        if prefix:
            self.ids.extend(self._renderer.content_ids(prefix))
        self._check()

    def sampled(self, completion: Completion, kind: TurnKind, trained: bool) -> str:
        """Record a sample and return its text."""
        appended = tuple(self.ids[self._unsampled_from :])
        self.turns.append(Turn(appended, completion.token_ids, completion.logprobs, kind, completion.finish, trained))
        self.ids.extend(completion.token_ids)
        self._unsampled_from = len(self.ids)
        self._check()
        return self._renderer.decode(completion.token_ids)

    def close_turn(self, text: str) -> None:
        """Append what the template writes after an assistant's turn."""
        sampled = self.turns[-1].sampled_ids
        self.ids.extend(self._renderer.closing(sampled))
        self.messages.append(Message("assistant", text))
        self.message_tokens.append(len(sampled) + len(self._renderer.generation_ids))
        self._check()

    def segment(self) -> Segment:
        """The segment as it stands."""
        return Segment(self.prompt_ids, tuple(self.turns), tuple(self.ids[self._unsampled_from :]))

    def _check(self) -> None:
        if len(self.ids) > self._size:
            raise AssertionError(f"the context holds {len(self.ids)} tokens, the window {self._size}")
