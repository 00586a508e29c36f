"""Episodes of tool calls: what a tool is given and answers, TRL's classes as they are, compaction between turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rollouts.collect import collect, opened
from rollouts.engine import SampleRequest
from rollouts.engines.scripted import ScriptedEngine
from rollouts.episode import Episode, Status, TurnKind
from rollouts.jobs import environment_maker, environment_makers, jobs
from rollouts.rendering import Renderer
from rollouts.runner import Limits
from rollouts.tools import COMPACT, Call
from summarization.prompts import PromptStyle
from summarization.resolve import UserError
from summarization.strategies import NoCompaction, SelfSummary, SlidingWindow, Strategy
from tests.rollouts.tool_worlds import PLAIN_TEMPLATE, TOOL_TEMPLATE, byte_tokenizer

TOOLS, PLAIN = Renderer(byte_tokenizer(TOOL_TEMPLATE)), Renderer(byte_tokenizer(PLAIN_TEMPLATE))
WORLDS = "tests.rollouts.tool_worlds"
STYLE = PromptStyle(
    request="summarize, {budget} tokens: {task}", state="{compactions} so far{keep}", carry="{summary}|{state}"
)
SUMMARY = SelfSummary(40, style=STYLE)


def written(renderer: Renderer, *calls: Call) -> str:
    """The act that makes the calls, as the renderer's policy writes it."""
    return "\n".join(renderer.call_format.write(call) for call in calls)


def page(number: int) -> Call:
    """A call that reads a page."""
    return Call("page", {"number": number})


def played(
    acts: Sequence[str] | Callable[[SampleRequest], str],
    environment: str = "Library",
    renderer: Renderer = TOOLS,
    strategy: Strategy | None = None,
    rows: Sequence[Mapping[str, Any]] = ({"prompt": "go"},),
    **limits: Any,
) -> tuple[list[Episode], ScriptedEngine]:
    """Episodes whose acts are ``acts``, one after the other, then a final answer."""
    counts: dict[str, int] = {}

    def reply(request: SampleRequest) -> str:
        if request.kind is TurnKind.SUMMARY:
            return "a summary"
        if not isinstance(acts, Sequence):
            return acts(request)
        key = request.session.partition("/")[0]
        counts[key] = counts.get(key, 0) + 1
        return acts[counts[key] - 1] if counts[key] <= len(acts) else "that is all"

    engine = ScriptedEngine(reply, renderer)
    made = jobs(rows, environment_maker(f"{WORLDS}:{environment}", {}), strategy or NoCompaction(), 0)
    bounds = Limits(**{"window": 6000, "act_tokens": 300, **limits})
    return collect(made, {"policy": engine}, renderer, bounds), engine


def context(renderer: Renderer, engine: ScriptedEngine) -> str:
    """The last context that was sampled from, as text."""
    return renderer.tokenizer.decode(list(engine.requests[-1].token_ids))  # pyright: ignore[reportReturnType]


@pytest.mark.parametrize("renderer", [TOOLS, PLAIN], ids=["tags", "lines"])
def test_a_trl_class_is_played_as_it_is(renderer: Renderer) -> None:
    act = written(renderer, page(3), Call("ask", {"word": "whales"}), Call("page", {"number": 4, "loud": True}))
    rows = [{"prompt": [{"role": "user", "content": "hello "}], "greeting": "there"}]
    (episode,), engine = played([act], renderer=renderer, rows=rows)
    assert (episode.status, episode.reward, episode.error) == (Status.FINISHED, 2.0, None)
    last = context(renderer, engine)
    assert "hello there" in last
    assert 0 < last.index("page 3 says hello") < last.index("{'answer': 'whales'}") < last.index("PAGE 4 SAYS HELLO")
    for name in ("page", "ask", "burn", "shout", "sleep"):
        assert name in engine.requests[0].messages[0].content or renderer is TOOLS
        assert name in renderer.tokenizer.decode(list(engine.requests[0].token_ids))
    assert "_own" not in last
    assert "get_reward" not in last
    assert episode.metrics["environment/tool_calls"] == 3
    assert episode.metrics["environment/invalid_calls"] == 0


def test_the_results_of_one_turn_stand_together() -> None:
    (episode,), _ = played([written(TOOLS, page(1), page(2))])
    (segment,) = episode.segments
    between = TOOLS.tokenizer.decode(list(segment.turns[1].appended_ids))
    assert between.count("<|im_start|>user") == 1
    assert between.count("<tool_response>") == 2


