"""The driver: plays many episodes at once, each wherever its samples come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rollouts.calls import Waiting, wait_for_any
from rollouts.engine import Completion, Engine, EngineFailure
from rollouts.episode import Episode
from rollouts.rendering import Renderer
from rollouts.runner import Job, Limits, Play, play


def collect(
    jobs: Iterable[Job],
    engines: Mapping[str, Engine],
    renderer: Renderer,
    limits: Limits,
    on_episode: Callable[[Job, Episode], None] | None = None,
) -> list[Episode]:
    """Play all jobs and return their episodes in the order of the jobs, whatever order they finish in.

    Args:
        jobs: Taken one by one as places become free, so an iterator may be endless in memory but not in length.
        engines: By sampler name: ``policy``, and ``frozen`` where a strategy asks for it.
        renderer: For the policy's tokenizer.
        limits: Of every episode.
        on_episode: Called with each episode as it finishes; the list returned is complete all the same.
    """
    waiting = enumerate(jobs)
    playing: dict[str, tuple[int, Job, Play]] = {}
    calling: list[tuple[Waiting, int, Job, Play, str | None]] = []
    episodes: dict[int, Episode] = {}

    def resume(index: int, job: Job, game: Play, outcome: Completion | EngineFailure | None, last: str | None) -> None:
        """Send an outcome to an episode and submit what it asks for next."""
        try:
            request = game.send(outcome)
        except StopIteration as stop:
            _release(engines, last)
            episodes[index] = stop.value
            if on_episode is not None:
                on_episode(job, stop.value)
            return
        if isinstance(request, Waiting):
            calling.append((request, index, job, game, last))
            return
        if last is not None and request.session != last:
            _release(engines, last)
        playing[request.session] = (index, job, game)
        engines[request.sampler].submit(request)

    places = max(1, min(engine.max_sessions for engine in engines.values()))
    exhausted = False
    while True:
        while not exhausted and len(playing) + len(calling) < places:
            entry = next(waiting, None)
            if entry is None:
                exhausted = True
                break
            index, job = entry
            resume(index, job, play(job, renderer, limits), None, None)
        if not playing and not calling:
            return [episodes[index] for index in sorted(episodes)]
        if not playing:
            wait_for_any([call for call, *_ in calling])
        was_calling, calling = calling, []
        for call in was_calling:
            if call[0].over:
                resume(*call[1:4], None, call[4])
            else:
                calling.append(call)
        for engine in engines.values() if playing else ():
            for request, outcome in engine.step():
                index, job, game = playing.pop(request.session)
                resume(index, job, game, outcome, request.session)


def opened(job: Job, renderer: Renderer, limits: Limits) -> Episode | None:
    """Play an episode up to its first sample, and close it: what it came to where it ended before, else None."""
    game = play(job, renderer, limits)
    try:
        while isinstance(call := game.send(None), Waiting):
            while not call.over:
                wait_for_any([call])
    except StopIteration as stop:
        return stop.value
    finally:
        game.close()
    return None


def _release(engines: Mapping[str, Engine], session: str | None) -> None:
    if session is not None:
        for engine in engines.values():
            engine.release(session)
