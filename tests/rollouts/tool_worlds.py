"""Environments with tools, named by their import paths as a user's would be, and tokenizers that speak to them."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

from rollouts.environment import Environment, Observation
from rollouts.tool_environment import ToolEnvironment, tool
from summarization.messages import Message

# The shape of the templates of Qwen2.5 and Qwen3 (without thinking), in our words.
TOOL_TEMPLATE = (
    "{%- if tools -%}<|im_start|>system\n"
    "{%- if messages[0].role == 'system' -%}{{ messages[0].content }}\n{% endif -%}"
    "tools:\n{% for t in tools -%}{{ t | tojson }}\n{% endfor -%}<|im_end|>\n"
    "{%- elif messages[0].role == 'system' -%}<|im_start|>system\n{{ messages[0].content }}<|im_end|>\n{%- endif -%}"
    "{%- for m in messages -%}"
    "{%- if m.role == 'tool' -%}"
    "{%- if loop.index0 == 0 or messages[loop.index0 - 1].role != 'tool' -%}<|im_start|>user{%- endif -%}"
    "{{ '\n<tool_response>\n' + m.content + '\n</tool_response>' }}"
    "{%- if loop.last or messages[loop.index0 + 1].role != 'tool' -%}{{ '<|im_end|>\n' }}{%- endif -%}"
    "{%- elif not (loop.first and m.role == 'system') -%}"
    "{{ '<|im_start|>' + m.role + '\n' + m.content }}"
    "{%- for c in m.tool_calls or [] -%}"
    '{{ \'\n<tool_call>\n{"name": "\' + c.function.name + \'", "arguments": \' + (c.function.arguments | tojson) }}'
    "{{ '}\n</tool_call>' }}"
    "{%- endfor -%}{{ '<|im_end|>\n' }}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}"
)
PLAIN_TEMPLATE = (
    "{%- for m in messages -%}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}"
)


def byte_tokenizer(template: str) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer that knows no words, with a chat template."""
    raw = Tokenizer(BPE())
    raw.pre_tokenizer = ByteLevel(add_prefix_space=False)
    raw.decoder = ByteLevelDecoder()
    raw.train_from_iterator([], BpeTrainer(initial_alphabet=ByteLevel.alphabet(), show_progress=False))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="<|im_end|>", additional_special_tokens=["<|im_start|>"]
    )
    tokenizer.chat_template = template
    return tokenizer


class Library:
    """As TRL wants it: sync and async tools that answer, raise, hang, or say too much."""

    def __init__(self, start: int = 0) -> None:
        self.read = start

    def reset(self, **row: Any) -> str | None:
        self.row = row
        self.threads = {threading.get_ident()}
        return row.get("greeting")

    def page(self, number: int, loud: bool = False) -> str:
        """Read a page.

        Args:
            number: Of the page.
            loud: In capitals.
        """
        self.threads.add(threading.get_ident())
        self.read += 1
        text = f"page {number} says hello"
        return text.upper() if loud else text

    async def ask(self, word: str, seconds: float = 0.0) -> dict[str, str]:
        """Ask a librarian.

        Args:
            word: What to ask about.
            seconds: How long they think.
        """
        await asyncio.sleep(seconds)
        return {"answer": word}

    def burn(self) -> str:
        """Burn a book."""
        raise RuntimeError("that is forbidden")

    def shout(self, times: int) -> str:
        """Say a long thing.

        Args:
            times: How long.
        """
        return "a" * times

    def sleep(self, seconds: float) -> str:
        """Sleep.

        Args:
            seconds: How long.
        """
        time.sleep(seconds)
        return "slept"

    def _own(self) -> None:
        raise AssertionError("a private method is no tool")

    def get_reward(self) -> float:
        return float(self.read)


class Rewarded(Library):
    """Its reward is a coroutine's, and all its calls are made in one thread."""

    async def get_reward(self) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        await asyncio.sleep(0)
        return float(len(self.threads))


class Jittery(Library):
    """Answers after a time that nobody can foresee."""

    def page(self, number: int, loud: bool = False) -> str:
        """Read a page, sometime.

        Args:
            number: Of the page.
            loud: In capitals.
        """
        time.sleep(random.random() / 30)
        return super().page(number, loud)


class Unrewarded:
    """A TRL class whose rewards come from elsewhere."""

    def reset(self, **row: Any) -> None:
        return None


class Undocumented:
    """A tool without a docstring."""

    def reset(self, **row: Any) -> None:
        return None

    def page(self, number: int) -> str:
        return str(number)

    def get_reward(self) -> float:
        return 0.0


class Unmade(Environment):
    """Cannot be made."""

    def __init__(self) -> None:
        raise OSError("the museum is closed")

    def reset(self, task: Mapping[str, Any]) -> Observation:
        return Observation(done=True)

    def advance(self, act: str | None) -> Observation:
        return Observation(done=True)

    def reward(self) -> float | None:
        return None


class Stubborn(ToolEnvironment):
    """Insists on calls, carries a plan, and is over when told."""

    ends_without_call = False

    def begin(self, task: Mapping[str, Any]) -> Sequence[Message]:
        self.over = False
        self.plan = "plan: none yet"
        return [Message("system", "act"), Message("user", "do it")]

    @tool
    def note(self, plan: str) -> str:
        """Change the plan.

        Args:
            plan: The new one.
        """
        self.plan = f"plan: {plan}"
        return "noted"

    @tool
    def stop(self) -> str:
        """Be done."""
        self.over = True
        return "done"

    def is_done(self) -> bool:
        return self.over

    def keep(self) -> str:
        return self.plan

    def reward(self) -> float | None:
        return 1.0 if self.over else 0.0