@pytest.mark.parametrize(
    ("call", "answer", "counted"),
    [
        (Call("fly", {}), "there is no tool 'fly'; there are ask, burn, page, shout, sleep", "invalid_calls"),
        (Call("get_reward", {}), "there is no tool 'get_reward'", "invalid_calls"),
        (Call("_own", {}), "there is no tool '_own'", "invalid_calls"),
        (Call("page", {}), "missing a required argument: 'number'", "invalid_calls"),
        (Call("page", {"number": 1, "colour": 2}), "unexpected keyword argument 'colour'", "invalid_calls"),
        (Call("burn", {}), "that is forbidden", "failed_calls"),
        (Call("shout", {"times": "x"}), "can't multiply sequence", "failed_calls"),
        (Call("ask", {"word": "x", "seconds": 9.0}), "no answer within 0.3 seconds", "failed_calls"),
        (Call("shout", {"times": 3_000_000}), "cut: 2,999,000 of 3,000,000 characters left out", "cut_results"),
    ],
)
def test_what_goes_wrong_in_a_call_is_told_and_counted(call: Call, answer: str, counted: str) -> None:
    (episode,), engine = played([written(TOOLS, call)], call_seconds=0.3, result_characters=1000)
    assert episode.status is Status.FINISHED
    assert answer in context(TOOLS, engine)
    counts = {name: episode.metrics[f"environment/{name}"] for name in ("invalid_calls", "failed_calls", "cut_results")}
    assert counts == {"invalid_calls": 0, "failed_calls": 0, "cut_results": 0, counted: 1}


def test_a_call_that_cannot_be_read_is_told_and_counted() -> None:
    (episode,), engine = played(["<tool_call>page 3</tool_call>", "<tool_call>{"])
    assert "must be one JSON object" in context(TOOLS, engine)
    assert "</tool_call> is missing" in context(TOOLS, engine)
    assert episode.metrics["environment/invalid_calls"] == 2


def test_a_tool_that_hangs_ends_its_own_episode_and_no_other() -> None:
    calls = {"0": Call("sleep", {"seconds": 30.0}), "1": page(1)}
    rows = [{"prompt": "0"}, {"prompt": "1"}]

    def act(request: SampleRequest) -> str:
        if any(message.role == "assistant" for message in request.messages):
            return "done"
        return written(TOOLS, calls[request.messages[-1].content])

    began = time.monotonic()
    (hung, other), _ = played(act, rows=rows, call_seconds=0.2)
    assert time.monotonic() - began < 15
    assert (hung.status, hung.reward) == (Status.TIMED_OUT, None)
    assert "did not return in time" in str(hung.error)
    assert (other.status, other.reward) == (Status.FINISHED, 1.0)


def test_slow_tools_do_not_wait_for_each_other_and_order_changes_nothing() -> None:
    """What is recorded does not depend on which environment answers first."""
    rows = [{"prompt": str(index)} for index in range(6)]
    acts = [written(TOOLS, page(number)) for number in range(8)]
    first, second = (played(acts, "Jittery", rows=rows, strategy=SUMMARY, window=2600)[0] for _ in range(2))
    assert [episode.segments for episode in first] == [episode.segments for episode in second]
    assert [episode.task["prompt"] for episode in first] == [str(index) for index in range(6)]
    assert all(episode.compactions and episode.reward == 8.0 for episode in first)
    slow = [written(TOOLS, Call("sleep", {"seconds": 0.5}))]
    began = time.monotonic()
    played(slow, rows=[{"prompt": str(index)} for index in range(12)])
    assert time.monotonic() - began < 0.5 * 12


def test_an_instance_is_called_in_one_thread_and_its_reward_may_be_a_coroutine() -> None:
    (episode,), _ = played([written(TOOLS, page(1)), written(TOOLS, page(2))], "Rewarded")
    assert episode.reward == 1.0


def test_repeated_acts_and_refusals_are_counted() -> None:
    (quiet,), _ = played([])
    assert quiet.metrics["environment/refusals"] == 1
    (busy,), _ = played([written(TOOLS, page(1))] * 3 + [written(TOOLS, page(2))])
    assert busy.metrics["environment/repeated_acts"] == 2
    assert busy.metrics["environment/refusals"] == 0
    (stubborn,), engine = played(["no", written(TOOLS, Call("stop", {}))], "Stubborn")
    assert (stubborn.reward, stubborn.metrics["environment/refusals"]) == (1.0, 1)
    assert "No tool was called. Call one of: note, stop." in context(TOOLS, engine)
    (refusing,), _ = played([], "Stubborn")
    assert (refusing.status, refusing.reward, refusing.metrics["acts"]) == (Status.FINISHED, 0.0, 3)


