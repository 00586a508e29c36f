"""Texts become the ids that the tokenizer itself gives, each encoded once."""

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from rollouts.contents import KEPT, Contents
from rollouts.policies.tiny import tiny_tokenizer

TEXTS = ["", " ", "the box", "a <end> b", "<user>read on<end>", "naïve 🙂\n\n42", "\ud800 lone", "read " * 400]


def byte_level() -> PreTrainedTokenizerFast:
    """Byte-level BPE that begins every text with a control token, as Llama's does."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(BPE({symbol: index for index, symbol in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.add_special_tokens(["<s>", "<end>"])
    made.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", made.token_to_id("<s>"))])
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="<end>", pad_token="<end>")


@pytest.mark.parametrize("make", [tiny_tokenizer, byte_level])
def test_the_ids_are_those_of_the_tokenizer(make: Any) -> None:
    tokenizer = make()
    contents = Contents(tokenizer)
    assert contents._backend is not None
    for text in TEXTS:
        # Whatever another caller asked of it before.
        tokenizer(["a", "read on and on"], padding="max_length", max_length=3, truncation=True)
        clean = text.encode("utf-8", "replace").decode("utf-8")
        found = contents(text)
        assert list(found) == tokenizer(clean, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    assert tokenizer.encode("<end>", add_special_tokens=False) == [tokenizer.eos_token_id]


def test_a_tokenizer_that_says_something_else_than_its_backend_is_asked_itself() -> None:
    class Shouting(PreTrainedTokenizerFast):
        def __call__(self, text: Any, **rest: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            return super().__call__(text.upper(), **rest)

    plain = byte_level()
    tokenizer = Shouting(tokenizer_object=plain.backend_tokenizer, bos_token="<s>", eos_token="<end>")
    contents = Contents(tokenizer)
    assert contents._backend is None
    assert contents("box") == Contents(plain)("BOX")


def test_each_text_is_encoded_once_while_it_is_remembered() -> None:
    contents = Contents(tiny_tokenizer())
    for _ in range(3):
        for number in range(KEPT):
            contents(f"box {number}")
    assert contents.encoded == KEPT
    contents("one more")
    contents("box 0")
    assert contents.encoded == KEPT + 2
