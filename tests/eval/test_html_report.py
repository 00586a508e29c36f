"""The report as one HTML file: whole, hostile texts escaped, nothing fetched, every plot with its figures."""

from __future__ import annotations

import copy
import re
from html.parser import HTMLParser
from typing import Any

from eval.html_report import html_page
from eval.panels import panels

EVIL = '<script>alert(1)</script>"&$\\frac{$_'


class Elements(HTMLParser):
    """Collects what an HTML parser sees."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def cell(task: str, strategy: str, length: int, score: float) -> dict[str, Any]:
    return {
        "task": task,
        "asked": "both",
        "length": length,
        "strategy": strategy,
        "n": 4,
        "clusters": 4,
        "score": score,
        "interval_95": [max(0.0, score - 0.25), min(1.0, score + 0.25)],
        "official": score,
        "read_tokens": 77.0,
        "tokens_forwarded": 3.0 * (length or 77),
        "compactions": 3.0,
        "retention": 0.5,
        "tokens_a_summary": 4.0,
        "peak_context": 99,
        "seconds": 0.1,
        "empty_answers": 0,
        "cut_off_answers": 0,
        "statuses": {"finished": 4},
    }


def example(task: str = "recall", strategy: str = "self_summary") -> dict[str, Any]:
    cells = [cell(t, s, n, n / 2000) for t in (task, "chain") for s in (strategy, "none") for n in (500, 1000)]
    bins = [{"first": 1, "last": 1, "held": 3, "total": 4, "surviving": 0.75}]
    pair = {"task": task, "asked": "both", "length": 500, "strategy": "none", "against": strategy}
    return {
        "policy": "tiny",
        "window": 128,
        "summary_tokens": 4,
        "versions": {"torch": "2"},
        "cells": cells,
        "paired": [{**pair, "difference": 0.125, "interval_95": [-0.5, 0.75], "n": 4}],
        "compaction_error": [{**pair, "difference": 0.125, "interval_95": None, "n": 1}],
        "effective_length": [{"task": task, "asked": "both", "strategy": strategy, "effective_length": None}],
        "survival": [{"task": task, "asked": "both", "length": 1000, "strategy": strategy, "bins": bins}],
        "losses": [
            {
                "strategy": strategy,
                "length": 500,
                "compaction": 1,
                "compactions": 3,
                "fact": task,
                "before": task,
                "after": "",
            }
        ],
    }


def test_every_plot_is_there_with_the_figures_behind_it() -> None:
    report = example()
    titles = [panel.title for panel in panels(report)]
    assert titles[:3] == ["Score, mean over tasks", "Score: recall", "Score: chain"]
    assert [title.partition(":")[0] for title in titles[3:]] == ["Retention", "Survival", "Cost"]
    page = Elements(html_page(report))
    assert page.tags.count("figure") == page.tags.count("details") == len(titles) == page.tags.count("svg")
    # A table behind each plot, and four below them besides that of all cells.
    assert page.tags.count("table") == len(titles) + 5
    for text in ("0.250 to 0.750", "0.000 to 0.500", "-0.500 to +0.750", "not available", "finished 4"):
        assert text in page.text
    assert "self_summary" in page.text


def test_nothing_is_fetched_and_ids_are_of_one_plot() -> None:
    text = html_page(example())
    page = Elements(text)
    fetching = {"script", "link", "img", "iframe", "object", "embed"} & set(page.tags)
    assert not fetching
    for name, value in page.attributes:
        if name in ("href", "xlink:href", "src", "action"):
            assert (value or "").startswith("#"), value
    assert not re.findall(r"url\((?!#)|@import", text)
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids)) > 20
    named = {(value or "")[1:] for name, value in page.attributes if name.endswith("href")}
    assert named <= set(ids)
    assert "currentColor" in text
    assert "#010203" not in text
    assert "prefers-color-scheme: dark" in text
    assert "width=device-width" in text


def test_hostile_names_are_text() -> None:
    page = Elements(html_page(example(task=EVIL, strategy=f"_{EVIL}\x07")))
    assert "script" not in page.tags
    assert page.text.count(EVIL) > 10


def test_a_report_of_files_and_of_nothing() -> None:
    report = copy.deepcopy(example())
    report["cells"] = [cell("ruler:niah", "none", 0, 1.0)]
    report["cells"][0]["interval_95"] = None
    report.update(survival=[], paired=[], compaction_error=[], losses=[])
    (score, cost) = panels(report)
    # A file has no length of its own: it stands where its texts are.
    assert score.lines["none"][0].x == cost.lines["none"][0].x == 77.0
    assert "not available" in html_page(report)
    report["cells"] = []
    assert Elements(html_page(report)).tags.count("figure") == 0


def test_the_same_report_gives_the_same_file() -> None:
    assert html_page(example()) == html_page(example())
