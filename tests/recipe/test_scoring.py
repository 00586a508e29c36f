"""Leaving out what has no label, and padding, must change nothing but the work."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from trl.trainer.utils import add_fused_lm_head

from recipe.scoring import IGNORED, score_where_labelled
from tests.recipe.worlds import small_policy

LENGTHS = (5, 9, 1, 12)


def batch() -> dict[str, torch.Tensor]:
    """Rows of several lengths, padded on the right, with a third of the tokens labelled; row 2 has no label."""
    generator = torch.Generator().manual_seed(0)
    width = max(LENGTHS)
    ids = torch.randint(10, 600, (len(LENGTHS), width), generator=generator)
    mask = torch.arange(width)[None] < torch.tensor(LENGTHS)[:, None]
    labelled = (torch.rand(ids.shape, generator=generator) < 0.4) & mask
    labelled[:, 0] = False
    return {
        "input_ids": ids.masked_fill(~mask, 0),
        "attention_mask": mask.long(),
        "labels": ids.masked_fill(~labelled, IGNORED),
    }


def model_with(packed: bool | None, hooks: bool = True) -> Any:
    model = small_policy().model
    add_fused_lm_head(model, outputs=("log_probs", "entropy", "is_top1"))
    if hooks:
        score_where_labelled(model, packed)
    return model


def scored(model: Any, **changes: Any) -> tuple[Any, torch.Tensor]:
    """Outputs, and the gradient of a sum that weighs every position differently."""
    inputs = {**batch(), **changes}
    outputs = model(**inputs, fused_lm_head=True)
    weights = torch.arange(outputs.log_probs.numel()).view(outputs.log_probs.shape) * (
        inputs["labels"][:, 1:] != IGNORED
    )
    (outputs.log_probs * weights).sum().backward()
    return outputs, torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize("packed", [False, True])
def test_it_gives_what_the_whole_forward_gives(packed: bool) -> None:
    whole, whole_gradient = scored(model_with(None, hooks=False))
    ours, gradient = scored(model_with(packed))
    labelled = batch()["labels"][:, 1:] != IGNORED
    assert torch.equal(ours.label_mask, labelled)
    assert ours.log_probs.shape == whole.log_probs.shape
    for name in ("log_probs", "entropy", "is_top1"):
        torch.testing.assert_close(getattr(ours, name)[labelled], getattr(whole, name)[labelled], atol=1e-5, rtol=0)
        assert not getattr(ours, name)[~labelled].any()
    torch.testing.assert_close(ours.loss, whole.loss, atol=1e-5, rtol=0)
    torch.testing.assert_close(gradient, whole_gradient, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("packed", [False, True])
def test_only_labelled_positions_reach_the_head_and_packed_no_padding_is_forwarded(packed: bool) -> None:
    model = model_with(packed)
    seen: dict[str, torch.Size] = {}
    model.model.embed_tokens.register_forward_hook(lambda _m, args, _o: seen.update(forwarded=args[0].shape))
    model.base_model.register_forward_hook(lambda _m, _a, output: seen.update(scored=output.last_hidden_state.shape))
    scored(model)
    assert seen["scored"][:2] == (1, int((batch()["labels"] != IGNORED).sum()))
    assert seen["forwarded"] == ((1, sum(LENGTHS)) if packed else (len(LENGTHS), max(LENGTHS)))


@pytest.mark.parametrize("packed", [False, True])
def test_a_batch_without_labels_has_a_gradient_of_zero(packed: bool) -> None:
    outputs, gradient = scored(model_with(packed), labels=torch.full_like(batch()["labels"], IGNORED))
    assert not outputs.log_probs.any()
    assert len(gradient)
    assert not gradient.any()


def test_rows_laid_end_to_end_do_not_see_each_other() -> None:
    changed = batch()
    changed["input_ids"][0, :5] = torch.arange(20, 25)
    before, _ = scored(model_with(True))
    after, _ = scored(model_with(True), input_ids=changed["input_ids"])
    torch.testing.assert_close(before.log_probs[1:], after.log_probs[1:], atol=1e-6, rtol=0)


def test_sampling_is_left_as_it_was() -> None:
    inputs = batch()
    plain, hooked = model_with(None, hooks=False), model_with(True)
    scored(hooked)
    for attention_mask in (None, inputs["attention_mask"]):
        ours = hooked(input_ids=inputs["input_ids"], attention_mask=attention_mask).logits
        assert torch.equal(ours, plain(input_ids=inputs["input_ids"], attention_mask=attention_mask).logits)
