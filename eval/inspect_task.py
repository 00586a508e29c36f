"""Our tasks as a task of inspect_ai, for any model that it knows: the extra ``inspect``.

    inspect eval eval/inspect_task.py --model openai/gpt-4o -T config=configs/eval/million.yaml -T strategy=self_summary

The YAML is one of ``eval.run``: the same samples, windows and limits; its ``policy`` names the tokenizer by which
tokens are counted. ``compacting`` plays an episode by messages, as :mod:`rollouts.engines.openai` does under api
``chat``: every window is a conversation of its own, so the log shows each request to summarize and what came of it.
``scored`` gives the strict and the official score. ``frozen_summary`` asks the model of the role ``frozen``.

The loop between two answers runs in inspect's own thread: it is short against an answer, and tokenizers are not made to
be used by several threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import anyio
from inspect_ai import Task, task  # pyright: ignore[reportMissingImports]
from inspect_ai.dataset import Sample  # pyright: ignore[reportMissingImports]
from inspect_ai.model import (  # pyright: ignore[reportMissingImports]
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    ModelOutput,
    get_model,
)
from inspect_ai.scorer import (  # pyright: ignore[reportMissingImports]
    Score,
    Scorer,
    Target,
    mean,
    scorer,
    stderr,
)
from inspect_ai.solver import Generate, Solver, TaskState, solver  # pyright: ignore[reportMissingImports]

from eval.arguments import FULL_CONTEXT, NO_CONTEXT, EvalArguments, parse
from eval.evaluate import outcome_of
from eval.grid import cells, rows
from eval.reading import Reading
from eval.setup import Setup, Way
from rollouts.calls import Waiting
from rollouts.engine import Completion, EngineFailure, SampleRequest
from rollouts.engines.openai_reply import without
from rollouts.episode import Episode, Finish
from rollouts.jobs import task_id
from rollouts.rendering import Renderer
from rollouts.runner import Job, play
from summarization.messages import Message
from summarization.resolve import UserError
from summarization.strategies import BUILTIN as STRATEGIES

POLL = 0.01
"""Seconds between two looks at a call of the environment."""
OUTCOME = "palimpsest"
"""Under which name the solver leaves what came of an episode in the store."""


@task
def palimpsest(config: str, strategy: str = "") -> Task:
    """All samples of an evaluation's YAML, played with one strategy.

    Args:
        config: The YAML.
        strategy: As the YAML names it; by default its first.

    Raises:
        UserError: The YAML cannot work, or does not name the strategy.
    """
    arguments, source = parse(["--config", config])
    name = strategy or arguments.strategies[0]
    if name not in arguments.strategies:
        raise UserError(f"{source}: strategy is '{name}', not among its strategies {', '.join(arguments.strategies)}")
    kind, _ = arguments.strategy(name)
    if kind not in (FULL_CONTEXT, NO_CONTEXT, *STRATEGIES) and ":" not in kind:
        raise UserError(f"{source}: strategy is '{name}', which needs a whole run of eval.run: name another")
    if kind == FULL_CONTEXT and not arguments.full_window:
        raise UserError(f"{source}: full_window is 0: name the model's limit, which inspect does not tell")
    setup = Setup(arguments)
    way = setup.way(name)
    return Task(
        dataset=samples(arguments, name, way),
        solver=compacting(way, setup.renderer, arguments.temperature, arguments.seed),
        scorer=scored(),
        name=f"palimpsest-{name}",
    )


def samples(arguments: EvalArguments, strategy: str, way: Way) -> list[Sample]:
    """The samples of every cell of a strategy that fits; what a sample asks is known when it is read."""
    found = []
    for key in cells(arguments):
        if key.strategy != strategy or not way.fits(key.length):
            continue
        for row in rows(arguments, key):
            about = {"task": key.task, "asked": key.asked, "length": key.length}
            cluster = str(row.get("cluster", task_id(row)))
            name = f"{key.name}-{task_id(row)}"
            text = f"{key.task}, {key.length or 'its own number of'} tokens"
            found.append(Sample(input=text, id=name, metadata={**about, "cluster": cluster, "row": row}))
    return found


@solver
def compacting(way: Way, renderer: Renderer, temperature: float, seed: int) -> Solver:
    """Plays one episode through the window.

    Args:
        way: Strategy, limits and environment.
        renderer: Counts tokens.
        temperature: Of sampling.
        seed: Of the run.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        row = state.metadata["row"]
        environment = way.environment()
        if not isinstance(environment, Reading):
            raise TypeError(f"the environment of an evaluation is a Reading, not a {type(environment).__name__}")
        job = Job(row, task_id(row), state.epoch - 1, lambda: environment, way.strategy, seed)
        game = play(job, renderer, way.limits)
        answer = partial(_answered, renderer, temperature, state)
        try:
            request = next(game)
            while True:
                request = game.send(await answer(request))
        except StopIteration as stop:
            episode: Episode = stop.value
        state.store.set(OUTCOME, _left(episode, environment))
        state.completed = True
        return state

    return solve


