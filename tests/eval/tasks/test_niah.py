"""Needles: lengths, twins, corrections, what is needed, and both scores on answers worked out by hand."""

from __future__ import annotations

from itertools import islice

import pytest

from eval.tasks.base import Ask, Count
from eval.tasks.niah import (
    Needles,
    NiahMultikey1,
    NiahMultikey2,
    NiahMultikey3,
    NiahMultiquery,
    NiahMultivalue,
    NiahSingle1,
    NiahSingle2,
    NiahSingle3,
)
from summarization.metrics import held
from summarization.resolve import UserError
from tests.eval.tasks.samples import quarters, words

ALL = [
    NiahSingle1,
    NiahSingle2,
    NiahSingle3,
    NiahMultikey1,
    NiahMultikey2,
    NiahMultikey3,
    NiahMultivalue,
    NiahMultiquery,
]
SINGLE_VALUED = [kind for kind in ALL if kind is not NiahMultivalue]


def made(kind: type[Needles], seed: int = 0, tokens: int = 2000, count: Count = words, **options: bool) -> Needles:
    return kind(Ask(seed, tokens, count, options))


def needles(pieces: list[str]) -> list[str]:
    return [line for piece in pieces for line in piece.split("\n") if "special magic" in line]


def test_the_parameters_are_rulers() -> None:
    assert {
        kind.name: (kind.hay, kind.key_kind, kind.value_kind, kind.keys, kind.values, kind.asked) for kind in ALL
    } == {
        "niah_single_1": ("noise", "word", "number", 1, 1, 1),
        "niah_single_2": ("prose", "word", "number", 1, 1, 1),
        "niah_single_3": ("prose", "word", "uuid", 1, 1, 1),
        "niah_multikey_1": ("prose", "word", "number", 4, 1, 1),
        "niah_multikey_2": ("needles", "word", "number", 1, 1, 1),
        "niah_multikey_3": ("needles", "uuid", "uuid", 1, 1, 1),
        "niah_multivalue": ("prose", "word", "number", 1, 4, 1),
        "niah_multiquery": ("prose", "word", "number", 4, 1, 4),
    }


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("count", [words, quarters])
@pytest.mark.parametrize("tokens", [1000, 8000, 100_000])
def test_length_and_content(kind: type[Needles], count: Count, tokens: int) -> None:
    task = made(kind, tokens=tokens, count=count)
    pieces = list(task.pieces())
    assert abs(sum(map(count, pieces)) / tokens - 1) <= 0.02
    text = "\n".join(pieces)
    assert all(text.count(answer) == 1 for answer in task.answers())
    assert set(task.needed()) == set(task.answers())
    assert all(held(fact, text) for fact in task.needed())
    assert task.scores(", ".join(task.answers())) == {"official": 1.0, "strict": 1.0}
    assert len(task.answers()) == kind.values * kind.asked


@pytest.mark.slow
@pytest.mark.parametrize("kind", ALL)
def test_a_million_tokens(kind: type[Needles]) -> None:
    assert abs(sum(map(quarters, made(kind, tokens=1_000_000, count=quarters).pieces())) / 1_000_000 - 1) <= 0.02


@pytest.mark.parametrize("kind", ALL)
def test_ten_million_tokens_begin_at_once(kind: type[Needles]) -> None:
    assert len(list(islice(made(kind, tokens=10_000_000).pieces(), 50))) == 50


@pytest.mark.parametrize("kind", ALL)
def test_a_sample_follows_from_its_seed(kind: type[Needles]) -> None:
    assert list(made(kind, 1).pieces()) == list(made(kind, 1).pieces())
    assert made(kind, 1).question == made(kind, 1).question
    assert list(made(kind, 1).pieces()) != list(made(kind, 2).pieces())
    assert len({made(kind, seed).answers() for seed in range(20)}) == 20


def test_needles_stand_everywhere() -> None:
    """No place of the text is without an answer, over many samples."""
    places = []
    for seed in range(200):
        task = made(NiahMultikey2, seed, tokens=1000)
        text = " ".join(task.pieces())
        places.append(text.index(task.answers()[0]) / len(text))
    assert all(any(low / 10 <= place < (low + 1) / 10 for place in places) for low in range(10))
    assert 0.4 < sum(places) / len(places) < 0.6


