"""Started by ``test_midtrain`` under ``accelerate launch`` with two processes: mid-trains and leaves the weights.

Usage: two_processes_midtrain.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from accelerate import PartialState

from recipe.midtrain import midtrain
from rollouts.rendering import Renderer
from tests.recipe.test_midtrain import COMPACTION, EPISODES, STAGES
from tests.recipe.worlds import small_policy


def main() -> None:
    """Train and save."""
    policy = small_policy()
    midtrain(policy, Renderer(policy.tokenizer), EPISODES, COMPACTION, STAGES, Path(sys.argv[1]), 0, [], ["none"])
    assert PartialState().num_processes == 2
    PartialState().wait_for_everyone()


if __name__ == "__main__":
    main()
