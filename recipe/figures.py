"""The report of a run: ``report.json``, ``report.md`` and ``report.png`` in its folder."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eval.report import COLOURS, as_png, draw_success, row, table
from eval.results import Cell
from eval.stats import bounds, ratio_interval
from recipe.arguments import Arguments
from recipe.config import LONG_WORDS
from recipe.tracking import clock
from rollouts.files import write_atomically

CURVES = (
    ("rollout/success", "success"),
    ("summary/tokens", "tokens a summary"),
    ("rollout/compactions", "compactions an episode"),
)


def figures(
    folder: Path,
    cells: Sequence[Cell],
    arguments: Arguments,
    history: Sequence[Mapping[str, Any]],
    seconds: Mapping[str, float],
) -> Path:
    """Write the report of a run and return the path of ``report.md``.

    Args:
        folder: The run's.
        cells: All cells that were evaluated.
        history: The logs of GRPO, one a step.
        seconds: By stage.
    """
    report = {
        **headline(cells, arguments),
        "cells": [row(cell) for cell in cells],
        "training": [_curve_point(record) for record in history],
        "seconds": dict(seconds),
        "config": arguments.source,
        "seed": arguments.training.seed,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {arguments.training.world_size} process(es)",
    }
    write_atomically(folder / "report.json", json.dumps(report, indent=1).encode())
    write_atomically(folder / "report.png", _picture(cells, history))
    write_atomically(folder / "report.md", _page(report).encode())
    return folder / "report.md"


def headline(cells: Sequence[Cell], arguments: Arguments) -> dict[str, Any]:
    """The figures that a run is judged by; None where the run has no such cell.

    ``error_ratio`` is the error of the trained policy over that of the policy before training with a larger summary
    budget, on the same tasks; ``summary_token_ratio`` is the ratio of the lengths of their summaries.
    """
    by_key = {(cell.stage, cell.strategy, cell.length): cell for cell in cells}
    lengths = arguments.stages.eval_lengths
    first, factor = lengths[0], arguments.stages.eval_baseline_factor
    trained = by_key.get(("after", "self_summary", first))
    before = by_key.get(("before", "self_summary", first))
    prompted = by_key.get(("before", f"self_summary_{factor}x", first))
    eight = by_key.get(("after", "self_summary", 8 * first))
    long = next((by_key.get(("after", "self_summary", n)) for n in lengths if n >= LONG_WORDS), None)
    found: dict[str, Any] = {
        "success_before": before and before.success,
        "success_after": trained and trained.success,
        "error_ratio": None,
        "error_ratio_interval_95": None,
        "summary_token_ratio": None,
        "success_8x": eight and eight.success,
        "success_100k": long and long.success,
        "peak_context": max((outcome.peak_context for cell in cells for outcome in cell.outcomes), default=0),
        "window": arguments.episodes.window,
    }
    if trained and prompted:
        if prompted.success < 1:
            found["error_ratio"] = (1 - trained.success) / (1 - prompted.success)
            found["error_ratio_interval_95"] = bounds(ratio_interval(_errors(trained), _errors(prompted)))
        if trained.tokens_of_a_summary and prompted.tokens_of_a_summary:
            found["summary_token_ratio"] = trained.tokens_of_a_summary / prompted.tokens_of_a_summary
    return found


def _errors(cell: Cell) -> dict[str, float]:
    return {task: 1 - success for task, success in cell.by_task.items()}


def _curve_point(record: Mapping[str, Any]) -> dict[str, Any]:
    names = ("step", "seconds", "reward", "eval/success", *(key for key, _ in CURVES))
    return {name: record[name] for name in names if record.get(name) is not None}


def _picture(cells: Sequence[Cell], history: Sequence[Mapping[str, Any]]) -> bytes:
    """(a) training curves and (b) success against length, as PNG."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(11, 5.2), layout="constrained")
    grid = figure.add_gridspec(len(CURVES), 2, width_ratios=(1, 1.35))
    curves = [figure.add_subplot(grid[index, 0]) for index in range(len(CURVES))]
    for index, (axes, (key, label)) in enumerate(zip(curves, CURVES, strict=True)):
        points = [(record["step"], record[key]) for record in history if record.get(key) is not None]
        axes.plot([x for x, _ in points], [y for _, y in points], color=COLOURS[index])
        held_out = [(r["step"], r["eval/success"]) for r in history if "eval/success" in r]
        if key == "rollout/success" and held_out:
            axes.plot([x for x, _ in held_out], [y for _, y in held_out], "o", color=COLOURS[3], ms=4, label="held out")
            axes.legend(fontsize=7)
        axes.set_ylabel(label, fontsize=8)
        axes.set_ylim(bottom=0)
    curves[0].set_title("(a) GRPO")
    curves[-1].set_xlabel("optimizer step")
    axes = figure.add_subplot(grid[:, 1])
    draw_success(axes, cells)
    axes.set_title("(b) held-out tasks, same window")
    return as_png(figure)


def _page(report: Mapping[str, Any]) -> str:
    """The report for people."""
    lines = [
        "# Report\n",
        f"`{report['config']}`, seed {report['seed']}, {report['machine']}.\n",
        "![report](report.png)\n",
    ]
    lines += [f"- `{key}`: {_shown(report[key])}" for key in _HEADLINE if key in report]
    total = clock(sum(report["seconds"].values()))
    stages = ", ".join(f"{name} {clock(value)}" for name, value in report["seconds"].items())
    lines += ["", f"Time: {stages}; {total} in all.\n", table(report["cells"])]
    return "\n".join(lines)


_HEADLINE = (
    "success_before",
    "success_after",
    "error_ratio",
    "error_ratio_interval_95",
    "summary_token_ratio",
    "success_8x",
    "success_100k",
    "peak_context",
    "window",
)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " to ".join(_shown(item) for item in value)
    return "not measured" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