def long_episode(renderer: Renderer, strategy: Strategy = SUMMARY, turns: int = 30, **limits: Any) -> Any:
    """Two pages a turn, in a small window."""
    acts = [written(renderer, page(number), page(number + 100)) for number in range(turns)]
    bounds = {"window": 2600, "act_tokens": 200, **limits}
    return played(acts, renderer=renderer, strategy=strategy, **bounds)


@pytest.mark.parametrize("renderer", [TOOLS, PLAIN], ids=["tags", "lines"])
@pytest.mark.parametrize(
    "strategy",
    [SUMMARY, SelfSummary(40, style=STYLE, keep_last=1), SlidingWindow(0.5)],
    ids=["summary", "kept", "sliding"],
)
def test_no_window_parts_a_call_from_its_results(renderer: Renderer, strategy: Strategy) -> None:
    """In every context that is sampled from, calls and results are as many, and each result follows its call."""
    (episode,), engine = long_episode(renderer, strategy)
    assert (episode.status, episode.reward) == (Status.FINISHED, 60.0)
    assert len(episode.compactions) >= 3
    for request in engine.requests:
        owed = 0
        for message in request.messages:
            if message.role == "assistant":
                assert owed == 0, "a call was left without its result"
                owed = len(renderer.call_format.parse(message.content, ()))
            elif message.is_result:
                owed -= 1
                assert owed >= 0, "a result stands without its call"
            else:
                assert owed == 0, "something stands between a call and its result"
        assert owed == 0
    assert max(len(request.token_ids) + request.max_tokens for request in engine.requests) <= 2600


def test_tools_stay_in_the_rendering_and_a_call_in_a_summary_is_not_made() -> None:
    def act(request: SampleRequest) -> str:
        turns = sum(message.role == "assistant" for message in request.messages)
        return written(TOOLS, page(turns)) if len(engine_requests) < 25 else "done"

    engine_requests: list[int] = []

    def reply(request: SampleRequest) -> str:
        engine_requests.append(1)
        return written(TOOLS, page(999)) if request.kind is TurnKind.SUMMARY else act(request)

    engine = ScriptedEngine(reply, TOOLS)
    made = jobs([{"prompt": "go"}], environment_maker(f"{WORLDS}:Library", {}), SelfSummary(90, style=STYLE), 0)
    (episode,) = collect(made, {"policy": engine}, TOOLS, Limits(window=2600, act_tokens=200))
    acts = sum(request.kind is TurnKind.ACT for request in engine.requests)
    assert len(episode.compactions) >= 2
    assert episode.reward == acts - 1
    openings = {tuple(segment.prompt_ids[:800]) for segment in episode.segments}
    assert len(openings) == 1
    assert "Read a page." in TOOLS.tokenizer.decode(list(openings.pop()))


def test_a_large_result_is_read_in_parts_and_all_of_it_arrives() -> None:
    (episode,), _ = played(
        [written(TOOLS, Call("shout", {"times": 4000}))], strategy=SUMMARY, window=2600, act_tokens=200
    )
    assert episode.status is Status.FINISHED
    assert len(episode.compactions) >= 1
    text = "".join(str(TOOLS.tokenizer.decode([*s.completion_ids, *s.trailing_ids])) for s in episode.segments)
    assert text.count("aaaaaaaaaa") >= 390
    assert sum(part.count("a") for part in text.split("<tool_response>")[1:]) >= 4000


def test_the_plan_is_carried_and_the_policy_may_ask_for_a_compaction() -> None:
    acts = [written(TOOLS, Call("note", {"plan": "find the key"})), written(TOOLS, Call(COMPACT, {})), "no"]
    acts.append(written(TOOLS, Call("stop", {})))
    (episode,), engine = played(acts, "Stubborn", strategy=SUMMARY, ask_to_compact=True)
    assert (episode.status, episode.reward) == (Status.FINISHED, 1.0)
    assert len(episode.compactions) == 1
    assert len(episode.segments) == 2
    prompt = TOOLS.tokenizer.decode(list(episode.segments[1].prompt_ids))
    assert "plan: find the key" in prompt
    assert "a summary" in prompt
    # The call was answered in its own window, before the request.
    kinds = [message.role for message in engine.requests[2].messages]
    assert kinds[-2:] == ["tool", "user"]


def test_a_compaction_that_is_not_offered_is_an_unknown_tool() -> None:
    refusals: tuple[dict[str, Any], ...] = ({"strategy": SUMMARY}, {"ask_to_compact": True})
    for changes in refusals:
        (episode,), engine = played([written(TOOLS, Call(COMPACT, {}))], **changes)
        assert episode.compactions == ()
        assert episode.metrics["environment/invalid_calls"] == 1
        assert f"there is no tool '{COMPACT}'" in context(TOOLS, engine)


