"""``precision: auto`` measures, says what it found, and a resumed run keeps it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from recipe import precision as precision_module
from recipe.config import PolicyArguments
from recipe.precision import Precision, apply_precision, choose_precision, measured_seconds
from summarization.resolve import UserError
from tests.recipe.worlds import settings, small_policy


@pytest.mark.parametrize(("fp32", "bf16", "wanted"), [(1.0, 0.5, True), (1.0, 0.95, False), (1.0, 3.0, False)])
def test_auto_takes_what_is_clearly_faster_and_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fp32: float, bf16: float, wanted: bool
) -> None:
    monkeypatch.setattr(precision_module, "measured_seconds", lambda _model, _tokens, half: bf16 if half else fp32)
    chosen = choose_precision("auto", small_policy().model, 8, tmp_path / "precision.json")
    assert chosen.bf16 is wanted
    assert f"{fp32:.3f} s in fp32, {bf16:.3f} s under bf16" in chosen.reason
    monkeypatch.setattr(precision_module, "measured_seconds", lambda *_: pytest.fail("was measured again"))
    assert choose_precision("auto", small_policy().model, 8, tmp_path / "precision.json") == chosen


def test_what_is_asked_for_is_taken_without_measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision_module, "measured_seconds", lambda *_: pytest.fail("was measured"))
    for asked in ("fp32", "bf16"):
        chosen = choose_precision(asked, small_policy().model, 8, tmp_path / "none")
        assert chosen.bf16 is (asked == "bf16")
        assert asked in chosen.reason


def test_measuring_runs_both_and_leaves_the_model_as_it_was() -> None:
    model = small_policy().model
    before = {name: value.clone() for name, value in model.named_parameters()}
    assert measured_seconds(model, 16, bf16=False, rounds=1) > 0
    assert measured_seconds(model, 16, bf16=True, rounds=1) > 0
    assert all(torch.equal(value, before[name]) and value.grad is None for name, value in model.named_parameters())


def test_it_reaches_the_trainer(tmp_path: Path) -> None:
    args = settings(tmp_path)
    apply_precision(Precision(True, ""), args)
    assert args.bf16 is True
    assert args.mixed_precision == "bf16"
    apply_precision(Precision(False, ""), args)
    assert args.mixed_precision == "no"


def test_an_unknown_one_is_refused() -> None:
    with pytest.raises(UserError, match=r"precision is 'bf61'.*bf16"):
        PolicyArguments(precision="bf61")
