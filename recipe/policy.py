"""The policy that a run's YAML names."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from recipe.config import PolicyArguments
from rollouts.policies import load
from rollouts.policies.load import TINY, Policy, build_tiny
from summarization.resolve import UserError


def load_policy(arguments: PolicyArguments, folder: str | Path | None = None) -> Policy:
    """Load or build the policy.

    Args:
        arguments: What the YAML says.
        folder: A checkpoint of the same policy that takes its place.

    Raises:
        UserError: It cannot be loaded; the text says why.
    """
    policy = _load(arguments, folder)
    if policy.model.config.get_text_config().tie_word_embeddings:
        # Checkpoints hold tied weights once; told so, trainers tie them again instead of calling them missing.
        policy.model._keys_to_ignore_on_save = list(policy.model.all_tied_weights_keys)
    return policy


def _load(arguments: PolicyArguments, folder: str | Path | None) -> Policy:
    if folder is None and arguments.policy == TINY:
        return build_tiny(arguments.policy_seed, arguments.policy_hidden, arguments.policy_layers)
    if folder is None:
        return _saved(arguments, arguments.policy)
    try:
        return _saved(arguments, folder)
    except UserError as error:
        raise UserError(
            f"{folder}: is broken ({error}): delete that folder, and the run makes it again from what came before"
        ) from error


def _saved(arguments: PolicyArguments, place: str | Path) -> Policy:
    return load.load_policy(place, arguments.policy_dtype, arguments.policy_attention, arguments.trust_policy_code)


def load_frozen(arguments: PolicyArguments, name: str) -> Policy:
    """Load the policy that the field ``frozen_policy`` names.

    Raises:
        UserError: It cannot be loaded.
    """
    with _called_frozen():
        return _saved(arguments, name)


def check_frozen(arguments: PolicyArguments, vocabulary: Mapping[str, int]) -> None:
    """Refuse a ``frozen_policy`` that could not read the policy's tokens. Only its tokenizer is loaded.

    Raises:
        UserError: The tokenizer cannot be loaded, or is another one than the policy's.
    """
    named = arguments.frozen_policy
    if named is None:
        return
    with _called_frozen():
        tokenizer = load.load_tokenizer(named, arguments.trust_policy_code)
    if tokenizer.get_vocab() != vocabulary:
        raise UserError(f"frozen_policy is '{named}': its tokenizer differs from the policy's; name one that shares it")


@contextlib.contextmanager
def _called_frozen() -> Iterator[None]:
    """Have errors name the field that was read."""
    try:
        yield
    except UserError as error:
        raise UserError(str(error).replace("policy is", "frozen_policy is", 1)) from error