def test_asking_again_and_again_ends_the_episode() -> None:
    """Pitfall 8, asked for: windows in which nothing is done but asking for the next."""
    acts = [written(TOOLS, Call("note", {"plan": "x"})), *[written(TOOLS, Call(COMPACT, {}))] * 9]
    (episode,), _ = played(acts, "Stubborn", strategy=SUMMARY, ask_to_compact=True)
    assert episode.status is Status.INEFFECTIVE_COMPACTION
    assert len(episode.compactions) == 3


def test_several_environments_in_one_run() -> None:
    makers = environment_makers({"books": f"{WORLDS}:Library", "will": f"{WORLDS}:Stubborn"}, {"books": {"start": 10}})
    rows = [{"environment": "books", "prompt": "go"}, {"environment": "will", "prompt": "go"}]

    def reply(request: SampleRequest) -> str:
        shown = TOOLS.tokenizer.decode(list(request.token_ids))
        assert ("Read a page." in shown) != ("Change the plan." in shown)
        if any(message.role == "assistant" for message in request.messages):
            return "done"
        return written(TOOLS, Call("stop", {}) if "Change the plan." in shown else page(1))

    episodes = collect(
        jobs(rows, makers, NoCompaction(), 0), {"policy": ScriptedEngine(reply, TOOLS)}, TOOLS, Limits(6000, 200)
    )
    assert [episode.reward for episode in episodes] == [11.0, 1.0]
    with pytest.raises(UserError, match=r"environment = 'book'.*did you mean 'books'"):
        list(jobs([{"environment": "book"}], makers, NoCompaction(), 0))
    with pytest.raises(UserError, match="environment = None"):
        list(jobs([{}], makers, NoCompaction(), 0))
    with pytest.raises(UserError, match=r"there is no environment 'bookz'.*did you mean 'books'"):
        environment_makers({"books": f"{WORLDS}:Library"}, {"bookz": {}})


def test_the_column_environment_is_not_given_to_reset_where_it_selects() -> None:
    (maker,) = environment_makers({"a": f"{WORLDS}:Library"}).values()
    environment: Any = maker()
    environment.reset({"environment": "a", "prompt": "go", "level": 3})
    assert environment._instance.row == {"prompt": "go", "level": 3}
    alone: Any = environment_maker(f"{WORLDS}:Library", {})()
    alone.reset({"environment": "a", "prompt": "go"})
    assert alone._instance.row == {"environment": "a", "prompt": "go"}


@pytest.mark.parametrize(
    ("name", "kwargs", "sentence"),
    [
        (f"{WORLDS}:Unrewarded", {}, "has no method get_reward"),
        (f"{WORLDS}:Undocumented", {}, "has no schema"),
        (f"{WORLDS}:Library", {"begin": 1}, "does not take them .*'begin'"),
        (f"{WORLDS}:Unmade", {}, r"cannot be made with \{\} \(OSError: the museum is closed\)"),
        ("broken_on_import:Thing", {}, r"cannot be imported \(ZeroDivisionError"),
        ("ends_on_import:Thing", {}, r"cannot be imported \(SystemExit"),
        ("tests.rollouts.tool_worlds:PLAIN_TEMPLATE", {}, "cannot be made"),
    ],
)
def test_what_cannot_be_made_is_refused_in_a_sentence(
    name: str, kwargs: dict[str, Any], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_on_import.py").write_text("1 / 0\n")
    (tmp_path / "ends_on_import.py").write_text("import sys\nsys.exit(3)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UserError, match=sentence) as refusal:
        environment_maker(name, kwargs)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "prompt",
    [3, [], ["go"], [{"role": "boss", "content": "go"}], [{"role": "user", "content": [{"type": "image"}]}]],
)
def test_a_prompt_that_cannot_be_read_is_refused(prompt: object) -> None:
    (job,) = jobs([{"prompt": prompt}], environment_maker(f"{WORLDS}:Library", {}), NoCompaction(), 0)
    with pytest.raises(UserError, match="prompt"):
        opened(job, TOOLS, Limits(2000, 100))


def test_an_episode_that_is_only_opened_is_closed() -> None:
    (job,) = jobs([{"prompt": "go"}], environment_maker(f"{WORLDS}:Library", {}), NoCompaction(), 0)
    assert opened(job, TOOLS, Limits(6000, 100)) is None
