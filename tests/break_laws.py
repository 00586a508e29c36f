"""Break each law once, in a copy of the tree, and see that a test notices: ``python -m tests.break_laws``.

A test that cannot fail protects nothing. Each breach is one line of the sort that a refactoring gets wrong; it counts
as noticed when the named tests, which pass as the code stands, fail with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Breach:
    """One way to break a law.

    Attributes:
        law: Its name in the design.
        what: The mistake, in words.
        file: Where it is made.
        right: The text that is replaced; it stands in the file once.
        wrong: What replaces it.
        tests: Arguments of pytest that must fail.
    """

    law: str
    what: str
    file: str
    right: str
    wrong: str
    tests: tuple[str, ...]


TRAINER = "tests/recipe/test_trainer.py"
BREACHES = (
    Breach(
        "L1", "a rollout imports the trainer", "rollouts/window.py",
        "from rollouts.engine import Completion\n",
        "from recipe.config import TrainingConfig\nfrom rollouts.engine import Completion\n",
        ("tests/test_layers.py",),
    ),
    Breach(
        "L2", "TRL is known outside the recipe", "eval/stats.py",
        "from __future__ import annotations\n",
        "from __future__ import annotations\n\nimport trl\n",
        ("tests/test_layers.py",),
    ),
    Breach(
        "L3", "the segment that ends in a summary gives no row", "recipe/batching.py",
        "        if segment.sampled_tokens:\n",
        "        if segment.sampled_tokens and segment is episode.segments[-1]:\n",
        (TRAINER,),
    ),
    Breach(
        "L3", "what the environment said is trained too", "rollouts/episode.py",
        "*(0,) * len(turn.appended_ids), *(int(",
        "*(1,) * len(turn.appended_ids), *(int(",
        ("tests/rollouts/test_episode.py", "tests/recipe/test_batching.py"),
    ),
    Breach(
        "L4", "a sample is decoded and encoded again", "rollouts/window.py",
        "        self.ids.extend(completion.token_ids)\n",
        "        self.ids.extend(self._renderer.content_ids(self._renderer.decode(completion.token_ids)))\n",
        ("tests/rollouts/test_runner.py",),
    ),
    Breach(
        "L5", "no room is kept for the request and its summary", "rollouts/runner.py",
        "+ around + self.job.strategy.summary_tokens",
        "+ around",
        ("tests/rollouts/test_runner.py",),
    ),
    Breach(
        "L6", "the deviation of a group is Bessel's no more", "recipe/credit.py",
        "/ (len(scored) - 1))",
        "/ len(scored))",
        (TRAINER, "tests/recipe/test_credit.py"),
    ),
    Breach(
        "L6", "rows are padded on the wrong side of the prompt", "recipe/batching.py",
        '        batch["prompt_ids"][index, prompt - p :] = torch.tensor(segment.prompt_ids)\n',
        '        batch["prompt_ids"][index, :p] = torch.tensor(segment.prompt_ids)\n',
        (TRAINER, "-k", "stock_trl"),
    ),
    Breach(
        "L7", "the loss divides by rows, not by sampled tokens", "recipe/trainer.py",
        "tokens = float(sum(count for _, count in counts))\n",
        "tokens = float(sum(count for count, _ in counts))\n",
        (TRAINER, "-k", "cutting"),
    ),
    Breach(
        "L7", "the loss divides by this rank's tokens, not by everyone's", "recipe/trainer.py",
        "tokens = float(sum(count for _, count in counts))\n",
        "tokens = float(counts[self.accelerator.process_index][1])\n",
        (TRAINER, "-k", "two_processes"),
    ),
    Breach(
        "L7", "all micro-batches but the last are forgotten", "recipe/trainer.py",
        "                        self.accelerator.backward(loss)\n",
        "                        pass\n",
        (TRAINER, "-k", "cutting"),
    ),
    Breach(
        "L7", "the baseline is a mean over rows", "recipe/credit.py",
        "    mean = math.fsum(scored) / len(scored)\n",
        "    weights = [len(e.turns) for e, r in zip(episodes, rewards, strict=True) if r is not None]\n"
        "    mean = math.fsum(r * w for r, w in zip(scored, weights, strict=True)) / sum(weights)\n",
        (TRAINER, "tests/recipe/test_credit.py"),
    ),
)  # fmt: skip


def noticed(breach: Breach) -> bool:
    """Whether the tests fail with the breach, in a copy of the tree.

    Raises:
        ValueError: The text to replace is not in its file once.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "tree"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", "runs", ".venv*", "*.egg-info", "wandb"))
        path = copy / breach.file
        text = path.read_text(encoding="utf-8")
        if text.count(breach.right) != 1:
            raise ValueError(f"{breach.file}: {breach.right!r} stands there {text.count(breach.right)} times")
        path.write_text(text.replace(breach.right, breach.wrong), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider", *breach.tests]
        environment = {**os.environ, "PYTHONPATH": str(copy)}
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        print(f"{breach.law}  {breach.what}\n    {failed[0] if failed else done.stdout[-300:]}", flush=True)
        return bool(failed)


def main() -> int:
    """Break every law; the exit status is the number of breaches that went unnoticed."""
    return sum(not noticed(breach) for breach in BREACHES)


if __name__ == "__main__":
    sys.exit(main())
