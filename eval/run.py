"""Evaluates any policy with any way to compact: ``python -m eval.run --config configs/eval/<name>.yaml``.

    --list                  what tasks, strategies and engines there are
    --config FILE           evaluate; --field value after it wins over the file
    --config FILE --dry_run the plan and its cost, without running it
    rescore DIR             score the answers of a run again
    compare A B             differences between two runs, sample by sample
    export DIR              write results for other tools; --format lm-eval, --output DIR

A run that was stopped goes on where it was when it is started again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from eval.arguments import EvalArguments, parse
from summarization.resolve import UserError


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code.

    Exit codes: 0 done; 2 a mistake in what was asked for; 130 interrupted.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    console = Console(highlight=False, soft_wrap=True)
    try:
        if not words or words[0] in ("-h", "--help"):
            console.print(__doc__)
            return 0 if words else 2
        if words[0] == "--list":
            from eval.listing import listing

            console.print(listing(), markup=False)
        elif words[0] == "rescore":
            from eval.rescore import rescore

            rescore(Path(_one(words[1:], "rescore", "a run's folder")), console)
        elif words[0] == "compare":
            from eval.compare import compare

            if len(words) != 3:
                raise UserError("compare: name two runs' folders")
            console.print(compare(Path(words[1]), Path(words[2])), markup=False)
        elif words[0] == "export":
            from eval.export import export

            for path in export(words[1:]):
                console.print(f"results: {path}", markup=False)
        else:
            dry = "--dry_run" in words
            arguments, source = parse([word for word in words if word != "--dry_run"])
            evaluate_all(arguments, source, console, dry)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: start the same command again to go on with the next episode", file=sys.stderr)
        return 130
    return 0


def _one(words: Sequence[str], command: str, what: str) -> str:
    if len(words) != 1:
        raise UserError(f"{command}: name {what}")
    return words[0]


def evaluate_all(arguments: EvalArguments, source: str, console: Console, dry: bool = False) -> None:
    """Play every episode that is missing, then write the report.

    Raises:
        UserError: What was asked for cannot work; the text names the file that asked for it.
    """
    from eval.estimate import estimate
    from eval.folder import RunFolder
    from eval.plan import in_words, plan, unknown_tokens
    from eval.play import Player
    from eval.run_report import write_report
    from eval.setup import Setup
    from eval.tracking import Tracker

    try:
        clock = _Clock(console)
        setup = Setup(arguments, clock.read)
        folder = RunFolder(Path(arguments.output_dir))
        about = folder.check(arguments)
        made = plan(arguments, setup, folder)
        warning = unknown_tokens(made, setup)
        if warning:
            console.print(warning, markup=False)
        if dry:
            seconds, basis = estimate(made, setup)
            console.print(in_words(made, seconds), markup=False)
            console.print(basis, markup=False)
            return
        if any(missing and made.ways[key.strategy].plays for key, missing in made.left.items()):
            setup.check_endpoint()
        clock.start(made.tokens)
        player = Player(setup, folder, about)
        with Tracker(arguments, folder.path) as tracker:
            for key, missing in made.left.items():
                if not missing:
                    continue
                cell = player.play(key, made.ways[key.strategy], made.rows[key], missing)
                tracker.log(key, cell)
                console.print(
                    f"{key.task:<16} {key.asked:<5} {key.length:>9,} tokens  {key.strategy:<20} "
                    f"score {cell.success:.3f}  n {len(cell.outcomes):<4} {clock}",
                    markup=False,
                )
            # Also where nothing was missing: what was asked for may name more cells, or fewer, than before.
            player.begin()
            path = write_report(folder, arguments, list(made.left))
            tracker.finish(path.parent)
        console.print(f"report: {path}", markup=False)
    except UserError as error:
        raise UserError(f"{source}: {error}") from error


class _Clock:
    """How far the work is, and how long the rest will take at the pace so far; says so every now and then.

    Args:
        console: Where it is said.
        every: Seconds between two lines.
    """

    def __init__(self, console: Console, every: float = 20.0) -> None:
        self.console, self.every = console, every
        self.total = self.done = 0
        self.began = self.said = time.monotonic()

    def start(self, total: int) -> None:
        """Begin to count: so many tokens are to be read."""
        self.total, self.done = total, 0
        self.began = self.said = time.monotonic()

    def read(self, tokens: int) -> None:
        """Count a page that was delivered."""
        self.done += tokens
        now = time.monotonic()
        if now - self.said > self.every:
            self.said = now
            self.console.print(f"    {self.done:,} tokens of pages read  {self}", markup=False)

    def __str__(self) -> str:
        spent = time.monotonic() - self.began
        pace = f"{self.done / max(spent, 1e-9):,.0f} tokens a second"
        if not 0 < self.done <= self.total:
            return pace
        left = spent * (self.total - self.done) / self.done
        return f"{100 * self.done / self.total:3.0f} %  {left / 60:.1f} min left  {pace}"


if __name__ == "__main__":
    sys.exit(main())
