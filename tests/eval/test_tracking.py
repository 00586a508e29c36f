"""What W&B is told, read back from what the real one wrote offline."""

from __future__ import annotations

import json
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from eval.run import main
from tests.eval.test_run import config, report

ONE = {"tasks": ["recall"], "lengths": [300], "strategies": ["self_summary", "no_context"], "report_to": "wandb"}


@pytest.fixture(autouse=True)
def _no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_DIR", "WANDB_PROJECT", "WANDB_RUN_ID"):
        monkeypatch.delenv(name, raising=False)


def records(folder: Path) -> list[Any]:
    """Every record of the W&B runs in a folder. Their files are LevelDB logs of protocol buffers.

    A log is blocks of 32 KiB, the first with a header of 7 bytes. A block holds pieces: checksum (4 bytes), length (2),
    type (1 whole, 2 first, 3 middle, 4 last of a record).
    """
    from wandb.proto import wandb_internal_pb2

    messages: Any = wandb_internal_pb2

    found = []
    for path in sorted(folder.glob("wandb/offline-run-*/run-*.wandb")):
        data, at, parts = path.read_bytes(), 7, b""
        while at + 7 <= len(data):
            if (1 << 15) - at % (1 << 15) < 7:
                at += (1 << 15) - at % (1 << 15)
                continue
            _, length, kind = struct.unpack_from("<IHB", data, at)
            if at + 7 + length > len(data):
                break  # still being written
            parts += data[at + 7 : at + 7 + length]
            at += 7 + length
            if kind in (1, 4):
                record = messages.Record()
                record.ParseFromString(parts)
                found.append(record)
                parts = b""
    return found


def finished(folder: Path, starts: int) -> list[Any]:
    """As :func:`records`, once W&B's own process has written out so many ended runs."""
    until = time.monotonic() + 60
    while True:
        found = records(folder)
        if sum(record.WhichOneof("record_type") == "exit" for record in found) == starts:
            return found
        assert time.monotonic() < until, f"only {len(found)} records"
        time.sleep(0.05)


def test_cells_tables_and_report_are_read_back(tmp_path: Path) -> None:
    plan = config(tmp_path, **ONE)
    assert main(["--config", plan]) == 0
    found = finished(tmp_path / "run", 1)
    history: dict[str, Any] = {}
    summary: dict[str, Any] = {}
    for record in found:
        for items, into in ((record.history.item, history), (record.summary.update, summary)):
            for item in items:
                into["/".join(item.nested_key) or item.key] = json.loads(item.value_json)
    score = report(tmp_path)["cells"][0]["score"]
    for strategy in ("self_summary", "no_context"):
        assert history[f"played/recall/both/300/{strategy}"] == score == 0.0
    assert history["cells/nrows"] == 2
    assert history["paired/nrows"] == 1
    assert history["report/_type"] == "html-file"
    forwarded = report(tmp_path)["cells"][0]["tokens_forwarded"]
    assert summary["tokens_forwarded/recall/both/300/self_summary"] == forwarded
    (artifact,) = [r.artifact for r in found if r.artifact.type == "report"]
    names = {entry.path for entry in artifact.manifest.contents}
    assert names == {"report.json", "report.md", "report.html", "report.png"}
    (run,) = [r.run for r in found if r.run.run_id]
    configured = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert configured["window"] == 128
    # Started again, it goes on in the same run.
    assert main(["--config", plan]) == 0
    assert len({r.run.run_id for r in finished(tmp_path / "run", 2) if r.run.run_id}) == 1


def test_a_dry_run_and_a_run_that_does_not_ask_tell_nothing(tmp_path: Path) -> None:
    assert main(["--config", config(tmp_path, **ONE), "--dry_run"]) == 0
    assert not (tmp_path / "run").exists()
    assert main(["--config", config(tmp_path, **{**ONE, "report_to": "none"})]) == 0
    assert not (tmp_path / "run" / "wandb").exists()


def test_disabled_it_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert main(["--config", config(tmp_path, **ONE)]) == 0
    assert report(tmp_path)["cells"][0]["n"] == 2
    assert not list((tmp_path / "run").glob("wandb/*run*"))
