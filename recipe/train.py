"""The recipe: runs the stages that a YAML lists, skips what is done, resumes what was cut, ends with a report.

accelerate launch --config_file configs/accelerate/cpu.yaml -m recipe.train --config configs/quickstart.yaml

What takes seconds to import is imported within :func:`main`, so that Ctrl-C ends with a sentence from the start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from recipe.interrupts import Interrupts, no_room
from summarization.resolve import UserError

if TYPE_CHECKING:
    from recipe.arguments import Arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run the stages; returns the exit code.

    Exit codes: 0 done; 1 the disk is full or cannot be written; 2 a mistake in what was asked for; 130 interrupted
    (Ctrl-C), 143 terminated (SIGTERM).
    """
    with Interrupts() as interrupts:
        try:
            from recipe.arguments import parse

            run(parse(sys.argv[1:] if argv is None else argv))
        except UserError as error:
            _complain(f"error: {error}")
            return 2
        except BaseException as error:
            # Libraries turn an interrupt within their own code into errors of theirs.
            if interrupts.received:
                name = "interrupted" if interrupts.exit_code == 130 else "terminated"
                _complain(f"{name}: start the same command again to go on from the last checkpoint")
                return interrupts.exit_code
            reason = no_room(error)
            if reason is None:
                raise
            _complain(
                f"error: the disk refuses a file ({reason}): make room, mend its permissions, or name another "
                "output_dir; what was saved before is whole, and the same command goes on from it"
            )
            return 1
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


def _complain(text: str) -> None:
    """Say it once, on one line, without what a terminal would obey: parts of it may come from data."""
    if int(os.environ.get("RANK", "0")) == 0:
        print("".join(c if c.isprintable() else " " for c in text), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
