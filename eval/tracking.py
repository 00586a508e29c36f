"""What W&B is told of an evaluation where it is asked for (``report_to: wandb``): cells, tables, and the report.

Without a key it works offline; ``WANDB_MODE`` (``offline``, ``disabled``) and W&B's other variables have the last word.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval.arguments import EvalArguments
from eval.grid import CellKey
from eval.results import Cell
from summarization.resolve import UserError

if TYPE_CHECKING:
    from wandb import Run, Table

REPORT_FILES = ("report.json", "report.md", "report.html", "report.png")
TABLES = ("cells", "paired", "compaction_error")


class Tracker:
    """Logs an evaluation to W&B; does nothing unless it is asked for. A run that is resumed goes on in its W&B run.

    Args:
        arguments: Of the evaluation.
        folder: The run's.

    Raises:
        UserError: W&B cannot be reached, or refuses the key.
    """

    def __init__(self, arguments: EvalArguments, folder: Path) -> None:
        self.arguments, self.folder = arguments, folder
        self._run: Run | None = None

    def __enter__(self) -> Tracker:
        if self.arguments.report_to == "wandb":
            import wandb

            os.environ.setdefault("WANDB_SILENT", "true")
            name = re.sub(r"[^\w.-]", "_", self.folder.name)
            # Without its folder, W&B would go to a temporary one.
            self.folder.mkdir(parents=True, exist_ok=True)
            # W&B reads its variables once a process; given by hand, they count each time.
            mode = os.environ.get("WANDB_MODE") or (None if "WANDB_API_KEY" in os.environ else "offline")
            try:
                self._run = wandb.init(
                    project=os.environ.get("WANDB_PROJECT", "palimpsest"),
                    dir=os.environ.get("WANDB_DIR", str(self.folder)),
                    id=os.environ.get("WANDB_RUN_ID", f"{name}-{zlib.crc32(str(self.folder.resolve()).encode()):08x}"),
                    name=name,
                    job_type="eval",
                    resume="allow",
                    mode=mode,  # pyright: ignore[reportArgumentType]
                    config=asdict(self.arguments),
                )
            except (wandb.Error, ValueError) as error:
                raise UserError(
                    f"report_to is 'wandb': {_line(error)}: set WANDB_MODE=offline, or report_to"
                ) from error
        return self

    def __exit__(self, *failure: object) -> None:
        if self._run is not None:
            self._run.finish(exit_code=int(failure[0] is not None))

    def log(self, key: CellKey, cell: Cell) -> None:
        """A cell that was played."""
        if self._run is not None:
            self._run.log({f"played/{_name(asdict(key))}": cell.success})

    def finish(self, folder: Path) -> None:
        """The report: its figures, its tables, and its files as an artifact."""
        if self._run is None:
            return
        import wandb

        report: dict[str, Any] = loads((folder / "report.json").read_text(encoding="utf-8"))
        for row in report["cells"]:
            for figure in ("score", "official", "retention", "compactions", "tokens_forwarded", "seconds"):
                if row[figure] is not None:
                    self._run.summary[f"{figure}/{_name(row)}"] = row[figure]
        tables = {name: _table(report[name]) for name in TABLES if report[name]}
        self._run.log({**tables, "report": wandb.Html((folder / "report.html").read_text(encoding="utf-8"))})
        artifact = wandb.Artifact(f"{self._run.id}-report", type="report")
        for name in REPORT_FILES:
            artifact.add_file(str(folder / name))
        self._run.log_artifact(artifact)


def _name(row: Mapping[str, Any]) -> str:
    # W&B makes folders of slashes.
    return "/".join(str(row[part]).replace("/", "_") for part in ("task", "asked", "length", "strategy"))


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Rows as W&B's table; what is no number becomes text, and nothing stays nothing, as a column has one type."""
    import wandb

    columns: list[Any] = list(rows[0])
    data: list[Any] = [
        [v if v is None or isinstance(v, int | float) else str(v) for v in (row[c] for c in columns)] for row in rows
    ]
    return wandb.Table(columns, data)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
