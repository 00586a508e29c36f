"""Started by ``test_trainer`` under ``accelerate launch`` with two processes: takes steps and saves the weights.

Usage: two_processes.py FILE BATCH_OF_EACH_PROCESS ACCUMULATION_STEPS [CHANGES_OF_SETTINGS SHAPE_OF_EPISODES]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from tests.recipe.worlds import Recorded, parameters, trained


def main() -> None:
    """Train and save."""
    file, per_device, steps = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    changes, shape = (json.loads(text) for text in sys.argv[4:6]) if len(sys.argv) > 4 else ({}, {})
    trainer = trained(
        file.parent / "run",
        Recorded(**shape),
        per_device_train_batch_size=per_device,
        gradient_accumulation_steps=steps,
        token_budget=150,
        **changes,
    )
    accelerator = trainer.accelerator
    if accelerator.is_main_process:
        weights = parameters(accelerator.unwrap_model(trainer.model))
        torch.save({"weights": weights, "world_size": accelerator.num_processes}, file)
    accelerator.wait_for_everyone()


if __name__ == "__main__":
    main()
