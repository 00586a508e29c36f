"""The recipe: runs the stages that a YAML lists, skips what is done, resumes what was cut, ends with a report.

accelerate launch --config_file configs/accelerate/cpu.yaml -m recipe.train --config configs/quickstart.yaml
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from recipe.arguments import Arguments, parse
from summarization.resolve import UserError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the stages; returns the exit code.

    Exit codes: 0 done; 2 a mistake in what was asked for; 130 interrupted.
    """
    try:
        arguments = parse(sys.argv[1:] if argv is None else argv)
        run(arguments)
    except UserError as error:
        if int(os.environ.get("RANK", "0")) == 0:
            print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: start the same command again to go on from the last checkpoint", file=sys.stderr)
        return 130
    return 0


def run(arguments: Arguments) -> None:
    """Run every stage of ``arguments`` that is not done yet.

    Raises:
        UserError: What was asked for cannot work; the text names the file that asked for it.
    """
    from recipe.stages import Run

    try:
        run = Run(arguments)
        for stage in arguments.stages.stages:
            with run.stopwatch.running(stage):
                getattr(run, stage)()
    except UserError as error:
        raise UserError(f"{arguments.source}: {error}") from error


if __name__ == "__main__":
    sys.exit(main())
