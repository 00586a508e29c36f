"""Episodes on disk come back as they were, whatever happened to the process that wrote them."""

from __future__ import annotations

import gzip
import json
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollouts.episode import Compaction, Episode, Finish, Status
from rollouts.storage import FORMAT, EpisodeWriter, episode_to_dict, read_about, read_episodes
from summarization.resolve import UserError
from tests.recipe.worlds import random_episode


def episodes() -> list[Episode]:
    plain = [
        random_episode(
            {"row": index, "text": "é ✓ \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")}, 0, 1
        )
        for index in range(4)
    ]
    odd = replace(
        plain[0],
        reward=None,
        status=Status.ENGINE_ERROR,
        error="no power\n",
        acts=("oslo", ""),
        metrics={"x": 1 / 3, "y": 1e-300},
        compactions=(Compaction(0, 9, 3, "ada", 2, True, True, ("a b", "c"), (True, False), 77),),
    )
    cut = replace(plain[1].segments[0].turns[0], finish=Finish.LENGTH, trained=False)
    segment = replace(plain[1].segments[0], turns=(cut, *plain[1].segments[0].turns[1:]), trailing_ids=(5, 6))
    return [*plain, odd, replace(plain[1], segments=(segment,)), replace(plain[2], segments=())]


def written(path: Path) -> list[Episode]:
    made = episodes()
    with EpisodeWriter(path, {"seed": 3}) as writer:
        for episode in made:
            writer.append(episode)
    return made


def test_every_field_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "episodes.jsonl.gz"
    assert written(path) == list(read_episodes(path))
    assert read_about(path)["seed"] == 3
    # Any tool that reads gzip and JSON lines can read it.
    with gzip.open(path, "rt") as file:
        assert "task_id" not in json.loads(next(file))


def test_advantages_come_back_and_their_absence_takes_no_place(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl.gz"
    without = episodes()[0]
    segment = without.segments[0]
    turn = replace(segment.turns[0], advantage=1 / 3)
    first = replace(segment, turns=(turn, *segment.turns[1:]))
    credited = replace(without, segments=(first, *without.segments[1:]))
    with EpisodeWriter(path) as writer:
        writer.append(without)
        writer.append(credited)
    assert list(read_episodes(path)) == [without, credited]
    with gzip.open(path, "rt") as file:
        plain, marked = [json.loads(line)["segments"][0]["turns"][0] for line in list(file)[1:]]
    assert ("advantage" in plain, marked["advantage"]) == (False, 1 / 3)


@pytest.mark.parametrize("lost", [20, 60])
def test_a_torn_file_loses_its_last_episode_alone(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "episodes.jsonl.gz"
    made = written(path)
    path.write_bytes(path.read_bytes()[:-lost])
    with pytest.warns(UserWarning, match="cut off"):
        assert list(read_episodes(path)) == made[:-1]


def test_what_is_no_file_of_episodes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    with pytest.raises(UserError, match="no such file"):
        list(read_episodes(path))
    for content in (b"", b"hello", gzip.compress(b'{"a": 1}\n'), gzip.compress(b"[1]\n")):
        path.write_bytes(content)
        with pytest.raises(UserError, match="no file of episodes"):
            list(read_episodes(path))
    path.write_bytes(gzip.compress(json.dumps({"format": FORMAT, "version": 99}).encode() + b"\n"))
    with pytest.raises(UserError, match="version 99"):
        list(read_episodes(path))
    with pytest.raises(UserError, match="version 99"):
        EpisodeWriter(path)
    path.write_bytes(b"something else")
    with pytest.raises(UserError, match="no file of episodes"):
        EpisodeWriter(path)
    assert path.read_bytes() == b"something else"


@pytest.mark.parametrize("lost", [0, 9, 60])
def test_a_later_process_goes_on_after_what_is_whole(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "episodes.jsonl.gz"
    made = written(path)
    if lost:
        path.write_bytes(path.read_bytes()[:-lost])
    with EpisodeWriter(path, {"seed": 4}) as writer:
        writer.append(made[0])
    assert list(read_episodes(path)) == [*(made[:-1] if lost else made), made[0]]
    assert read_about(path)["seed"] == 3


@pytest.mark.parametrize("at", [0.3, 0.6])
def test_damage_in_the_middle_is_no_cut_end(tmp_path: Path, at: float) -> None:
    """What follows it must be neither passed over in silence nor cut away by the next writer."""
    path = tmp_path / "episodes.jsonl.gz"
    written(path)
    content = bytearray(path.read_bytes())
    content[int(at * len(content))] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"is damaged after byte|is no JSON|is no episode"):
        list(read_episodes(path))
    with pytest.raises(UserError, match="is damaged after byte"):
        EpisodeWriter(path)
    assert path.read_bytes() == bytes(content)


WRONG = [
    {"status": "dreaming"},
    {"segments": 3},
    {"segments": [{"prompt_ids": ["1"], "turns": [], "trailing_ids": []}]},
    {"segments": [{"prompt_ids": [-1], "turns": [], "trailing_ids": []}]},
    {"segments": [{"prompt_ids": [1.5], "turns": [], "trailing_ids": []}]},
    {"segments": [{"turns": []}]},
    {"compactions": [{"segment": "first", "tokens_before": 1, "tokens_after": 1, "summary": ""}]},
    {"reward": "high"},
    {"attempt": "0"},
    {"acts": [1]},
    {"task": []},
    {"metrics": 3},
    {"novelty": 1},
]


@pytest.mark.parametrize("change", WRONG, ids=str)
def test_a_line_that_is_no_episode_is_named(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "episodes.jsonl.gz"
    made = episode_to_dict(episodes()[0])
    about = {"format": FORMAT, "version": 1}
    path.write_bytes(b"".join(gzip.compress(json.dumps(x).encode() + b"\n") for x in (about, made, {**made, **change})))
    found = read_episodes(path)
    assert next(found) == episodes()[0]
    with pytest.raises(UserError, match="line 3 is no episode"):
        next(found)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["cut", "flip", "noise"]), st.binary(min_size=1, max_size=30))
def test_any_broken_file_is_refused_or_loses_its_end(
    tmp_path_factory: pytest.TempPathFactory, at: int, how: str, noise: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "broken.jsonl.gz"
    path.unlink(missing_ok=True)
    made = written(path)
    content = path.read_bytes()
    at %= len(content)
    other = {"cut": b"", "flip": bytes([content[at] ^ 1]) + content[at + 1 :], "noise": noise}[how]
    path.write_bytes(content[:at] + other)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            read = list(read_episodes(path))
        except UserError as error:
            read = []
            said = str(error)
            assert said.startswith(str(path))
    assert read == made[: len(read)]
