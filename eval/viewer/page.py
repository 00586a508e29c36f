"""Packs episodes into one HTML file that opens from disk, needs no network, and runs no script but its own.

What the page shows lies in it compressed, in blocks of many records, so that opening it reads the list alone::

    <script type="application/octet-stream" id="block-0">...</script>     windows and outlines, gzip, base64
    <script type="application/octet-stream" id="index">...</script>       the rows of the list
    <script>...</script>                                                  the viewer

Base64 has neither ``<`` nor quotes, so no text of an episode can end the element it lies in.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from eval.viewer.records import outline, row, texts
from eval.viewer.text import Decoder
from rollouts.episode import Episode

BLOCK_CHARACTERS = 1 << 18
"""JSON characters after which a block is closed."""
SCRIPTS = ("base.js", "data.js", "list.js", "facts.js", "band.js", "sheet.js", "window.js", "episode.js", "main.js")
DATA = "<!--data-->"


class Blocks:
    """Records, packed into compressed blocks."""

    def __init__(self) -> None:
        self.closed: list[str] = []
        self._open: list[str] = []
        self._characters = 0

    def add(self, record: Any) -> tuple[int, int]:
        """Pack a record; returns its block and its place there."""
        # ASCII, so that a lone surrogate is an escape and not an encoding error.
        text = json.dumps(record, separators=(",", ":"), allow_nan=False)
        if self._open and self._characters + len(text) > BLOCK_CHARACTERS:
            self.close()
        self._open.append(text)
        self._characters += len(text)
        return len(self.closed), len(self._open) - 1

    def close(self) -> None:
        """Compress what was packed since the last block."""
        if self._open:
            self.closed.append(packed(f"[{','.join(self._open)}]"))
        self._open, self._characters = [], 0


def packed(text: str) -> str:
    """ASCII text, gzip, base64."""
    return base64.b64encode(gzip.compress(text.encode("ascii"), 6, mtime=0)).decode("ascii")


@dataclass(frozen=True)
class Page:
    """A page that was built.

    Attributes:
        content: The file.
        episodes: How many it shows.
        tokens: Of all their windows.
    """

    content: bytes
    episodes: int
    tokens: int


def build(title: str, note: str, episodes: Iterable[tuple[str, Episode]], decoder: Decoder | None) -> Page:
    """The page of some episodes.

    Args:
        title: Stands above the list.
        note: What the reader should know of all of them; empty for nothing.
        episodes: Each with the label of its source.
        decoder: Reads their token ids; None where their tokenizer is not to be had.
    """
    blocks, rows = Blocks(), []
    for source, episode in episodes:
        shown = outline(episode)
        for window, record in zip(shown["windows"], texts(episode, decoder), strict=True):
            window["at"] = blocks.add(record)
        rows.append({**row(episode, source), "at": blocks.add(shown)})
    blocks.close()
    index = json.dumps({"title": title, "note": note, "rows": rows}, separators=(",", ":"), allow_nan=False)
    data = "\n".join(
        f'<script type="application/octet-stream" id="{name}">{content}</script>'
        for name, content in [
            *((f"block-{i}", block) for i, block in enumerate(blocks.closed)),
            ("index", packed(index)),
        ]
    )
    before, after = _shell(title)
    content = f"{before}{data}{after}".encode("utf-8", "replace")
    return Page(content, len(rows), sum(entry["length"] for entry in rows))


def _shell(title: str) -> tuple[str, str]:
    """The page around its data."""
    script = "(() => {\n'use strict';\n" + "\n".join(_asset(name) for name in SCRIPTS) + "\n})();\n"
    allowed = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    before, _, after = _asset("template.html").partition(DATA)
    for name, value in {"title": html.escape(title), "allowed": allowed, "style": _asset("viewer.css")}.items():
        before = before.replace("{{" + name + "}}", value)
    return before, after.replace("{{script}}", script)


def _asset(name: str) -> str:
    return (files("eval.viewer") / name).read_text(encoding="utf-8")
