"""The key-value cache of :class:`rollouts.engines.transformers.TransformersEngine`: one slot a session.

A ``transformers`` ``Cache`` whose layers hold ``(slots, kv_heads, W + 1, head_dim)``. Before each forward the engine
says by a :class:`Plan` where the new keys and values go and what the queries may read::

    slot 0   k k k k k k . . . . . | t        k  cached token          W = 11
    slot 1   k k k k q q q . . . . | t        q  written by this forward
    slot 2   . . . . . . . . . . . | t        t  trash: padding is written here and never read

Deliberately left out: which session has which slot and what it holds (the engine knows).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin


@dataclass(frozen=True)
class Plan:
    """Where one forward of (B, Q) tokens writes and what it reads.

    Attributes:
        slots: Of the B rows, (B,).
        positions: Where in its slot each new token goes, W for padding, (B, Q).
        rows: Slots of the B rows, as a slice where they lie side by side (then nothing is copied); None where the
            forward's own tokens are all there is to attend to.
        length: Positions to read of each slot, L.
    """

    slots: torch.Tensor
    positions: torch.Tensor
    rows: slice | torch.Tensor | None
    length: int
    _places: dict[int, torch.Tensor] = field(default_factory=dict)

    def places(self, heads: int, stride: int) -> torch.Tensor:
        """Indices of the new tokens in a layer seen as ``(slots * heads * stride, head_dim)``, (B * heads * Q,)."""
        if heads not in self._places:
            lanes = self.slots[:, None] * heads + torch.arange(heads, device=self.slots.device)
            self._places[heads] = (lanes[:, :, None] * stride + self.positions[:, None]).flatten()
        return self._places[heads]


class SlotLayer(CacheLayerMixin):
    """One layer's keys and values.

    Args:
        window: W, positions of a slot.
        dtype: What to store; None for the dtype that the model computes.
    """

    def __init__(self, window: int, dtype: torch.dtype | None) -> None:
        super().__init__()
        self.window = window
        self.dtype = dtype
        self.slots = 0
        self.plan: Plan | None = None

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate for the head counts and sizes of the first states seen, (B, kv_heads, Q, head_dim)."""
        self.keys = self._empty(key_states)
        self.values = self._empty(value_states)
        self.is_initialized = True

    def _empty(self, like: torch.Tensor) -> torch.Tensor:
        # Zeros, since a masked position still meets its value with weight zero, and 0 * nan is nan.
        shape = (self.slots, like.shape[1], self.window + 1, like.shape[3])
        return torch.zeros(shape, dtype=self.dtype or like.dtype, device=like.device)

    def resize(self, slots: int) -> None:
        """Hold ``slots`` slots, keeping those that there are."""
        for name in ("keys", "values") if self.is_initialized else ():
            old = getattr(self, name)
            new = old.new_zeros((slots, *old.shape[1:]))
            new[: len(old)] = old
            setattr(self, name, new)
        self.slots = slots

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write (B, kv_heads, Q, head_dim) and return what to attend to, (B, kv_heads, L, head_dim)."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if self.plan is None or self.keys is None or self.values is None:
            raise AssertionError("the slot cache was used without a plan")
        read = []
        for cached, new in ((self.keys, key_states), (self.values, value_states)):
            places = self.plan.places(new.shape[1], self.window + 1)
            cached.flatten(0, 2).index_copy_(0, places, new.flatten(0, 2).to(cached.dtype))
            rows = self.plan.rows
            read.append(new if rows is None else cached[:, :, : self.plan.length][rows])
        return read[0], read[1]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Asked only where a forward starts empty slots: every other one brings its own mask."""
        return query_length, 0

    def get_seq_length(self) -> int:
        """As :meth:`get_mask_sizes`: nothing came before."""
        return 0

    def get_max_length(self) -> int:
        """W."""
        return self.window


class SlotCache(Cache):
    """All layers' slots, grown as sessions come.

    Args:
        layers: How many layers the model has.
        window: W, positions of a slot.
        dtype: What to store; None for the dtype that the model computes.
    """

    def __init__(self, layers: int, window: int, dtype: torch.dtype | None = None) -> None:
        self.slot_layers = [SlotLayer(window, dtype) for _ in range(layers)]
        super().__init__(layers=list(self.slot_layers))
        self.trash = window
        self.slots = 0

    def reserve(self, slots: int, most: int) -> None:
        """Have room for ``slots`` slots, doubling up to ``most`` so that growth is rare."""
        if slots > self.slots:
            self.slots = min(most, max(slots, 2 * self.slots))
            for layer in self.slot_layers:
                layer.resize(self.slots)

    def set_plan(self, plan: Plan) -> None:
        """Say what the next forward writes and reads."""
        for layer in self.slot_layers:
            layer.plan = plan

    def copy(self, sources: Sequence[int], targets: Sequence[int], length: int) -> None:
        """Copy the first ``length`` positions from slot to slot, as if all at once: a permutation is allowed."""
        for layer in self.slot_layers:
            for cached in (layer.keys, layer.values):
                if cached is not None:
                    index = torch.tensor([sources, targets], device=cached.device)
                    cached[:, :, :length][index[1]] = cached[:, :, :length][index[0]]