@pytest.mark.parametrize("kind", ALL)
def test_the_absent_twin_lacks_what_is_asked_for_and_nothing_else(kind: type[Needles]) -> None:
    full, twin = made(kind, may_abstain=True), made(kind, may_abstain=True, absent=True)
    assert (full.question, full.answer_prefix, full.system) == (twin.question, twin.answer_prefix, twin.system)
    lines, twins = needles(list(full.pieces())), needles(list(twin.pieces()))
    gone = [line for line in lines if any(answer in line for answer in full.answers())]
    assert len(gone) == len(full.answers())
    left = [line for line in lines if line not in gone]
    # What the needles leave is filled, and the last line of filler may be cut.
    assert twins[: len(left) - 1] == left[: len(left) - 1]
    assert not any(answer in line for line in twins for answer in full.answers())
    assert (list(twin.needed()), list(twin.answers())) == ([], ["unknown"])
    assert abs(sum(map(words, made(kind, absent=True).pieces())) / 2000 - 1) <= 0.02


@pytest.mark.parametrize("kind", SINGLE_VALUED)
def test_a_contradicted_value_comes_first_and_is_needed_until_it_is_corrected(kind: type[Needles]) -> None:
    for seed in range(5):
        task = made(kind, seed, contradicted=True)
        assert task.answers() == made(kind, seed).answers()
        stated: list[str] = []
        for piece in task.pieces():
            stated += [line for line in needles([piece]) if any(key in line for key in task._keys)]
            for key in task._keys:
                about = [line for line in stated if f"for {key} is" in line]
                if about:
                    last = about[-1].rstrip(".").split()[-1]
                    assert last in task.needed()
        assert len(stated) == 2 * kind.asked
        assert sum("correction" in line for line in stated) == kind.asked
        assert sorted(task.needed()) == sorted(task.answers())
        outdated = [line.rstrip(".").split()[-1] for line in stated if "correction" not in line]
        assert not set(outdated) & set(task.answers())
        answer = ", ".join(task.answers())
        assert task.scores(answer) == {"official": 1.0, "strict": 1.0}
        assert task.scores(f"{answer}; earlier it was {outdated[0]}") == {"official": 1.0, "strict": 0.0}
        assert task.scores(outdated[0]) == {"official": 0.0, "strict": 0.0}


def test_scores_worked_out_by_hand() -> None:
    task = made(NiahMultivalue)
    first, second, third, fourth = task.answers()
    for answer, official, strict in (
        (f"{first}, {second}, {third} and {fourth}", 1.0, 1.0),
        (f"{int(first):,} and {second}", 0.25, 0.5),
        (f"{first}{second}", 0.5, 0.0),
        (f"{first} {second} {third} {fourth} 1111111", 1.0, 0.0),
        (" ".join(task.pieces()), 1.0, 1.0),  # No other number stands in the text.
        ("unknown", 0.0, 0.0),
        ("", 0.0, 0.0),
    ):
        assert task.scores(answer) == {"official": official, "strict": strict}


@pytest.mark.parametrize("kind", [NiahMultikey1, NiahMultikey2, NiahMultikey3])
def test_a_dump_of_the_text_pleases_the_official_score_only(kind: type[Needles]) -> None:
    task = made(kind)
    assert task.scores(" ".join(task.pieces())) == {"official": 1.0, "strict": 0.0}


def test_the_key_may_be_repeated_even_where_it_looks_like_an_answer() -> None:
    task = made(NiahMultikey3)
    (value,) = task.answers()
    assert task.scores(f"{task.answer_prefix} {value}.") == {"official": 1.0, "strict": 1.0}
    absent = made(NiahMultikey3, absent=True)
    assert absent.scores(f"{absent.answer_prefix} not mentioned.") == {"official": 1.0, "strict": 1.0}


@pytest.mark.parametrize("kind", ALL)
def test_scores_of_the_absent_twin(kind: type[Needles]) -> None:
    task = made(kind, absent=True)
    guess = made(kind).answers()[0]
    for answer, official, strict in (
        ("unknown", 1.0, 1.0),
        ("The text does not mention it.", 1.0, 1.0),
        ("There is no special magic value of that name, so none.", 0.0, 1.0),
        (guess, 0.0, 0.0),
        (f"unknown, but perhaps {guess}", 1.0, 0.0),
        ("", 0.0, 0.0),
    ):
        assert task.scores(answer) == {"official": official, "strict": strict}


def test_refusals() -> None:
    with pytest.raises(UserError, match=r"niah_multivalue.*contradicted is True"):
        made(NiahMultivalue, contradicted=True)
    with pytest.raises(UserError, match=r"has no option 'absen'.*'absent'"):
        made(NiahSingle1, absen=True)
    with pytest.raises(UserError, match="ask for a longer sample"):
        list(made(NiahMultiquery, tokens=10).pieces())


def test_prose_may_be_the_users_own(tmp_path) -> None:
    path = tmp_path / "own.txt"
    path.write_text("the quick brown fox jumps over the lazy dog again and again")
    text = " ".join(NiahSingle2(Ask(0, 1000, words, haystack=str(path))).pieces())
    assert text.count("brown fox") > 50
