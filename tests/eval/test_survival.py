"""Which compaction lost a fact, and how many facts survive how many compactions."""

from __future__ import annotations

from eval.survival import losses, survival
from rollouts.episode import Compaction, Episode, Status


def chain(*kept: str) -> tuple[Compaction, ...]:
    """Compactions that each needed facts a and b, and kept those named."""
    return tuple(
        Compaction(
            segment=index,
            tokens_before=90,
            tokens_after=20,
            summary=held,
            needed=("a", "b"),
            kept=("a" in held, "b" in held),
        )
        for index, held in enumerate(kept)
    )


def episode(compactions: tuple[Compaction, ...]) -> Episode:
    return Episode({}, "t", 0, (), compactions, 0.0, Status.FINISHED)


def test_the_compaction_that_lost_a_fact_is_named_with_what_stood_before() -> None:
    (loss,) = losses(episode(chain("a b", "a b", "a", "a")))
    assert (loss.fact, loss.compaction, loss.compactions, loss.before, loss.after) == ("b", 3, 4, "a b", "a")


def test_a_fact_that_was_never_kept_was_lost_at_once_and_one_that_came_back_counts_where_it_went_last() -> None:
    never, back = losses(episode(chain("a", "", "a", "")))[::-1]
    assert (never.fact, never.compaction, never.before) == ("b", 1, "")
    assert (back.fact, back.compaction, back.before) == ("a", 4, "a")


def test_nothing_lost() -> None:
    assert losses(episode(chain("a b"))) == []
    assert losses(episode(())) == []


def test_survival_by_number_of_compactions() -> None:
    first, second, third = survival([chain("a b", "a b", "a", "a"), chain("a")])
    assert (first.first, first.last, first.held, first.total, first.surviving) == (1, 1, 3, 4, 3 / 4)
    assert (second.first, second.last, second.held, second.total, second.surviving) == (2, 3, 3, 4, 3 / 4)
    assert (third.first, third.last, third.held, third.total, third.surviving) == (4, 7, 1, 1, 1 / 2)


def test_no_compaction_no_curve() -> None:
    assert survival([(), ()]) == []
