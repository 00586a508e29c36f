"""The carriers and their invariants."""

from __future__ import annotations

import pytest

from rollouts.episode import Segment, Turn, TurnKind

ACT = Turn((1, 2), (3, 4), (-0.1, -0.2), TurnKind.ACT)
FOREIGN = Turn((5,), (6,), (-0.3,), TurnKind.ACT, trained=False)
SUMMARY = Turn((), (7,), (-0.4,), TurnKind.SUMMARY)


def test_a_segment_is_its_training_row() -> None:
    segment = Segment((9, 9), (ACT, FOREIGN, SUMMARY), trailing_ids=(8,))
    assert segment.completion_ids == (1, 2, 3, 4, 5, 6, 7)
    assert segment.loss_mask == (0, 0, 1, 1, 0, 0, 1)
    assert segment.logprobs == (0.0, 0.0, -0.1, -0.2, 0.0, -0.3, -0.4)
    assert segment.kinds == (None, None, TurnKind.ACT, TurnKind.ACT, None, TurnKind.ACT, TurnKind.SUMMARY)
    assert segment.sampled_tokens == sum(segment.loss_mask) == 3
    assert segment.length == 10


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="2 log-probabilities for 1"):
        Turn((), (1,), (0.0, 0.0), TurnKind.ACT)
    with pytest.raises(ValueError, match="ends its segment"):
        Segment((1,), (SUMMARY, ACT))
