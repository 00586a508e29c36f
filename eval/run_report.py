"""The report of an evaluation: ``report.json`` for programs, ``report.html``, ``.md`` and ``.png`` for people."""

from __future__ import annotations

import json
import resource
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eval.arguments import FULL_CONTEXT, EvalArguments
from eval.evaluate import outcome_of
from eval.folder import RunFolder
from eval.grid import CellKey
from eval.html_report import html_page
from eval.panels import draw, kept, mean_score
from eval.report import as_png, figures_of, shown
from eval.results import Cell, Outcome
from eval.stats import bounds, paired_difference
from eval.survival import Kept, losses, survival
from rollouts.files import write_atomically

# Effective length: the longest at which the lower end of the interval is at least this share of the shortest's score.
EFFECTIVE_SHARE = 0.85
SHOWN_LOSSES = 20


def write_report(folder: RunFolder, arguments: EvalArguments, keys: Sequence[CellKey]) -> Path:
    """Write the report of the episodes in a folder and return the path of ``report.md``."""
    outcomes: dict[CellKey, list[Outcome]] = {}
    curves: dict[CellKey, list[Kept]] = {}
    lost: list[dict[str, Any]] = []
    for key in keys:
        chains = []
        outcomes[key] = []
        for episode in folder.episodes(key):
            outcomes[key].append(outcome_of(episode))
            chains.append(episode.compactions)
            if len(lost) < SHOWN_LOSSES:
                lost += [{"strategy": key.strategy, "length": key.length, **asdict(loss)} for loss in losses(episode)]
        curves[key] = survival(chains)
    rows = [row(key, found) for key, found in outcomes.items() if found]
    report = {
        **{name: value for name, value in folder.arguments().items() if name != "arguments"},
        "policy": arguments.policy,
        "window": arguments.window,
        "summary_tokens": arguments.summary_tokens,
        "success_by_length": by_length(rows),
        "effective_length": effective_lengths(rows),
        "cells": rows,
        "paired": paired(outcomes, arguments.strategies[0]),
        "compaction_error": paired(outcomes, FULL_CONTEXT),
        "survival": [
            {**asdict(key), "bins": [asdict(kept) for kept in curve]} for key, curve in curves.items() if curve
        ],
        "losses": lost[:SHOWN_LOSSES],
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    with folder.writing():
        write_atomically(folder.path / "report.json", json.dumps(report, indent=1).encode())
        write_atomically(folder.path / "report.png", picture(report))
        write_atomically(folder.path / "report.html", html_page(report).encode("utf-8", "replace"))
        write_atomically(folder.path / "report.md", page(report).encode("utf-8", "replace"))
    return folder.path / "report.md"


def row(key: CellKey, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """One cell as figures."""
    found = figures_of(Cell("", key.strategy, key.length, tuple(outcomes)))
    officials = [o.official for o in outcomes if o.official is not None]
    return {
        **asdict(key),
        "n": found["n"],
        "clusters": len({o.cluster for o in outcomes}),
        "score": found["success"],
        "interval_95": found["interval_95"],
        "official": sum(officials) / len(officials) if officials else None,
        "read_tokens": sum(o.read_tokens for o in outcomes) / found["n"],
        "tokens_forwarded": found["tokens"],
        "compactions": found["compactions"],
        "most_compactions": max(o.compactions for o in outcomes),
        "tokens_a_summary": found["summary_tokens"],
        "retention": found["retention"],
        "peak_context": found["peak_context"],
        "seconds": sum(o.seconds for o in outcomes) / found["n"],
        "empty_answers": sum(o.empty for o in outcomes),
        "cut_off_answers": sum(o.cut_off for o in outcomes),
        "statuses": found["statuses"],
    }


def by_length(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Mean score over tasks and places of the question, by strategy and length."""
    found: dict[str, dict[str, list[float]]] = {}
    for r in rows:
        found.setdefault(r["strategy"], {}).setdefault(str(r["length"]), []).append(r["score"])
    return {
        strategy: {length: sum(scores) / len(scores) for length, scores in lengths.items()}
        for strategy, lengths in found.items()
    }


def effective_lengths(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """By task, place of the question and strategy, the longest length at which little is lost; None where none is."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for r in rows:
        groups.setdefault((r["task"], r["asked"], r["strategy"]), []).append(r)
    found = []
    for (task, asked, strategy), cells in groups.items():
        ordered = sorted(cells, key=lambda r: r["length"])
        wanted = EFFECTIVE_SHARE * ordered[0]["score"]
        length = None
        for r in ordered:
            # A length counts only where all shorter ones hold too.
            if r["interval_95"] is None or r["interval_95"][0] < wanted or not ordered[0]["score"]:
                break
            length = r["length"]
        found.append({"task": task, "asked": asked, "strategy": strategy, "effective_length": length})
    return found


def paired(outcomes: Mapping[CellKey, Sequence[Outcome]], against: str) -> list[dict[str, Any]]:
    """Score with ``against`` minus the score with each other strategy, on the same samples, with its interval."""
    found = []
    for key, mine in outcomes.items():
        base = outcomes.get(CellKey(key.task, key.asked, key.length, against))
        if key.strategy == against or not base or not mine:
            continue
        mean, interval, n = paired_difference(
            {o.task_id: o.success for o in base}, {o.task_id: o.success for o in mine}
        )
        found.append(
            {
                **asdict(key),
                "against": against,
                "difference": mean,
                "interval_95": bounds(interval),
                "n": n,
            }
        )
    return found


def picture(report: Mapping[str, Any]) -> bytes:
    """Score against length and facts surviving against compactions, one line a strategy, as PNG."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5.2), layout="constrained")
    strategies = list(by_length(report["cells"]))
    for axes, panel in ((left, mean_score(report)), (right, kept(report, "survival"))):
        draw(axes, panel, strategies)
        axes.set_title(panel.title, fontsize=10)
    return as_png(figure)


def page(report: Mapping[str, Any]) -> str:
    """The report for people."""
    lines = [
        "# Evaluation\n",
        f"Policy `{report['policy']}`, window {report['window']} tokens, summaries of at most "
        f"{report['summary_tokens']} tokens.\n",
        "![score by length, facts by compaction](report.png)\n",
        "| task | asked | tokens | strategy | n | score | 95 % interval | official | compactions | facts kept a "
        "compaction | tokens a summary | tokens forwarded | seconds |",
        "|---|---|---:|---|---:|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for r in report["cells"]:
        low_high = r["interval_95"]
        lines.append(
            f"| {_cell(r['task'])} | {r['asked']} | {r['length']:,} | {r['strategy']} | {r['n']} | {r['score']:.3f} | "
            f"{'not available' if low_high is None else f'{low_high[0]:.3f} to {low_high[1]:.3f}'} | "
            f"{shown(r['official'], 3)} | {r['compactions']:.1f} | {shown(r['retention'], 4)} | "
            f"{shown(r['tokens_a_summary'], 1)} | {r['tokens_forwarded']:,.0f} | {r['seconds']:.1f} |"
        )
    for title, name in (("Against the first strategy", "paired"), ("Compaction error", "compaction_error")):
        if report[name]:
            lines += [f"\n## {title}\n", "| task | asked | tokens | strategy | difference | 95 % interval | n |"]
            lines += ["|---|---|---:|---|---:|---|---:|"]
            for r in report[name]:
                low_high = r["interval_95"]
                lines.append(
                    f"| {_cell(r['task'])} | {r['asked']} | {r['length']:,} | {r['against']} minus {r['strategy']} | "
                    f"{r['difference']:+.3f} | "
                    f"{'not available' if low_high is None else f'{low_high[0]:+.3f} to {low_high[1]:+.3f}'} "
                    f"| {r['n']} |"
                )
    if report["losses"]:
        lines += ["\n## Where facts were lost\n", "| strategy | tokens | compaction | fact | before | after |"]
        lines += ["|---|---:|---|---|---|---|"]
        for r in report["losses"]:
            lines.append(
                f"| {r['strategy']} | {r['length']:,} | {r['compaction']} of {r['compactions']} | {_cell(r['fact'])} | "
                f"{_cell(r['before'])} | {_cell(r['after'])} |"
            )
    return "\n".join(lines) + "\n"


def _cell(text: str, most: int = 160) -> str:
    """Text as it may stand in a Markdown table."""
    text = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
    return text if len(text) <= most else text[:most] + " ..."
