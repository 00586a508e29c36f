"""How long an evaluation will take, estimated from a short sample of the policy itself on this machine.

Two things are measured: seconds for a token of context read, and for a token sampled, with as many episodes at once as
will be played. How many of each an episode takes is counted, not guessed: one sample of a cell is played in the real
loop without the policy, with summaries of full length, and what that took (its text included) is scaled to the cell's
length.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from eval.arguments import SHUFFLED_SUMMARY
from eval.grid import CellKey
from eval.plan import Plan, duration
from eval.setup import Setup, Way
from rollouts.collect import collect
from rollouts.engine import Engine, SampleRequest, sample
from rollouts.engines.scripted import ScriptedEngine
from rollouts.episode import TurnKind
from rollouts.jobs import jobs
from rollouts.rendering import Renderer
from summarization.controls import ShuffledSummary
from summarization.strategies import SelfSummary

PROSE = "The sea is wide and the road to the old harbour is long , so they read and write letters all day . "
WINDOWS = 4
"""A sample is played through to so many windows, and what it took scaled to its length."""
STEPS = 8
READ_TOKENS = 256
SECONDS = 5.0
"""About how long the reading of context is measured."""


@dataclass(frozen=True)
class Pace:
    """Seconds a token, over all episodes at once: of context read, and sampled."""

    read: float
    sampled: float


def estimate(made: Plan, setup: Setup) -> tuple[dict[CellKey, float], str]:
    """Seconds for each cell that is still to be played, and a line that says what they rest on.

    Raises:
        UserError: The policy cannot be loaded, or the window is too small.
    """
    if setup.arguments.engine != "transformers":
        return {}, f"no time estimate: a dry run does not ask engine '{setup.arguments.engine}'"
    paces: dict[tuple[int, int], Pace] = {}
    counts: dict[tuple[str, int], tuple[float, float, float]] = {}
    seconds: dict[CellKey, float] = {}
    for key, missing in made.left.items():
        way = made.ways[key.strategy]
        if not missing or not way.plays or not key.length:
            continue
        length = min(key.length, WINDOWS * way.limits.window)
        if (key.strategy, length) not in counts:
            counts[key.strategy, length] = _tokens(way, {**missing[0], "tokens": length}, setup.renderer, setup)
        measured = (min(setup.arguments.sessions, len(missing)), way.limits.window)
        if measured not in paces:
            paces[measured] = measure(setup.engines(way)["policy"], setup.renderer, measured[1], measured[0])
        read, sampled, text = counts[key.strategy, length]
        scale = key.length / length if way.reads else 1.0
        pace = paces[measured]
        seconds[key] = len(missing) * scale * (read * pace.read + sampled * pace.sampled + text)
    if not paces:
        return seconds, "no time estimate: nothing that is left has a known length and needs the policy"
    slowest = max(paces.values(), key=lambda pace: pace.sampled)
    return seconds, (
        f"about {duration(sum(seconds.values()))} in all: an estimate, from a short sample of the policy here and now "
        f"({1e3 * slowest.read:.3g} ms a token read, {1e3 * slowest.sampled:.3g} ms a token sampled) and summaries of "
        "full length; cells without a time are not in it"
    )


def measure(engine: Engine, renderer: Renderer, window: int, sessions: int) -> Pace:
    """Read a context in each session and go on from it, token by token, so that no stop token ends it early."""
    words = list(renderer.content_ids(PROSE * (1 + READ_TOKENS // 8)))

    def request(session: int, ids: list[int], name: str) -> SampleRequest:
        return SampleRequest(f"{name}/{session}", ids, 1, TurnKind.ACT)

    def timed(requests: list[SampleRequest]) -> tuple[float, list[int]]:
        began = time.perf_counter()
        completions = sample(engine, requests)
        return time.perf_counter() - began, [completion.token_ids[0] for completion in completions]

    # The first forward of a process is slow, and the second tells how much can be read in the time.
    length = max(1, min(READ_TOKENS, window // 2, window - 2 * STEPS - 2))
    short = words[: max(1, min(64, length))]
    timed([request(0, short, "first")])
    once, _ = timed([request(0, short[1:] or short, "second")])
    for name in ("first/0", "second/0"):
        engine.release(name)
    length = max(1, min(length, round(SECONDS / max(once / len(short), 1e-9) / sessions)))
    # Each begins elsewhere, as equal contexts would be read once for all.
    contexts = [[*words[n % 16 :], *words][:length] for n in range(sessions)]
    reading, tokens = timed([request(n, ids, "pace") for n, ids in enumerate(contexts)])
    steps = 0.0
    for _ in range(STEPS):
        contexts = [[*ids, token] for ids, token in zip(contexts, tokens, strict=True)]
        contexts = [[*ids, words[0]] for ids in contexts]
        if len(contexts[0]) + 1 > window:
            break
        spent, tokens = timed([request(n, ids, "pace") for n, ids in enumerate(contexts)])
        steps += spent / STEPS
    for n in range(sessions):
        engine.release(f"pace/{n}")
    return Pace(max(0.0, reading - steps) / (sessions * length), steps / sessions)


def _tokens(way: Way, row: Mapping[str, object], renderer: Renderer, setup: Setup) -> tuple[float, float, float]:
    """Tokens that one episode reads and samples, and the seconds that its text takes: played without a policy."""
    long = " ".join(["word"] * max(1, way.strategy.summary_tokens, way.limits.act_tokens))
    if way.kind == SHUFFLED_SUMMARY:
        assert isinstance(way.strategy, SelfSummary)
        budget = way.strategy.summary_tokens

        def written(sample: str, number: int) -> str:
            return " ".join(["word"] * (budget // max(1, renderer.count(" word"))))

        way = replace(way, strategy=ShuffledSummary(way.strategy, written, setup.room))
    engine = ScriptedEngine(lambda request: long, renderer)
    began = time.perf_counter()
    (episode,) = collect(
        jobs([row], way.environment, way.strategy, 0), {"policy": engine, "frozen": engine}, renderer, way.limits
    )
    sampled = episode.metrics["summary_tokens"] + episode.metrics["act_tokens"]
    return episode.metrics["tokens_forwarded"] - sampled, sampled, time.perf_counter() - began
