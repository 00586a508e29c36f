"""Demonstrations for mid-training: windows of real episodes, written by scripted writers.

The *expert* keeps first what the task needs, or says that it is unknown; the *careless* one keeps whatever the summary
before held, at its latest value. Both write in the same form, so a policy that imitates them knows how to summarize and
has not yet decided what is worth keeping: that is left to GRPO. A writer sees only what is in the window, as the policy
does.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from rollouts.engine import Completion, SampleRequest
from rollouts.environment import Observation
from rollouts.environments.lexicon import KINDS
from rollouts.environments.recall import Recall, tasks
from rollouts.environments.stated import latest_values, within
from rollouts.episode import Finish, Segment, TurnKind
from rollouts.rendering import Renderer
from rollouts.runner import Job, Limits, play
from summarization.messages import Message
from summarization.parse import Summary
from summarization.prompts import TINY
from summarization.strategies import ContextState, SelfSummary

# How often a fact changes: seldom, and so often that a window holds several values of it.
CHANGES = (1, 2, 4, 8)
VALUES = {key: frozenset(kind.values) for kind in KINDS.values() for key in kind.keys}
QUESTION = re.compile(r"\b(?:where is|who owns|how much is) (\w+) \?")


def statements(text: str) -> dict[str, str]:
    """The facts that a text states, by key, latest statement of each, in order of their last mention."""
    return {key: f"{key} {value}" for key, value in latest_values(text, VALUES).items()}


def expert_summary(context: str, budget: int) -> str:
    """What the task needs, or that it is unknown; then what was read last, as far as the budget goes."""
    found = statements(context)
    request = context.rpartition("summarize in")[2]
    needed = [found.pop(key) for key in QUESTION.findall(request) if key in found] or ["unknown"]
    return within(budget, [*needed, *reversed(found.values())])


def careless_summary(context: str, budget: int, carried: str = "") -> str:
    """What was carried into the window, brought up to date; then what was read last, as far as the budget goes."""
    found = statements(context)
    kept = [found.pop(said.split()[0], said.strip()) for said in carried.split(".") if said.strip()]
    return within(budget, [*kept, *reversed(found.values())])


def answer(context: str) -> str:
    """The statement that answers the last question asked, if the window holds it."""
    questions = QUESTION.findall(context)
    return statements(context).get(questions[-1], "unknown") if questions else "unknown"


class Drill(Recall):
    """``recall`` that asks after some pages about any of them: practice in looking things up, near and far."""

    def __init__(self, questions: int = 5, most_pages: int = 4, **recall: Any) -> None:
        super().__init__(**recall)
        self.questions, self.most_pages = questions, most_pages
        self._open: list[str] = []
        self._read: list[str] = []

    def advance(self, act: str | None) -> Observation:
        if self._open:
            return Observation((Message("user", self._open.pop()),), needs_act=True)
        if self._page >= self.plan.page_count:
            return Observation(done=True)
        observation = super().advance(None)
        self._read.append(observation.messages[0].content)
        rng = random.Random(f"{self.seed}/drill/{self._page}")
        last = self._page == self.plan.page_count
        if last or len(self._read) == self.most_pages or rng.random() < 1 / self.most_pages:
            found = [statement for page in self._read for statement in statements(page).values()]
            chosen = rng.sample(found, min(self.questions, len(found)))
            if self.needed():
                # The fact of the task itself, which may have been stated several times: the latest counts.
                chosen.insert(0, self.needed()[0])
            self._open = [_question_for(statement) for statement in chosen]
            self._read = []
        return observation


def _question_for(statement: str) -> str:
    key = statement.split()[0]
    return next(kind.question.format(key=key) for kind in KINDS.values() if key in kind.keys)


@dataclass(frozen=True)
class Wandering(SelfSummary):
    """Self-summary whose state block reports counts of an episode of any length, so that none is new later."""

    def reopen(self, state: ContextState, reply: Summary | None) -> tuple[Message, ...]:
        rng = random.Random(f"{state.task_id}/{state.progress.compactions}")
        scale = 10 ** rng.uniform(0, 5)
        compactions = max(state.progress.compactions, int(scale * rng.random()))
        progress = replace(
            state.progress,
            compactions=compactions,
            turns=compactions + rng.randrange(3),
            tokens=compactions * rng.randrange(50, 400),
        )
        return super().reopen(replace(state, progress=progress), reply)


def written(
    renderer: Renderer, limits: Limits, job: Job, rng: random.Random, expert_share: float
) -> tuple[Segment, ...]:
    """Play one episode with the scripted writers and return its segments; each summary draws its own writer."""
    game = play(job, renderer, limits)
    request = cast(SampleRequest, next(game))
    carried = ""
    while True:
        context = renderer.decode(request.token_ids)
        if request.kind is TurnKind.ACT:
            text = answer(context)
        elif rng.random() < expert_share:
            text = carried = expert_summary(context, request.max_tokens)
        else:
            text = carried = careless_summary(context, request.max_tokens, carried)
        ids = (*renderer.content_ids(text), renderer.closing_ids[0])
        try:
            request = cast(SampleRequest, game.send(Completion(ids, (0.0,) * len(ids), Finish.STOP)))
        except StopIteration as stop:
            return stop.value.segments


def demonstrations(
    renderer: Renderer,
    limits: Limits,
    environment: Mapping[str, Any],
    budgets: Sequence[int],
    kinds: Sequence[str],
    expert_share: float,
    drill_share: float,
    words: tuple[int, int],
    seed: int,
) -> Iterator[Segment]:
    """Training rows without end: windows of drills and of ``recall`` episodes, at every summary budget of ``budgets``.

    Args:
        environment: Keyword arguments of ``Recall``.
        budgets: Summary budgets, in tokens; the policy learns to use each as the request names it.
        kinds: Kinds of task.
        expert_share: Share of summaries that the expert writes.
        drill_share: Share of episodes that are drills.
        words: Range of episode lengths.
        seed: All is drawn from it.
    """
    rng = random.Random(f"demonstrations/{seed}")
    index = 0
    while True:
        index += 1
        drill = rng.random() < drill_share
        task = next(tasks("train", 1, words, [rng.choice(list(kinds))], seed=rng.getrandbits(48)))
        budget = rng.choice(list(budgets))
        make = partial(Drill if drill else Recall, **{**environment, "changes": rng.choice(CHANGES)})
        strategy = Wandering(summary_tokens=budget, style=TINY)
        job = Job(task, f"demonstration-{seed}-{index}", 0, make, strategy, seed)
        yield from (s for s in written(renderer, limits, job, rng, expert_share) if s.sampled_tokens)


def repeated_spans(
    vocabulary: Sequence[int], count: int, shortest: int, longest: int, seed: int
) -> Iterator[list[int]]:
    """Rows of a random span, some other tokens, and the span again: what forms the copy circuit.

    Yields:
        ``count`` rows; a row's second half is the span again.
    """
    rng = random.Random(f"spans/{seed}")
    for _ in range(count):
        span = rng.choices(vocabulary, k=rng.randint(shortest, longest))
        yield [*span, *span]
