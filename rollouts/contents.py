"""Ordinary text -> token ids: what stands in a message, where a control token that is spelled out stays text."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

# Siblings of a group read the same pages, and a content is counted before it is rendered.
KEPT = 1024


class Contents:
    """Encodes texts and remembers the latest of them.

    Args:
        tokenizer: Of the policy.

    Attributes:
        encoded: Texts that were encoded, those remembered not counted.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._backend = self._checked_backend()
        self._remembered = lru_cache(maxsize=KEPT)(self._encode)
        self.encoded = 0

    def __call__(self, text: str) -> tuple[int, ...]:
        """Token ids of ``text``."""
        return self._remembered(text)

    def _encode(self, text: str) -> tuple[int, ...]:
        self.encoded += 1
        text = text.encode("utf-8", "replace").decode("utf-8")
        return self._called(text) if self._backend is None else _encoded(self._backend, text)

    def _called(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"])

    def _checked_backend(self) -> Tokenizer | None:
        """The tokenizer below the tokenizer, where it says the same: asked directly, it takes half the time."""
        backend: Any = getattr(self._tokenizer, "backend_tokenizer", None)
        if not hasattr(backend, "encode_batch_fast"):
            return None
        probes = ["", " a  b\n", "Ünï 𝒳 42.", *(f"a{token} {token}" for token in self._tokenizer.all_special_tokens)]
        return backend if all(_encoded(backend, probe) == self._called(probe) for probe in probes) else None


def _encoded(backend: Tokenizer, text: str) -> tuple[int, ...]:
    """Token ids of ``text``, whatever the last caller of the tokenizer had asked for."""
    if not backend.encode_special_tokens:
        backend.encode_special_tokens = True
    if backend.truncation is not None:
        backend.no_truncation()
    if backend.padding is not None:
        backend.no_padding()
    return tuple(backend.encode_batch_fast([text], add_special_tokens=False)[0].ids)
