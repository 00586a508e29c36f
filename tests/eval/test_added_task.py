"""Adding a task is one file: the one that the documentation shows works as it stands there."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

from eval.reading import Reading, replayed
from eval.run import main
from tests.eval.tasks.samples import words
from tests.eval.test_run import config, report

DOCS = Path(__file__).parents[2] / "docs"


def shown() -> str:
    """The one piece of Python in the documentation that defines a task."""
    blocks = [
        block
        for page in sorted(DOCS.glob("*.md"))
        for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    ]
    (found,) = [block for block in blocks if re.search(r"^class \w+\(Task\)", block, re.MULTILINE)]
    return found


@pytest.fixture
def name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The import path of the task, in a file of a user's own."""
    text = shown()
    (tmp_path / "my_own_task.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_own_task", raising=False)
    importlib.invalidate_caches()
    (kind,) = re.findall(r"^class (\w+)\(Task\)", text, re.MULTILINE)
    return f"my_own_task:{kind}"


def test_it_is_about_fifty_lines() -> None:
    assert len(shown().splitlines()) <= 55


@pytest.mark.parametrize("tokens", [300, 5000])
def test_it_reads_needs_and_scores(name: str, tokens: int) -> None:
    for seed in range(5):
        row = {"task": name, "seed": seed, "tokens": tokens}
        reading = Reading(words)
        reading.reset(row)
        read = []
        while not (observation := reading.advance(None)).needs_act:
            read += [message.content for message in observation.messages]
        text = "\n".join(read)
        assert abs(words(text) / tokens - 1) <= 0.02
        answers, needed = reading.task.answers(), reading.needed()
        assert needed
        assert all(fact in text for fact in needed)
        right = replayed(Reading(words), row, f"It is {' '.join(answers)}.")
        assert (right["official"], right["strict"]) == (1.0, 1.0)
        wrong = replayed(Reading(words), row, "nothing at all")
        assert (wrong["official"], wrong["strict"]) == (0.0, 0.0)


def test_a_run_takes_it_by_its_import_path(name: str, tmp_path: Path) -> None:
    plan = config(tmp_path, tasks=[name], lengths=[300], strategies=["oracle_summary"], window=256)
    assert main(["--config", plan]) == 0
    (cell,) = report(tmp_path)["cells"]
    assert (cell["task"], cell["n"], cell["clusters"]) == (name, 2, 2)
    assert cell["retention"] == 1.0
