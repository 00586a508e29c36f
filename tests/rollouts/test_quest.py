"""``quest``: every world can be solved by who sees only what was shown, and by nobody who forgets or tries his luck."""

from __future__ import annotations

import itertools
import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollouts.collect import collect
from rollouts.engine import SampleRequest
from rollouts.engines.scripted import ScriptedEngine
from rollouts.environments.quest import Quest, tasks, words_of_act
from rollouts.environments.quest_lexicon import COLOURS, DOORS, GUARDS, THINGS, quest_words
from rollouts.environments.quest_oracle import (
    GIVE_UP,
    Oracle,
    careless_summary,
    expert_summary,
    statements,
    window_act,
)
from rollouts.environments.quest_world import KINDS, Gate, World, draw_world
from rollouts.environments.recall import SPLITS
from rollouts.episode import Episode, Status, TurnKind
from rollouts.jobs import environment_maker, jobs
from rollouts.policies.tiny import tiny_tokenizer, words
from rollouts.rendering import Renderer
from rollouts.runner import Limits
from summarization.metrics import retention
from summarization.prompts import TINY
from summarization.resolve import UserError
from summarization.strategies import SelfSummary

RENDERER = Renderer(tiny_tokenizer("quest"))
NEEDS_NOTES = ("doors", "gifts")


def row(**changes: Any) -> dict[str, Any]:
    return {"seed": 5, "split": "train", "kind": "doors", "rooms": 40, **changes}


def opened(task: dict[str, Any], **options: Any) -> tuple[Quest, str]:
    """An environment, and its first view."""
    environment = Quest(**options)
    environment.reset(task)
    return environment, environment.advance(None).messages[0].content


def solved(task: dict[str, Any], **options: Any) -> tuple[Quest, list[str]]:
    """Played to its end by the oracle, and all that was shown."""
    environment, oracle = Quest(**options), Oracle()
    shown = [message.content for message in environment.reset(task).messages]
    observation = environment.advance(None)
    for text in shown:
        oracle.see(text)
    while not observation.done:
        shown.append(observation.messages[0].content)
        oracle.see(shown[-1])
        observation = environment.advance(oracle.act())
    return environment, shown


def do(environment: Quest, *acts: str) -> str:
    """The view after some acts."""
    text = ""
    for act in acts:
        text = environment.advance(act).messages[0].content
    return text


def world(*gates: Gate, rooms: int = 12, clutter: float = 0.0) -> World:
    """A straight line of rooms to the north."""
    cells = tuple((0, y) for y in range(rooms))
    return World(0, cells, tuple(range(-1, rooms - 1)), gates, clutter, 2)


def placed(given_world: World, **options: Any) -> Quest:
    """An environment that was reset and then put into a world."""
    environment, _ = opened(row(), **options)
    environment.world = given_world
    environment._lying.clear()
    environment.read.clear()
    return environment


LION = Gate("door", "lion", "red", room=4, way="north", note=1, thing=3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", ["corridor", "maze"])
@pytest.mark.parametrize("style", ["tiny", "prose"])
@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**40), rooms=st.integers(16, 90), gates=st.integers(1, 4), hands=st.integers(1, 2))
def test_the_oracle_solves_every_quest(
    kind: str, layout: str, style: str, seed: int, rooms: int, gates: int, hands: int
) -> None:
    task = row(kind=kind, seed=seed, rooms=rooms, split="test")
    environment, _ = solved(task, layout=layout, style=style, gates=gates, hands=hands)
    assert environment.reward() == 1.0
    assert environment.metrics()["success"] == 1.0
    assert environment.metrics()["invalid_acts"] == 0


@pytest.mark.parametrize("rooms", [10, 100, 10_000])
@pytest.mark.parametrize("layout", ["corridor", "maze"])
def test_worlds_of_every_size(rooms: int, layout: str) -> None:
    environment, _ = solved(row(rooms=rooms, kind="gifts"), layout=layout, gates=2)
    assert environment.metrics()["success"] == 1.0
    assert environment.metrics()["rooms_seen"] >= rooms * 0.9
    assert len(set(environment.world.cells)) == rooms
    assert all(0 <= number < 100 for cell in environment.world.cells for number in cell)


def test_a_corridor_is_one_line_and_a_maze_branches() -> None:
    for seed in range(20):
        line, tree = (
            draw_world(seed, "train", "doors", 60, layout, 3, 0.3, 3).parents for layout in ("corridor", "maze")
        )
        assert line == tuple(range(-1, 59))
        assert sum(parent != index - 1 for index, parent in enumerate(tree)) > 3


