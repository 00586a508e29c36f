"""Sampling one token a row, by draws that hang on a key and a position alone: never on the order of requests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

LOWEST_LOGPROB = -103.0
"""Below it a probability is zero in single precision."""


def draw(
    logits: torch.Tensor, keys: Sequence[tuple[int, int]], temperature: float
) -> tuple[torch.Tensor, list[int], list[float]]:
    """Sample one token a row.

    Args:
        logits: (B, V).
        keys: What determines each row's draw, (B,).
        temperature: 0 takes the likeliest token.

    Returns:
        The tokens, (B,), the same as a list, and their log-probabilities (under temperature 1 where it is 0).

    Raises:
        FloatingPointError: The logits are not finite.
    """
    scaled = logits.float()
    if temperature > 0:
        scaled = scaled / temperature
    logprobs = scaled.log_softmax(-1)
    if temperature > 0:
        # In double precision, sums are exact enough that a token without probability has no width.
        cumulative = logprobs.exp().cumsum(-1, dtype=torch.float64)
        targets = torch.from_numpy(uniforms(keys)).to(logits.device)[:, None] * cumulative[:, -1:]
        tokens = torch.searchsorted(cumulative, targets, right=True).clamp_(max=logits.shape[-1] - 1)
    else:
        tokens = logprobs.argmax(-1, keepdim=True)
    chosen = logprobs.gather(-1, tokens)
    # One transfer for both.
    values = torch.cat([tokens.double(), chosen.double()], dim=-1).tolist()
    if not all(logprob > LOWEST_LOGPROB for _, logprob in values):
        if not torch.isfinite(chosen).all():
            raise FloatingPointError("the model's logits are not finite")
        # A parallel sum may leave a sliver of width to a token without probability.
        best = logprobs.argmax(-1, keepdim=True)
        tokens = torch.where(chosen > LOWEST_LOGPROB, tokens, best)
        values = torch.cat([tokens.double(), logprobs.gather(-1, tokens).double()], dim=-1).tolist()
    return tokens[:, 0], [int(token) for token, _ in values], [logprob for _, logprob in values]


def uniforms(keys: Sequence[tuple[int, int]]) -> np.ndarray:
    """A number in [0, 1) for each (key, position), (B,), that depends on nothing else.

    The SplitMix64 sequence of Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators".
    """
    pairs = np.array(keys, dtype=np.uint64)
    state = pairs[:, 0] + (pairs[:, 1] + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((state ^ (state >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53
