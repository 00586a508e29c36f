"""Spares a prefill what nobody reads: in the last layer, all but the keys, the values and one position of each row.

What a layer makes of a position serves the layers above it, and above the last layer only the position whose logits
are wanted is read::

    layers 1 to L - 1   every position: queries, keys, values, attention, MLP
    layer L             every position: keys, values
                        one position a row: attention, output projection, MLP

So a model of L layers is spared up to an L-th of a prefill. The other positions of the last layer's output hold values
that mean nothing; they are never read.

Deliberately left out: models whose last layer has no ``self_attn`` and ``mlp`` (they are forwarded whole).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

ATTENTION = "palimpsest_last_layer"
"""The attention function as ``transformers`` knows it."""


@dataclass(frozen=True)
class _Wanted:
    """Which positions one forward is to compute in which attention module: ``positions`` has one a row, (B,)."""

    attention: torch.nn.Module
    positions: torch.Tensor


_wanted: ContextVar[_Wanted | None] = ContextVar("wanted", default=None)


class LastLayer:
    """The last layer of a model, where it is built as most are.

    Args:
        model: A causal language model.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._config = model.config
        decoder = model.get_decoder() if hasattr(model, "get_decoder") else None
        layers = getattr(decoder, "layers", None)
        last = layers[-1] if isinstance(layers, torch.nn.ModuleList) and len(layers) else None
        attention, mlp = getattr(last, "self_attn", None), getattr(last, "mlp", None)
        self._attention = attention if isinstance(mlp, torch.nn.Module) else None
        projection = getattr(attention, "o_proj", None)
        self._pointwise = [module for module in (projection, mlp) if isinstance(module, torch.nn.Module)]

    @contextmanager
    def only(self, positions: torch.Tensor) -> Iterator[None]:
        """Let forwards compute in the last layer one position a row, (B,), beside keys and values."""
        if self._attention is None:
            yield
            return
        rows = torch.arange(len(positions), device=positions.device)

        def pick(module: torch.nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            """(B, Q, H) to (B, 1, H), which the residual stream broadcasts."""
            return (inputs[0][rows, positions][:, None], *inputs[1:])

        hooks = [module.register_forward_pre_hook(pick) for module in self._pointwise]
        before = self._config._attn_implementation
        if before == "sdpa":
            self._config._attn_implementation = ATTENTION
        token = _wanted.set(_Wanted(self._attention, positions))
        try:
            yield
        finally:
            _wanted.reset(token)
            self._config._attn_implementation = before
            for hook in hooks:
                hook.remove()


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **settings: Any,
) -> tuple[torch.Tensor, None]:
    """SDPA; in the last layer, of one query a row, whose result stands at every position, (B, Q, heads, head_dim)."""
    wanted = _wanted.get()
    if wanted is None or module is not wanted.attention:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **settings)
    positions = wanted.positions
    rows = torch.arange(len(positions), device=positions.device)
    if attention_mask is None:
        # Nothing was cached, so that a position is its index among the keys.
        attention_mask = torch.arange(key.shape[2], device=key.device) <= positions[:, None, None, None]
    else:
        attention_mask = attention_mask[rows, :, positions][:, :, None]
    one = query[rows, :, positions][:, :, None]
    found, _ = sdpa_attention_forward(module, one, key, value, attention_mask, **settings)
    return found.expand(-1, query.shape[2], -1, -1), None


ALL_ATTENTION_FUNCTIONS.register(ATTENTION, _attend)