def test_a_row_gives_the_same_world_every_time() -> None:
    assert solved(row(kind="mixed"))[1] == solved(row(kind="mixed"))[1]
    assert solved(row(kind="mixed"))[1] != solved(row(kind="mixed", seed=6))[1]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_needed_lies_in_its_order(kind: str) -> None:
    for task in tasks("eval", 60, (12, 200), [kind]):
        gates = opened(task)[0].world.gates
        for gate, before in zip(gates, (None, *gates), strict=False):
            assert gate.thing <= gate.room
            assert gate.kind == "fetch" or gate.note < gate.thing
            assert before is None or gate.kind == "fetch" or before.room < gate.thing
        assert len({gate.value for gate in gates}) == len({gate.name for gate in gates}) == 3


def test_notes_lie_many_turns_back() -> None:
    gaps = [
        gate.thing - gate.note for task in tasks("train", 100, 100, ["doors"]) for gate in opened(task)[0].world.gates
    ]
    assert sum(gaps) / len(gaps) > 15


def test_beside_what_is_needed_lies_what_is_not() -> None:
    for task in tasks("train", 40, 60, ["doors"]):
        environment, _ = opened(task, choices=3)
        for gate in environment.world.gates:
            lying = environment.world.things(gate.thing)
            assert gate.value in lying
            assert len(COLOURS) > len([thing for thing in lying if thing in COLOURS]) >= 4
        everywhere = [thing for room in range(60) for thing in environment.world.things(room)]
        assert all(everywhere.count(gate.value) == 1 for gate in environment.world.gates)


def test_splits_share_no_fact() -> None:
    asked = {
        split: {
            (gate.name, gate.value)
            for task in tasks(split, 150, 20, ["doors", "gifts", "fetch"])
            for gate in opened(task)[0].world.gates
        }
        for split in SPLITS
    }
    assert all(len(facts) > 100 for facts in asked.values())
    for one, other in itertools.combinations(SPLITS, 2):
        assert not asked[one] & asked[other]


def test_a_row_depends_on_its_index_alone() -> None:
    assert list(tasks("eval", 3, (20, 90), ["doors"], 4)) == list(tasks("eval", 9, (20, 90), ["doors"], 4))[:3]
    assert list(tasks("eval", 3, 20, ["doors"], 4)) != list(tasks("eval", 3, 20, ["doors"], 5))
    assert [task["kind"] for task in tasks("train", 3, 20, ["gifts", "fetch"])] == ["gifts", "fetch", "gifts"]


def test_a_door_opens_with_its_key_alone() -> None:
    environment = placed(world(LION))
    assert "note lion red ." in do(environment, "go north")
    assert "red" in do(environment, "go north", "go north")
    assert "hold red ." in do(environment, "take red")
    assert "door lion north . hold red . exits south ." in do(environment, "go north")
    assert environment.advance("unlock lion red .").done
    assert environment.reward() == 1.0


def test_a_wrong_key_breaks_and_a_wrong_gift_offends() -> None:
    mila = Gate("gift", "amos", "bell", room=4, way="north", note=1, thing=3)
    for gate, verb in ((LION, "unlock lion"), (mila, "give amos")):
        environment = placed(world(gate))
        do(environment, *["go north"] * 3)
        wrong = next(thing for thing in environment.world.things(3) if thing != gate.value)
        do(environment, f"take {wrong}", "go north")
        assert environment.advance(f"{verb} {wrong}").done
        assert environment.reward() == 0.0
        assert environment.metrics()["spoiled"] == 1.0
        with pytest.raises(RuntimeError, match="over"):
            environment.advance("look")


def test_a_guard_asks_for_what_was_seen_long_before() -> None:
    environment = placed(world(Gate("fetch", "amos", "bell", room=4, way="north", note=4, thing=1)))
    assert environment.needed() == []
    assert "guard amos north . says amos bell ." in do(environment, *["go north"] * 4)
    assert environment.needed() == ["amos bell"]
    do(environment, *["go south"] * 3, "take bell", *["go north"] * 3)
    assert environment.advance("give the bell to Amos").done
    assert environment.reward() == 1.0


def test_gates_open_count_one_by_one() -> None:
    second = Gate("door", "wolf", "blue", room=8, way="north", note=2, thing=6)
    environment = placed(world(LION, second))
    view = do(environment, *["go north"] * 3, "take red", "go north", "unlock lion red")
    assert "exits north south ." in view
    assert environment.reward() == 0.5
    assert environment.keep() == "left wolf"
    assert environment.needed() == ["wolf blue"]
    assert environment.advance("give up").done
    assert (environment.metrics()["gave_up"], environment.reward()) == (1.0, 0.5)


@pytest.mark.parametrize(
    "act",
    [
        "",
        "\n",
        "go",
        "go up",
        "go south",
        "take lion",
        "take",
        "drop red",
        "unlock lion red",
        "give lion red",
        "go north north",
        "unlock",
        "<end>",
        "\x00 \ud800",
    ],
)
def test_what_cannot_be_done_is_counted_and_changes_nothing(act: str) -> None:
    environment = placed(world(LION))
    before = environment.view()
    assert do(environment, act) == f"no . {before}"
    assert environment.metrics()["invalid_acts"] == 1
    assert environment.metrics()["moves"] == 0


