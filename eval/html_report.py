"""``report.html``: the report in one file that opens from disk, needs no network, and suits light, dark and paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from eval.panels import Panel, panels, svg

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --page: #fff; --line: #d0d7de; --soft: #f4f6f8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --page: #16181c; --line: #3a4048; --soft: #20242a; } }
body { margin: 0 auto; max-width: 76rem; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--page); }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem; }
figure { margin: 0; padding: .75rem; border: 1px solid var(--line); border-radius: 6px; min-width: 0; }
figcaption { font-weight: 600; overflow-wrap: anywhere; } figure p { margin: .25rem 0; font-size: .85rem; }
svg { width: 100%; height: auto; } svg text { font-family: system-ui, sans-serif !important; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; width: 100%; }
th, td { padding: .25rem .5rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
thead th { background: var(--soft); } summary { cursor: pointer; font-size: .85rem; }
td.text { overflow-wrap: anywhere; min-width: 12rem; }
@media print { :root { --ink: #000; --page: #fff; --line: #999; --soft: #eee; } figure { break-inside: avoid; } }
"""

CELLS: Mapping[str, str] = {
    "task": "task",
    "asked": "question",
    "length": "tokens",
    "strategy": "strategy",
    "n": "n",
    "clusters": "clusters",
    "score": "score",
    "interval_95": "95 % interval",
    "official": "official",
    "compactions": "compactions",
    "retention": "facts kept a compaction",
    "tokens_a_summary": "tokens a summary",
    "tokens_forwarded": "tokens forwarded",
    "peak_context": "longest context",
    "seconds": "seconds",
    "empty_answers": "empty answers",
    "cut_off_answers": "cut-off answers",
    "statuses": "statuses",
}
PAIRED: Mapping[str, str] = {
    "task": "task",
    "asked": "question",
    "length": "tokens",
    "against": "strategy",
    "strategy": "minus",
    "difference": "difference",
    "interval_95": "95 % interval",
    "n": "n",
}
LOSSES: Mapping[str, str] = {
    "strategy": "strategy",
    "length": "tokens",
    "compaction": "compaction",
    "compactions": "of",
    "fact": "fact",
    "before": "last summary that held it",
    "after": "summary that lost it",
}
EFFECTIVE: Mapping[str, str] = {
    "task": "task",
    "asked": "question",
    "strategy": "strategy",
    "effective_length": "effective length",
}


def html_page(report: Mapping[str, Any]) -> str:
    """The page of a report, from what ``report.json`` holds."""
    strategies = list(dict.fromkeys(r["strategy"] for r in report["cells"]))
    plots = [_figure(panel, strategies, f"p{index}") for index, panel in enumerate(panels(report))]
    versions = ", ".join(f"{name} {version}" for name, version in (report.get("versions") or {}).items())
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Evaluation of {_text(report['policy'])}</title><style>{STYLE}</style></head><body>",
        f"<h1>Evaluation of {_text(report['policy'])}</h1>",
        f"<p>Window {report['window']:,} tokens, summaries of at most {report['summary_tokens']:,} tokens."
        + (f" {_text(versions)}." if versions else "")
        + "</p>",
        f'<div class="plots">{"".join(plots)}</div>',
        "<h2>All cells</h2>",
        table(report["cells"], CELLS),
    ]
    for title, name, columns in (
        ("Against the first strategy, sample by sample", "paired", PAIRED),
        ("Compaction error", "compaction_error", PAIRED),
        ("Effective length", "effective_length", EFFECTIVE),
        ("Where facts were lost", "losses", LOSSES),
    ):
        if report[name]:
            parts += [f"<h2>{title}</h2>", table(report[name], columns)]
    return "\n".join([*parts, "</body></html>"]) + "\n"


def table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> str:
    """Rows as a table; ``columns`` names the figures to show and their headings."""
    numbers = {name for name in columns if any(isinstance(row.get(name), int | float | list) for row in rows)}
    head = "".join(f'<th{_number(name in numbers)} scope="col">{_text(title)}</th>' for name, title in columns.items())
    lines = []
    for row in rows:
        shown = (f"<td{_number(name in numbers)}>{_shown(row.get(name), name)}</td>" for name in columns)
        lines.append(f"<tr>{''.join(shown)}</tr>")
    body = "\n".join(lines)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def _figure(panel: Panel, strategies: Sequence[str], name: str) -> str:
    points = [
        {"strategy": strategy, "x": p.x, "y": p.y, "interval_95": None if p.low is None else [p.low, p.high]}
        for strategy, line in panel.lines.items()
        for p in line
    ]
    columns = {"strategy": "strategy", "x": panel.x, "y": panel.y}
    if any(p["interval_95"] for p in points):
        columns["interval_95"] = "95 % interval"
    drawn = svg(panel, strategies, name).replace("<svg ", f'<svg aria-label="{_text(panel.title)}" ', 1)
    return (
        f"<figure><figcaption>{_text(panel.title)}</figcaption>{drawn}<p>{_text(panel.note)}</p>"
        f"<details><summary>The figures behind it</summary>{table(points, columns)}</details></figure>\n"
    )


def _number(is_number: bool) -> str:
    return ' class="n"' if is_number else ' class="text"'


def _shown(value: Any, name: str) -> str:
    if value is None:
        return {"interval_95": "not available", "effective_length": "none"}.get(name, "")
    if isinstance(value, list):
        sign = "+" if name == "interval_95" and min(value) < 0 else ""
        return " to ".join(format(v, f"{sign}.3f") for v in value)
    if isinstance(value, dict):
        return _text(", ".join(f"{key} {count}" for key, count in value.items()))
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else _text(str(value))


def _text(text: str) -> str:
    """Text as it may stand in HTML, in attributes too; what cannot be shown is a question mark."""
    return escape("".join(c if c.isprintable() or c in "\n\t" else "?" for c in str(text)))
