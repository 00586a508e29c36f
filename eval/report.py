"""A report of evaluation cells: a table for people, rows for programs, and the lines of a figure."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eval.results import Cell
from eval.stats import bounds, mean_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette: eight colours that colour-blind readers can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
MARKERS = "osD^vPX*"


def row(cell: Cell) -> dict[str, Any]:
    """One cell as figures: mean success with n and its 95 % interval, and what it took."""
    return {"stage": cell.stage, "strategy": cell.strategy, "length_words": cell.length, **figures_of(cell)}


def figures_of(cell: Cell) -> dict[str, Any]:
    """What any report says of a cell's outcomes."""
    outcomes = cell.outcomes
    count = max(1, len(outcomes))
    retained = [o.retention for o in outcomes if o.retention is not None]
    statuses = sorted({o.status for o in outcomes})
    return {
        "n": len(outcomes),
        "success": cell.success,
        "interval_95": bounds(mean_interval([o.success for o in outcomes], [o.cluster for o in outcomes])),
        "tokens": sum(o.tokens for o in outcomes) / count,
        "compactions": sum(o.compactions for o in outcomes) / count,
        "summary_tokens": cell.tokens_of_a_summary,
        "retention": sum(retained) / len(retained) if retained else None,
        "peak_context": max((o.peak_context for o in outcomes), default=0),
        "statuses": {status: sum(o.status == status for o in outcomes) for status in statuses},
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a Markdown table."""
    lines = [
        "| policy | strategy | words | n | success | 95 % interval | tokens an episode | compactions "
        "| tokens a summary | facts kept a compaction |",
        "|---|---|---:|---:|---:|---|---:|---:|---:|---:|",
    ]
    for r in rows:
        low_high = r["interval_95"]
        lines.append(
            f"| {r['stage']} | {r['strategy']} | {r['length_words']:,} | {r['n']} | {r['success']:.3f} | "
            f"{'' if low_high is None else f'{low_high[0]:.3f} to {low_high[1]:.3f}'} | {r['tokens']:,.0f} | "
            f"{r['compactions']:.1f} | {shown(r['summary_tokens'], 1)} | {shown(r['retention'], 4)} |"
        )
    return "\n".join(lines) + "\n"


def draw_success(axes: Axes, cells: Sequence[Cell]) -> None:
    """Success against length, one line for each policy and strategy, bars for the 95 % interval."""
    lines = list(dict.fromkeys((cell.stage, cell.strategy) for cell in cells))
    for index, (stage, strategy) in enumerate(lines):
        rows = sorted((row(c) for c in cells if (c.stage, c.strategy) == (stage, strategy)), key=_length)
        success = [r["success"] for r in rows]
        bounds = [r["interval_95"] or (r["success"], r["success"]) for r in rows]
        # A bound on the wrong side of the mean is rounding: a clustered interval may be a point.
        below = [max(0.0, mean - low) for mean, (low, _) in zip(success, bounds, strict=True)]
        above = [max(0.0, high - mean) for mean, (_, high) in zip(success, bounds, strict=True)]
        axes.errorbar(
            [r["length_words"] for r in rows],
            success,
            yerr=[below, above],
            label=f"{strategy}, {stage}",
            color=COLOURS[index % len(COLOURS)],
            marker=MARKERS[index % len(MARKERS)],
            linestyle="-" if stage == "after" else "--",
            capsize=3,
        )
    axes.set_xscale("log")
    axes.set_ylim(-0.03, 1.05)
    axes.set_xlabel("words in the episode")
    axes.set_ylabel("success on held-out tasks")
    legend_below(axes)


def legend_below(axes: Axes, size: float = 7) -> None:
    """The legend under the axes, where it covers no point and no interval."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=size, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False)


def _length(figures: Mapping[str, Any]) -> int:
    return int(figures["length_words"])


def as_png(figure: Figure) -> bytes:
    """A figure as PNG; it is closed."""
    import matplotlib.pyplot as plt

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    plt.close(figure)
    return buffer.getvalue()


def shown(value: float | None, digits: int) -> str:
    """A number for a table; nothing where there is none."""
    return "" if value is None else f"{value:.{digits}f}"
