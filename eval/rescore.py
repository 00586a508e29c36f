"""Scores the answers of a run again, from what its folder holds: after a scorer was changed, without a policy."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

from rich.console import Console

from eval.arguments import EvalArguments, arguments_of
from eval.folder import NOTED, RunFolder, whole
from eval.grid import cells
from eval.reading import Reading, replayed
from eval.run_report import write_report
from rollouts.policies.load import load_tokenizer
from rollouts.rendering import Renderer
from rollouts.storage import EpisodeWriter, read_about


def rescore(path: Path, console: Console) -> None:
    """Read every sample again, score its answer, and write episodes and report anew.

    Raises:
        UserError: This is no folder of an evaluation.
    """
    folder = RunFolder(path)
    noted = folder.arguments()["arguments"]
    known = {field.name for field in fields(EvalArguments)}
    arguments = arguments_of({name: value for name, value in noted.items() if name in known}, str(path / NOTED))
    renderer = Renderer(load_tokenizer(arguments.policy, arguments.trust_policy_code))
    changed = total = 0
    for key in cells(arguments):
        if not folder.samples(key).is_file():
            continue
        aside = folder.samples(key).with_suffix(".new")
        aside.unlink(missing_ok=True)
        with whole(folder.samples(key)):
            about = {**read_about(folder.samples(key)), "rescored": True}
        with EpisodeWriter(aside, about) as writer:
            for episode in folder.episodes(key):
                total += 1
                if episode.acts:
                    reading = Reading(renderer.count, arguments.page_tokens, arguments.haystack)
                    scores = replayed(reading, episode.task, episode.acts[-1])
                    metrics = {**episode.metrics, **{f"environment/{name}": v for name, v in scores.items()}}
                    # Pages were not delivered again, so what was read stays as it was.
                    metrics["environment/read_tokens"] = episode.metrics.get("environment/read_tokens", 0.0)
                    changed += metrics != dict(episode.metrics)
                    episode = replace(episode, reward=scores["strict"], metrics=metrics)
                writer.append(episode)
        aside.replace(folder.samples(key))
    report = write_report(folder, arguments, [key for key in cells(arguments) if folder.samples(key).is_file()])
    console.print(f"{total} answers scored again, {changed} of them otherwise than before; report: {report}")