def test_invalid_at_the_door() -> None:
    environment = placed(world(LION))
    assert do(environment, *["go north"] * 4).startswith("at 0 4")
    for act in ("go north", "unlock lion red", "unlock wolf red", "unlock lion", "give lion red"):
        assert do(environment, act).startswith("no . at 0 4")
    assert environment.metrics()["invalid_acts"] == 5


@pytest.mark.parametrize(
    ("act", "words_"),
    [
        ("go north .", ("go", "north")),
        ("I think I should.\n  Unlock the LION door with the red key!  \n", ("unlock", "lion", "red")),
        ("Give the bell to Amos.", ("give", "bell", "amos")),
        ("...", ()),
    ],
)
def test_acts_are_read_as_people_write_them(act: str, words_: tuple[str, ...]) -> None:
    assert words_of_act(act) == words_


def test_hands_hold_so_many_things() -> None:
    environment = placed(world(LION), hands=1)
    do(environment, *["go north"] * 3)
    first, second, *_ = environment.world.things(3)
    do(environment, f"take {first}")
    assert do(environment, f"take {second}").startswith("no .")
    view = do(environment, f"drop {first}", f"take {second}")
    assert f"hold {second} ." in view
    assert first in view
    assert environment.metrics()["invalid_acts"] == 1


def test_repeated_acts_are_those_done_before_where_nothing_has_changed() -> None:
    environment = placed(world(LION))
    do(environment, "go north", "look", "look", "go south", "go north")
    assert environment.metrics()["repeated_acts"] == 1
    do(environment, "go south", "go north", "go south")
    assert environment.metrics()["repeated_acts"] == 4


def test_who_only_wanders_is_stopped() -> None:
    environment, _ = opened(row(rooms=12))
    acts = itertools.takewhile(lambda _: not environment.advance("look").done, itertools.count())
    assert sum(1 for _ in acts) + 1 == environment.most_acts == environment.acts
    assert environment.metrics()["out_of_acts"] == 1.0
    assert environment.reward() == 0.0


def test_clutter_is_there_as_often_as_asked() -> None:
    def notes(share: float) -> int:
        worlds = [opened(task, clutter=share)[0].world for task in tasks("train", 10, 100, ["doors"])]
        return sum(len(world.notes(room)) for world in worlds for room in range(100))

    assert notes(0.0) == 30
    assert 430 < notes(0.5) - 30 < 570


def test_the_words_are_a_closed_vocabulary() -> None:
    vocabulary = quest_words()
    assert len(vocabulary) == len(set(vocabulary)) < 300
    assert sum(map(len, (DOORS, COLOURS, GUARDS, THINGS))) == len({*DOORS, *COLOURS, *GUARDS, *THINGS}) == 136
    known = {*vocabulary}
    for layout, task in itertools.product(("corridor", "maze"), tasks("train", 8, 60, KINDS)):
        for text in solved(task, layout=layout)[1]:
            assert not {*text.split()} - known


def test_each_lexicon_is_a_vocabulary_of_its_own() -> None:
    assert len(words("recall")) == 640
    assert words() == words("recall")
    assert words("quest")[1:] == quest_words()
    assert len(tiny_tokenizer("quest")) < len(tiny_tokenizer())
    with pytest.raises(UserError, match="did you mean 'quest'"):
        words("qest")


def test_no_word_of_a_view_can_be_mistaken_for_a_fact() -> None:
    for task in tasks("train", 20, 60, ["doors", "gifts"]):
        environment, shown = solved(task, clutter=0.0)
        facts = {gate.name: gate.value for gate in environment.world.gates}
        assert statements(" ".join(shown)) == facts


def played(
    kind: str, writer: str, count: int = 6, budget: int = 10, **options: Any
) -> tuple[list[Episode], list[Quest]]:
    """Episodes of who acts and summarizes from windows of 200 tokens alone."""
    made: list[Quest] = []
    carried: dict[str, str] = {}

    def reply(request: SampleRequest) -> str:
        context = RENDERER.decode(request.token_ids)
        episode = request.session.rpartition("/")[0]
        if request.kind is TurnKind.ACT:
            return window_act(context)
        if writer == "expert":
            return expert_summary(context, request.max_tokens)
        carried[episode] = careless_summary(context, request.max_tokens, carried.get(episode, ""))
        return carried[episode]

    def make() -> Quest:
        made.append(Quest(**options))
        return made[-1]

    rows = list(tasks("eval", count, 60, [kind]))
    strategy = SelfSummary(summary_tokens=budget, style=TINY)
    engine = ScriptedEngine(reply, RENDERER)
    limits = Limits(window=200, act_tokens=6)
    return collect(jobs(rows, make, strategy, 0), {"policy": engine}, RENDERER, limits), made


