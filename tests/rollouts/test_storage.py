"""Episodes on disk come back as they were, whatever happened to the process that wrote them."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from rollouts.episode import Compaction, Episode, Finish, Status
from rollouts.storage import FORMAT, EpisodeWriter, read_about, read_episodes
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
