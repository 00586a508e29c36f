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
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from eval.arguments import EvalArguments, parse
from summarization.resolve import UserError

if TYPE_CHECKING:
    from eval.grid import CellKey
    from eval.setup import Way
    from rollouts.episode import Episode
    from rollouts.runner import Job
    from rollouts.storage import EpisodeWriter


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
    from eval.evaluate import evaluate
    from eval.folder import RunFolder
    from eval.grid import cells, rows
    from eval.run_report import write_report
    from eval.setup import Setup
    from rollouts.jobs import task_id

    try:
        clock = _Clock(console)
        setup = Setup(arguments, clock.read)
        folder = RunFolder(Path(arguments.output_dir))
        wanted = list(cells(arguments))
        ways = {key.strategy: setup.way(key.strategy) for key in wanted}
        if not dry:
            folder.begin(arguments)
        left: dict[CellKey, list[Mapping[str, Any]]] = {}
        # Every strategy reads the same samples, and a file need not be read for each of them.
        samples: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
        for key in wanted:
            if not ways[key.strategy].fits(key.length):
                continue
            place = (key.task, key.asked, key.length)
            if place not in samples:
                samples[place] = rows(arguments, key)
            done = {episode.task_id for episode in folder.episodes(key)}
            left[key] = [row for row in samples[place] if task_id(row) not in done]
        clock.total = _tokens(left, ways)
        if dry:
            console.print(_plan(left, ways), markup=False)
            return
        for key, missing in left.items():
            if not missing:
                continue
            way = ways[key.strategy]
            with folder.writer(key) as writer:
                cell = evaluate(
                    "",
                    key.strategy,
                    way.strategy,
                    missing,
                    key.length,
                    way.environment,
                    setup.engines(way),
                    setup.renderer,
                    way.limits,
                    arguments.seed,
                    partial(_keep, writer),
                )
            console.print(
                f"{key.task:<16} {key.asked:<5} {key.length:>9,} tokens  {key.strategy:<18} score {cell.success:.3f}  "
                f"n {len(missing):<4} {clock}",
                markup=False,
            )
        path = write_report(folder, arguments, list(left))
        console.print(f"report: {path}", markup=False)
    except UserError as error:
        raise UserError(f"{source}: {error}") from error


def _keep(writer: EpisodeWriter, job: Job, episode: Episode) -> None:
    writer.append(episode)


def _tokens(left: Mapping[CellKey, Sequence[Any]], ways: Mapping[str, Way]) -> int:
    """Tokens of pages still to be read."""
    return sum(ways[key.strategy].cost(key.length) * len(missing) for key, missing in left.items())


def _plan(left: Mapping[CellKey, Sequence[Any]], ways: Mapping[str, Way]) -> str:
    lines = [
        f"{key.task:<16} {key.asked:<5} {key.length:>9,} tokens  {key.strategy:<18} {len(missing):>4} episodes to play"
        for key, missing in left.items()
    ]
    episodes = sum(map(len, left.values()))
    return "\n".join([*lines, f"{episodes:,} episodes, {_tokens(left, ways):,} tokens of pages to read"])


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
