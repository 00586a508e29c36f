"""The policy that a run's YAML names."""

from __future__ import annotations

from pathlib import Path

from recipe.config import PolicyArguments
from rollouts.policies import load
from rollouts.policies.load import TINY, Policy, build_tiny


def load_policy(arguments: PolicyArguments, folder: str | Path | None = None) -> Policy:
    """Load or build the policy.

    Args:
        arguments: What the YAML says.
        folder: A checkpoint of the same policy that takes its place.

    Raises:
        UserError: It cannot be loaded; the text says why.
    """
    if folder is None and arguments.policy == TINY:
        return build_tiny(arguments.policy_seed, arguments.policy_hidden, arguments.policy_layers)
    return load.load_policy(
        folder if folder is not None else arguments.policy,
        arguments.policy_dtype,
        arguments.policy_attention,
        arguments.trust_policy_code,
    )
