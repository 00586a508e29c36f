"""What a report shows as plots: each panel is its lines' points, drawn by matplotlib and shown as a table beside it."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eval.report import COLOURS, MARKERS, legend_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DASHES = ("-", "--", "-.", ":")
# Lines stand a little beside each other, so that the intervals of equal scores can be told apart.
DODGE = 1.02
# Drawn in this colour, and then told to take the page's own, light or dark.
INK = "#010203"


@dataclass(frozen=True)
class Point:
    """One point, and the interval about it where there is one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Panel:
    """One plot.

    Attributes:
        title: Above it.
        x: What is along the bottom.
        y: What is up the side.
        lines: Points by strategy.
        share: Whether ``y`` is a share, from 0 to 1; else it is a count on a logarithmic axis.
        note: What a reader must know.
    """

    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[Point]]
    share: bool = True
    note: str = ""


def panels(report: Mapping[str, Any]) -> list[Panel]:
    """All plots of a report: score by length for each task, retention, survival, cost."""
    cells: list[Mapping[str, Any]] = report["cells"]
    places = list(dict.fromkeys((r["task"], r["asked"]) for r in cells))
    found = []
    for task, asked in places:
        lines: dict[str, list[Point]] = {}
        for r in sorted((r for r in cells if (r["task"], r["asked"]) == (task, asked)), key=_x):
            low, high = r["interval_95"] or (None, None)
            lines.setdefault(r["strategy"], []).append(Point(_x(r), r["score"], low, high))
        title = f"Score: {task}" + (f", question {asked}" if len({a for _, a in places}) > 1 else "")
        found.append(Panel(title, "tokens in the episode", "score", lines, note="Bars are 95 % intervals."))
    if len(places) > 1:
        found.insert(0, mean_score(report))
    return [
        panel for panel in (*found, kept(report, "retention"), kept(report, "survival"), cost(report)) if panel.lines
    ]


def mean_score(report: Mapping[str, Any]) -> Panel:
    """Score by length and strategy, the mean over tasks."""
    lines = _means(report, "score")
    return Panel("Score, mean over tasks", "tokens in the episode", "score", lines, note="Each task weighs the same.")


def cost(report: Mapping[str, Any]) -> Panel:
    """Tokens forwarded an episode, by length and strategy."""
    read = {name: [p for p in points if p.y > 0] for name, points in _means(report, "tokens_forwarded").items()}
    lines = {name: points for name, points in read.items() if points}
    note = "Tokens of all windows of an episode, prompts included; the mean over tasks."
    return Panel("Cost: tokens forwarded", "tokens in the episode", "tokens an episode", lines, False, note)


def kept(report: Mapping[str, Any], figure: str) -> Panel:
    """Of needed facts, the share that each compaction kept, or that was still there after it; the longest episodes."""
    longest = max((curve["length"] for curve in report["survival"]), default=0)
    bins: dict[str, dict[int, list[tuple[int, int, float]]]] = {}
    for curve in report["survival"]:
        if curve["length"] == longest:
            for b in curve["bins"]:
                of = bins.setdefault(curve["strategy"], {}).setdefault(b["first"], [])
                of.append((b["held"], b["total"], b["surviving"]))
    lines = {
        strategy: [Point(first, _share(values, figure)) for first, values in sorted(by_first.items())]
        for strategy, by_first in bins.items()
    }
    what = "kept by a compaction" if figure == "retention" else "still held"
    note = "Compactions in bins that double: 1, 2 to 3, 4 to 7, ...; of all tasks of this length together."
    title = f"{figure.capitalize()}: needed facts {what}, {longest:,} tokens"
    return Panel(title, "number of the compaction", "share of facts", lines, note=note)


def draw(axes: Axes, panel: Panel, strategies: Sequence[str]) -> None:
    """A panel with one line a strategy; the order of ``strategies`` gives them their looks, alike in every panel."""
    for name, points in panel.lines.items():
        at = strategies.index(name)
        # An interval may end on the mean, and rounding must not put it beyond.
        below = [max(0.0, p.y - p.low) if p.low is not None else 0.0 for p in points]
        above = [max(0.0, p.high - p.y) if p.high is not None else 0.0 for p in points]
        axes.errorbar(
            [p.x * DODGE ** (at - (len(strategies) - 1) / 2) for p in points],
            [p.y for p in points],
            yerr=[below, above] if any(below) or any(above) else None,
            color=COLOURS[at % len(COLOURS)],
            marker=MARKERS[at % len(MARKERS)],
            linestyle=DASHES[at % len(DASHES)],
            label=_literal(name),
            capsize=3,
            markersize=5,
        )
    axes.set_xscale("log")
    places = sorted({p.x for points in panel.lines.values() for p in points})
    axes.set_xticks(places[:: 1 + len(places) // 8], [f"{x:,.0f}" for x in places[:: 1 + len(places) // 8]])
    axes.minorticks_off()
    if panel.share:
        axes.set_ylim(-0.03, 1.05)
    else:
        axes.set_yscale("log")
    axes.grid(alpha=0.25)
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)
    legend_below(axes, size=8)


def svg(panel: Panel, strategies: Sequence[str], name: str) -> str:
    """A panel as SVG to stand in a page: text as text, in the page's own ink, all ids beginning with ``name``."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ink = dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "grid.color"), INK
    )
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "font.size": 11, **ink}):
        figure, axes = plt.subplots(figsize=(5, 4.2), layout="constrained")
        draw(axes, panel, strategies)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        plt.close(figure)
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor").replace("#000000", "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    return re.sub(r'<svg ([^>]*?)width="[^"]*" height="[^"]*"', r'<svg role="img" \1', text, count=1)


def _means(report: Mapping[str, Any], figure: str) -> dict[str, list[Point]]:
    found: dict[str, dict[float, list[float]]] = {}
    for r in report["cells"]:
        # Files have no length of their own; each is where its texts are.
        found.setdefault(r["strategy"], {}).setdefault(_x(r), []).append(r[figure])
    return {
        strategy: [Point(x, sum(values) / len(values)) for x, values in sorted(by_x.items())]
        for strategy, by_x in found.items()
    }


def _x(row: Mapping[str, Any]) -> float:
    return float(row["length"] or max(1.0, row["read_tokens"]))


def _share(values: Sequence[tuple[int, int, float]], figure: str) -> float:
    if figure == "retention":
        return sum(held for held, _, _ in values) / max(1, sum(total for _, total, _ in values))
    return sum(surviving for _, _, surviving in values) / len(values)


def _literal(text: str) -> str:
    """A name as it is: matplotlib reads dollars as mathematics, and leaves what begins with a line out of legends."""
    text = "".join(c if c.isprintable() else "?" for c in text).replace("$", r"\$")
    return f"\u200b{text}" if text.startswith("_") else text