@pytest.mark.parametrize("kind", NEEDS_NOTES)
def test_who_summarizes_well_succeeds_and_who_does_not_fails(kind: str) -> None:
    experts, _ = played(kind, "expert")
    careless, _ = played(kind, "careless")
    for episodes in (experts, careless):
        assert {episode.status for episode in episodes} == {Status.FINISHED}
        assert all(len(episode.compactions) >= 1 for episode in episodes)
    assert [episode.reward for episode in experts] == [1.0] * 6
    assert all(len(episode.compactions) >= 6 for episode in experts)
    assert sum(episode.reward or 0.0 for episode in careless) < 4
    kept = [retention(episode.compactions) for episode in experts]
    assert {share for share in kept if share is not None} == {1.0}
    assert min(share for e in careless if (share := retention(e.compactions)) is not None) < 1.0


def test_every_sampled_and_shown_word_is_known() -> None:
    unknown = RENDERER.tokenizer.unk_token_id
    for kind, writer in itertools.product(("doors", "gifts"), ("expert", "careless")):
        for episode in played(kind, writer, 2)[0]:
            for segment in episode.segments:
                assert unknown not in (*segment.prompt_ids, *segment.completion_ids)


def test_the_oracle_gives_up_where_it_has_forgotten() -> None:
    context = "quest lion . summary : lion unknown . at 0 4 . door lion north . hold none . exits south ."
    assert window_act(context) == GIVE_UP
    assert window_act(context.replace("unknown", "red").replace("hold none", "hold red")) == "unlock lion red ."
    assert window_act("quest lion . at 0 4 . here blue red . hold none . exits north south .") == "go north ."
    assert window_act("quest lion . lion red . at 0 4 . here blue red . hold none . exits north .") == "take red ."
    with pytest.raises(ValueError, match="no view"):
        window_act("quest lion .")


WINDOW = (
    "quest lion amos . note wolf blue . note lion red . note lion green . summarize in 10 tokens : quest lion amos ."
)


def test_summaries() -> None:
    assert expert_summary(WINDOW, 10) == "lion green . amos unknown . wolf blue ."
    assert expert_summary(WINDOW, 7) == "lion green . amos unknown ."
    assert careless_summary(WINDOW, 4) == "lion green ."
    assert careless_summary(WINDOW, 4, "wolf pink .") == "wolf blue ."
    assert careless_summary(WINDOW, 10, "toad pink . none .") == "toad pink . lion green . wolf blue ."
    assert careless_summary("at 0 0 .", 4) == "none ."


@settings(deadline=None)
@given(budget=st.integers(2, 40), seed=st.integers(0, 99))
def test_summaries_fit_their_budget(budget: int, seed: int) -> None:
    rng = random.Random(seed)
    notes = " ".join(f"note {rng.choice(DOORS)} {rng.choice(COLOURS)} ." for _ in range(12))
    request = f" summarize in {budget} tokens : quest lion wolf ."
    for text in (expert_summary(notes + request, budget), careless_summary(notes + request, budget, "lion red .")):
        assert len(RENDERER.content_ids(text)) + 1 <= max(budget, 3)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seed": None}, "no column 'seed'"),
        ({"rooms": 9}, "from 10 to 10000"),
        ({"rooms": 10_001}, "from 10 to 10000"),
        ({"rooms": True}, "column 'rooms' is True"),
        ({"seed": -1}, "of at least 0"),
        ({"split": "trian"}, "did you mean 'train'"),
        ({"kind": "door"}, "did you mean 'doors'"),
    ],
)
def test_a_bad_row_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        opened(row(**changes))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"style": "prosa"}, "did you mean 'prose'"),
        ({"layout": "mace"}, "did you mean 'maze'"),
        ({"gates": 0}, "gates is 0"),
        ({"gates": 13}, "from 1 to 12"),
        ({"hands": 1.5}, "hands is 1.5"),
        ({"clutter": 2}, "clutter is 2"),
        ({"clutter": "x"}, "clutter is 'x'"),
        ({"gates": 11}, "a world of 40 rooms has at most 10"),
    ],
)
def test_bad_settings_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        opened(row(), **options)


def test_tasks_refuse_what_no_world_has() -> None:
    for arguments in (("trian", 1, 20, ["doors"]), ("train", 1, 5, ["doors"]), ("train", 1, 20, ["x"])):
        with pytest.raises(UserError):
            list(tasks(*arguments))


def test_it_is_named_in_a_yaml() -> None:
    assert isinstance(environment_maker("quest", {"gates": 2})(), Quest)