@scorer(
    metrics={
        "strict": [mean(), stderr(cluster="cluster")],
        "official": [mean(), stderr(cluster="cluster")],
    }
)
def scored() -> Scorer:
    """The strict and the official score; an episode that did not end with an answer has 0 in both."""

    async def score(state: TaskState, target: Target) -> Score:
        left: dict[str, Any] | None = state.store.get(OUTCOME)
        if left is None:
            raise UserError("scored: no episode was played: use it with the solver 'compacting'")
        return Score(
            value={"strict": left["outcome"]["success"], "official": left["outcome"]["official"]},
            answer=left["answer"],
            explanation=f"right: {left['answers']}; {left['outcome']['status']}",
            metadata=left["outcome"],
        )

    return score


def _left(episode: Episode, environment: Reading) -> dict[str, Any]:
    """What the log keeps of an episode."""
    finished = environment.answer is not None
    return {
        "outcome": {**asdict(outcome_of(episode)), "error": episode.error},
        "answer": environment.answer or "",
        # Complete only once the sample was read to its end.
        "answers": list(environment.task.answers()) if finished else [],
        "summaries": [compaction.summary for compaction in episode.compactions],
    }


async def _answered(
    renderer: Renderer, temperature: float, state: TaskState, request: SampleRequest | Waiting
) -> Completion | EngineFailure | None:
    """Ask the model, and leave the conversation in ``state``, so that the log shows the last window."""
    if isinstance(request, Waiting):
        while not request.over:
            await anyio.sleep(POLL)
        return None
    model = get_model(role="frozen") if request.sampler == "frozen" else get_model()
    limits = GenerateConfig(max_tokens=request.max_tokens, temperature=temperature)
    messages = conversation(request.messages, request.prefix)
    output = await model.generate(messages, config=limits)
    state.messages, state.output = [*messages, *([output.message] if output.choices else [])], output
    if output.error or not output.choices:
        return EngineFailure(output.error or "the model gave no answer")
    return completion(renderer, output, request)


def conversation(messages: Sequence[Message], prefix: str) -> list[ChatMessage]:
    """Messages as inspect has them; what the answer begins with stands at the end of the last, as a user's."""
    made: list[ChatMessage] = []
    for message in messages:
        if message.role == "system":
            made.append(ChatMessageSystem(content=message.content))
        elif message.role == "assistant":
            made.append(ChatMessageAssistant(content=message.content))
        else:
            made.append(ChatMessageUser(content=message.content))
    if prefix:
        if isinstance(made[-1], ChatMessageUser):
            made[-1] = ChatMessageUser(content=f"{made[-1].text}\n{prefix}")
        else:
            made.append(ChatMessageUser(content=prefix))
    return made


def completion(renderer: Renderer, output: ModelOutput, request: SampleRequest) -> Completion:
    """The answer as token ids of the tokenizer that counts, without the prefix where it repeats that."""
    ids = renderer.content_ids(without(output.completion, request.prefix))
    most = request.max_tokens
    cut_off = output.stop_reason in ("max_tokens", "model_length") or len(ids) > most
    if cut_off:
        return Completion(ids[:most], (0.0,) * len(ids[:most]), Finish.LENGTH)
    # What ended the turn is not in the text. One token more than the limit would not fit into the reserve.
    ids = (*ids, min(renderer.stop_ids))[:most]
    return Completion(ids, (0.0,) * len(ids), Finish.STOP)
