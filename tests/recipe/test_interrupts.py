"""What stops a run from outside: signals, and a disk that takes nothing more."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import safetensors.torch
import torch

import recipe.train
from recipe.interrupts import Interrupted, Interrupts, no_room
from rollouts.files import write_atomically
from summarization.resolve import UserError

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_raises_and_is_remembered(number: signal.Signals, code: int) -> None:
    before = signal.getsignal(number)
    with Interrupts() as interrupts:
        assert interrupts.exit_code == 0
        with pytest.raises(Interrupted):
            signal.raise_signal(number)
        assert (interrupts.received, interrupts.exit_code) == ([number], code)
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(
    ("number", "code", "said"), [(signal.SIGINT, 130, "interrupted: "), (signal.SIGTERM, 143, "terminated: ")]
)
@pytest.mark.parametrize("turned_into", [None, RuntimeError("a library's own words")])
def test_it_ends_with_a_sentence_and_a_code(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
    code: int,
    said: str,
    turned_into: Exception | None,
) -> None:
    def stopped(_: object) -> None:
        try:
            signal.raise_signal(number)
        except BaseException as error:
            raise turned_into or error from error

    monkeypatch.setattr(recipe.train, "run", stopped)
    assert recipe.train.main(["--output_dir", "out", "--use_cpu", "--bf16", "false"]) == code
    assert capsys.readouterr().err == f"{said}start the same command again to go on from the last checkpoint\n"


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("seconds", [1.0, 3.0])
def test_also_while_the_libraries_are_imported(
    tmp_path: Path, number: signal.Signals, code: int, seconds: float
) -> None:
    command = [sys.executable, "-m", "recipe.train", "--config", str(ROOT / "configs" / "ci.yaml")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    time.sleep(seconds)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code, said
    assert "Traceback" not in said
    assert "start the same command again" in said


def test_what_data_says_does_not_reach_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(_: object) -> None:
        raise UserError("the row says \x1b[2J\x1b]0;owned\x07 and\nmore")

    monkeypatch.setattr(recipe.train, "run", failing)
    assert recipe.train.main(["--output_dir", "out", "--use_cpu", "--bf16", "false"]) == 2
    said = capsys.readouterr().err
    assert said.endswith("\n")
    assert said[:-1].isprintable()


def test_a_full_disk_is_known_by_what_libraries_say_of_it() -> None:
    assert no_room(OSError(errno.ENOSPC, "No space left on device", "a.json")) == "No space left on device: a.json"
    assert no_room(OSError(errno.EROFS, "Read-only file system")) == "Read-only file system"
    assert no_room(FileNotFoundError(errno.ENOENT, "No such file", "x")) is None
    assert no_room(ValueError("3 is no color")) is None


@contextlib.contextmanager
def small_files(most: int) -> Iterator[None]:
    """Within it, this process may write no file longer than ``most`` bytes: the nearest thing to a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    "save",
    [
        lambda path, tensor: safetensors.torch.save_file({"x": tensor}, path),
        lambda path, tensor: torch.save(tensor, path),
        lambda path, tensor: write_atomically(path, tensor.numpy().tobytes()),
    ],
    ids=["safetensors", "torch", "own"],
)
def test_what_libraries_say_of_a_full_disk_is_understood(tmp_path: Path, save: Callable[[Path, object], None]) -> None:
    path = tmp_path / "weights"
    save(path, torch.ones(3))
    before = path.read_bytes()
    with small_files(1 << 20), pytest.raises(Exception) as full:  # noqa: PT011 -- each has an error of its own
        save(path, torch.ones(1 << 20))
    assert no_room(full.value) is not None
    if save.__code__.co_names[0] == "write_atomically":
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["weights"]


def test_a_full_disk_ends_with_a_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "out/grpo/checkpoint-3/optimizer.pt")

    monkeypatch.setattr(recipe.train, "run", full)
    assert recipe.train.main(["--output_dir", "out", "--use_cpu", "--bf16", "false"]) == 1
    said = capsys.readouterr().err
    assert "No space left on device: out/grpo/checkpoint-3/optimizer.pt" in said
    assert said.count("\n") == 1


def test_other_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(recipe.train, "run", broken)
    with pytest.raises(ZeroDivisionError):
        recipe.train.main(["--output_dir", "out", "--use_cpu", "--bf16", "false"])
