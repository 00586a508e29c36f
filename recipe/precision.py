"""In which precision to compute: measured at start-up where the YAML says ``precision: auto``.

The weights stay fp32; ``bf16`` runs forward and backward passes under autocast. Which is faster depends on the width of
the model and on the machine: bfloat16 units win on wide models and GPUs, casts lose on tiny ones.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from transformers import PreTrainedModel

from recipe.config import TrainingConfig
from rollouts.files import write_atomically
from rollouts.records import read_record

# Slower than fp32 divided by this, bf16 is not worth other numerics.
WORTH = 1.1


@dataclass(frozen=True)
class Precision:
    """What was chosen, and why.

    Attributes:
        bf16: Compute under bfloat16 autocast.
        reason: One line for the log.
    """

    bf16: bool
    reason: str


def measured_seconds(model: PreTrainedModel, tokens: int, bf16: bool, rounds: int = 2) -> float:
    """The fastest of some forward and backward passes over ``tokens`` tokens; gradients are dropped."""
    device = model.device
    ids = torch.arange(tokens, device=device)[None] % int(model.config.get_text_config().vocab_size)
    best = float("inf")
    for _ in range(rounds + 1):
        began = time.perf_counter()
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - began)
    model.zero_grad(set_to_none=True)
    return best


def choose_precision(asked: str, model: PreTrainedModel, tokens: int, file: Path) -> Precision:
    """Choose once for all processes, and once for a run that is resumed.

    Args:
        asked: ``auto``, ``fp32`` or ``bf16``.
        tokens: Length of the row that is measured.
        file: Keeps what was measured.
    """
    if asked != "auto":
        return Precision(asked == "bf16", f"{asked}, as the configuration says")
    state = PartialState()
    chosen = [Precision(False, "")]
    if state.is_main_process:
        if file.is_file():
            chosen = [read_record(file, "delete it, and both are measured again", lambda found: Precision(**found))]
        else:
            chosen = [_faster(model.to(state.device), tokens)]  # pyright: ignore[reportArgumentType]
            write_atomically(file, json.dumps(asdict(chosen[0])).encode())
    broadcast_object_list(chosen)
    return chosen[0]


def _faster(model: PreTrainedModel, tokens: int) -> Precision:
    plain, half = (measured_seconds(model, tokens, bf16) for bf16 in (False, True))
    bf16 = half * WORTH < plain
    return Precision(
        bf16,
        f"{'bf16' if bf16 else 'fp32'}, chosen by measuring: forward and backward of {tokens} tokens took "
        f"{plain:.3f} s in fp32, {half:.3f} s under bf16",
    )


def apply_precision(precision: Precision, args: TrainingConfig) -> None:
    """Set it in the training arguments, as if the YAML had said so."""
    args.bf16 = precision.bf16
    args.mixed_precision = "bf16" if precision.bf16 else "no"
