"""What a training forward computes: only labelled positions go through the LM head, and, packed, no padding at all.

TRL's fused head leaves out unlabelled positions where it has Triton; elsewhere it scores every position. Here they are
left out everywhere, by hooks on the model, so that TRL's trainers call it as they always do. With flash attention the
rows of a batch are also laid end to end, without padding and with position ids that start anew at each row, which
transformers reads as separate sequences::

    padded   [a a a . .]   packed      [a a a b b b b b c c c c]
             [b b b b b]   positions    0 1 2 0 1 2 3 4 0 1 2 3
             [c c c c .]

A prefix that all rows share can be forwarded once, and its keys and values are then read by every row (the gradient
flows back through them, summed over the rows)::

    shared   [p p p] -> keys, values of p      each row   [a a a .]
                                                          [b b b b]

What comes back has the shape that TRL expects, (B, T-1), in every layout.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import nn
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from rollouts.engines.transformers import cache_argument

IGNORED = -100


@dataclass
class _Selection:
    """Positions of the forward under way.

    Attributes:
        wanted: Positions whose next token is labelled, (B, T).
        chosen: The same as indices into the flattened hidden states, (N,); one position where there is none.
    """

    wanted: torch.Tensor
    chosen: torch.Tensor


def _only_at_the_end(mask: torch.Tensor) -> bool:
    """Whether padding stands on the right only, in every row of a mask (B, T)."""
    return mask.dim() == 2 and not bool((mask[:, 1:] > mask[:, :-1]).any())


def _keys_and_values(model: Any, prefix: torch.Tensor, rows: int) -> DynamicCache:
    """The cache of a prefix (1, P), once for each of ``rows``, with the gradient."""
    cache = DynamicCache(config=model.config)
    model.base_model(input_ids=prefix, use_cache=True, **{cache_argument(model.base_model): cache})
    cache.batch_repeat_interleave(rows)
    return cache


def can_share_prefixes(model: PreTrainedModel) -> bool:
    """Whether rows can read the keys and values of a prefix: every layer attends to all that was before, and none of
    the kernels at work wants rows laid end to end."""
    layers = DynamicCache(config=model.config).layers
    plain = all(type(layer) is DynamicLayer for layer in layers)
    return plain and "flash" not in (model.config._attn_implementation or "")


class _LabelledOnly:
    """The hooks of one model; see :func:`score_where_labelled`."""

    def __init__(self, packed: bool | None) -> None:
        self.packed = packed
        self.selection: _Selection | None = None

    def before(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], Any] | None:
        """Replace the labels by those of the chosen positions; lay the rows end to end where that is the layout."""
        self.selection = None
        if not kwargs.get("fused_lm_head") or kwargs.get("labels") is None:
            return None
        kwargs = dict(kwargs)
        shared = kwargs.pop("shared_prefix", 0)
        labels = kwargs.pop("labels")  # (B, T)
        targets = labels.roll(-1, 1)
        targets[:, -1] = IGNORED
        wanted = targets != IGNORED
        selected, aligned = wanted, targets
        packed = self.packed if self.packed is not None else "flash" in (model.config._attn_implementation or "")
        if packed and kwargs.get("attention_mask") is not None:
            real = kwargs["attention_mask"].bool()
            kwargs["input_ids"] = kwargs["input_ids"][real][None]  # (1, N)
            kwargs["position_ids"] = (real.cumsum(1) - 1)[real][None]
            kwargs["attention_mask"] = None
            selected, aligned = wanted[real], targets[real]
        elif kwargs.get("attention_mask") is not None and _only_at_the_end(kwargs["attention_mask"]):
            # Attention is causal, so nothing that is scored sees padding on its right: without holes in the mask,
            # transformers makes no mask of (T, T) entries, and attention takes its fast kernel.
            kwargs["attention_mask"] = torch.ones_like(kwargs["attention_mask"])
            if shared:
                ids = kwargs["input_ids"]
                kwargs[cache_argument(model)] = _keys_and_values(model, ids[:1, :shared], ids.size(0))
                kwargs["input_ids"] = ids[:, shared:]
                selected, aligned = wanted[:, shared:], targets[:, shared:]
        chosen = selected.flatten().nonzero().squeeze(1)
        # A forward without a label still has to hang on the model, so that its gradient is zero and not missing.
        chosen = chosen if len(chosen) else chosen.new_zeros(1)
        kwargs["shift_labels"] = aligned.flatten()[chosen][None]
        self.selection = _Selection(wanted, chosen)
        return args, kwargs

    def choose(self, _backbone: nn.Module, _args: Any, output: Any) -> Any:
        """Keep the hidden states of the chosen positions."""
        if self.selection is not None:
            output.last_hidden_state = output.last_hidden_state.flatten(0, 1)[self.selection.chosen][None]
        return output

    def after(self, _model: nn.Module, _args: Any, output: Any) -> Any:
        """Put what was scored where it belongs, (B, T-1), zero elsewhere."""
        if self.selection is None:
            return output
        wanted, self.selection = self.selection.wanted, None
        for field in fields(output):
            value = getattr(output, field.name)
            if field.name == "label_mask":
                output.label_mask = wanted[:, :-1]
            elif isinstance(value, torch.Tensor) and value.dim() == 2:
                spread = value.new_zeros(wanted.shape).masked_scatter(wanted, value)
                setattr(output, field.name, spread[:, :-1])
        return output


def score_where_labelled(model: PreTrainedModel, packed: bool | None = None) -> None:
    """Have every fused-head forward of ``model`` score labelled positions only.

    Args:
        model: After TRL's trainer has added its fused head.
        packed: Lay rows end to end, without padding. None does so where the model's attention is flash attention,
            whose kernels take such rows; other kernels then need a mask of (N, N) entries, which transformers makes.
    """
    unwrapped = model.get_base_model() if hasattr(model, "get_base_model") else model  # pyright: ignore[reportCallIssue]
    hooks = _LabelledOnly(packed)
    unwrapped.register_forward_pre_hook(hooks.before, with_kwargs=True)
    unwrapped.base_model.register_forward_hook(hooks.choose)
    unwrapped.register_forward_hook(hooks.after)
