"""What the benchmarks run: a tiny model that speaks a tool protocol, and the same environment for TRL and for us."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from tokenizers import Regex, Tokenizer
from tokenizers.decoders import Fuse
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import PreTrainedTokenizerFast, StableLmConfig, StableLmForCausalLM, set_seed
from trl.chat_template_utils import add_response_schema, qwen2_5_chat_template

from rollouts.environment import Environment, Observation
from summarization.messages import Message

TURNS = 30
# Ten words a thought, each drawn from sixteen, so that no two episodes are alike for long.
THOUGHTS = tuple(tuple(f"<thought{place}_{word}>" for word in range(16)) for place in range(10))
CALL = ("<tool_call>", '{"name": "read", "arguments": {}}', "</tool_call>")
END = "<|im_end|>"
PAGE = " ".join(f"word{index}" for index in range(24))


def tool_tokenizer() -> PreTrainedTokenizerFast:
    """One token a word or a line break, with Qwen2.5's chat template, which TRL knows how to parse.

    A word with a space before it is a word of its own, so that decoding gives back what was encoded.
    """
    roles = ["system", "user", "assistant", "tool"]
    words = [*roles, *(f"word{index}" for index in range(24)), *(f"task{index}" for index in range(64)), "done"]
    plain = ["<unk>", "\n", *words, *(f" {word}" for word in words)]
    tokenizer = Tokenizer(WordLevel({word: index for index, word in enumerate(plain)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Split(Regex(r" ?[^\s]+|\n"), "isolated")
    tokenizer.decoder = Fuse()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token=END,
        additional_special_tokens=["<|im_start|>", *(word for words in THOUGHTS for word in words), *CALL],
        model_max_length=1 << 20,
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = qwen2_5_chat_template
    add_response_schema(fast)
    return fast


class Scripted(StableLmForCausalLM):
    """Random weights with a thumb on the scale: what follows each token of a turn is all but certain up to the choice
    of a word, so that every turn is a thought and a tool call of the same length, whoever samples it."""

    script: torch.Tensor
    forwarded: int = 0

    def forward(self, input_ids: Any, **rest: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        mask = rest.get("attention_mask")
        real = mask[:, -input_ids.size(1) :] if mask is not None and mask.dim() == 2 else torch.ones_like(input_ids)
        self.forwarded += int(real.sum())
        outputs: Any = super().forward(input_ids=input_ids, **rest)
        logits = outputs.logits
        outputs.logits = logits + self.script[input_ids[:, -logits.size(1) :]]
        return outputs


def scripted(tokenizer: PreTrainedTokenizerFast, hidden: int = 128, layers: int = 3) -> Scripted:
    """The model, its script being thought, call, end; anything else is followed by the first word of a thought."""
    set_seed(0)
    vocabulary = tokenizer.get_vocab()
    model = Scripted(
        StableLmConfig(
            vocab_size=len(tokenizer),
            hidden_size=hidden,
            intermediate_size=2 * hidden,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=8192,
            pad_token_id=vocabulary["<pad>"],
            bos_token_id=None,
            eos_token_id=vocabulary[END],
        )
    ).eval()
    turn = [[vocabulary[word] for word in words] for words in (*THOUGHTS, *((token,) for token in (*CALL, END)))]
    bias = torch.zeros(len(tokenizer), len(tokenizer))
    bias[:, turn[0]] = 60.0
    for now, following in pairwise(turn):
        bias[now] = 0.0
        bias[torch.tensor(now)[:, None], torch.tensor(following)] = 60.0
    model.script = bias
    return model


class ToolPages:
    """The environment as TRL wants it: a document of ``TURNS`` pages behind one tool."""

    def reset(self, **row: Any) -> None:
        self.page = 0

    def read(self) -> str:
        """Read the next page.

        Returns:
            The page.
        """
        self.page += 1
        return PAGE

    def get_reward(self) -> float:
        """Pages read."""
        return float(self.page)


class TurnPages(Environment):
    """The same for our runner, turn by turn."""

    def reset(self, task: Mapping[str, Any]) -> Observation:
        self.page = 0
        return Observation(tuple(Message(m["role"], m["content"]) for m in task["prompt"]), needs_act=True)

    def advance(self, act: str | None) -> Observation:
        self.page += 1
        if self.page > TURNS:
            return Observation(done=True)
        return Observation((Message("tool", PAGE),), needs_act=True)

    def reward(self) -> float | None:
        return float(self.page)


def unique_tokens(contexts: Iterable[Sequence[int]]) -> int:
    """Nodes of the tree of all prefixes: how many tokens must be forwarded at least once."""
    known: dict[tuple[int, int], int] = {}
    for context in contexts:
        node = -1
        for token in context:
            node = known.setdefault((node, token), len(known))
    return len(known)
