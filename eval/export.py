"""Writes the results of a run in the shape of lm-evaluation-harness: ``results_*.json`` and ``samples_*.jsonl``.

One folder for each strategy, for a policy with its way to compact is what that harness calls a model; one task for each
task, place of the question and length. Field names are those that version 0.4.13 writes (its ``result_schema``).

What differs, because an episode has many windows and that harness knows one prompt: ``arguments`` holds the question
and the limits, not the pages (``doc`` names the sample, which follows from it); the standard error is clustered; what
says with which machine and libraries that harness ran is left out, except for the version of transformers.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from eval.evaluate import outcome_of
from eval.folder import RunFolder
from eval.reading import Reading
from eval.results import Outcome
from eval.stats import clustered, student_quantile
from rollouts.episode import Episode
from rollouts.files import write_atomically
from rollouts.policies.load import load_tokenizer
from rollouts.rendering import Renderer
from rollouts.storage import read_about, read_episodes
from summarization.resolve import UserError, closest

FORMATS = ("lm-eval",)
METRICS = ("strict", "official")
FILTER = "none"


@dataclass(frozen=True)
class Asked:
    """What a sample asks, and what is right: known once it was read to its end."""

    question: str
    answers: tuple[str, ...]


def export(words: Sequence[str]) -> list[Path]:
    """``DIR [--format lm-eval] [--output DIR]``; returns the files of results.

    Raises:
        UserError: What was asked for cannot work, or there is no folder of an evaluation.
    """
    options = {"format": FORMATS[0], "output": ""}
    places, rest = [], list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            places.append(word)
            continue
        name, _, value = word.removeprefix("--").partition("=")
        if name not in options:
            raise UserError(f"export: there is no option '{name}'; {closest(name, list(options))}")
        value = value or (rest.pop(0) if rest else "")
        if not value:
            raise UserError(f"export: --{name} names nothing: write --{name} and a value")
        options[name] = value
    if len(places) != 1:
        raise UserError("export: name one run's folder")
    if options["format"] not in FORMATS:
        raise UserError(f"export: format is '{options['format']}'; {closest(options['format'], list(FORMATS))}")
    run = Path(places[0])
    return lm_eval(run, Path(options["output"]) if options["output"] else run / "lm-eval")


def lm_eval(run: Path, output: Path) -> list[Path]:
    """Write the results of every strategy into a folder of its own, and return the files of results.

    Every sample is read once more, without a policy, for its right answer. Writing twice gives the same files.

    Raises:
        UserError: This is no folder of an evaluation, or it holds no episode.
    """
    about = RunFolder(run).arguments()
    arguments = about["arguments"]
    renderer = Renderer(
        load_tokenizer(arguments["policy"], arguments["trust_policy_code"]),
        template_kwargs=arguments["template_kwargs"],
    )
    cells: dict[str, dict[str, list[Episode]]] = defaultdict(dict)
    newest: dict[str, float] = defaultdict(float)
    for file in sorted((run / "samples").glob("*.jsonl.gz")):
        cell = read_about(file)
        if episodes := list(read_episodes(file)):
            cells[cell["strategy"]][task_name(cell)] = episodes
            newest[cell["strategy"]] = max(newest[cell["strategy"]], file.stat().st_mtime)
    if not cells:
        raise UserError(f"export: '{run}' holds no episode yet: run the evaluation first")
    asked: dict[str, Asked] = {}
    for tasks in cells.values():
        for episode in (episode for episodes in tasks.values() for episode in episodes):
            if episode.task_id not in asked:
                reading = Reading(renderer.count, arguments["page_tokens"], arguments["haystack"])
                asked[episode.task_id] = _read(reading, episode.task)
    # One number for a document, whichever strategies have played it.
    numbers = {
        name: {task_id: number for number, task_id in enumerate(sorted(_ids(cells, name)))}
        for tasks in cells.values()
        for name in tasks
    }
    return [
        _write(output, about, strategy, tasks, asked, numbers, newest[strategy]) for strategy, tasks in cells.items()
    ]


def task_name(cell: Mapping[str, Any]) -> str:
    """What a cell is called there: without what that harness would replace in the name of a file."""
    parts = [cell["task"], cell["asked"], *([str(cell["length"])] if cell["length"] else [])]
    return re.sub(r"\W", "_", "_".join(parts))


def _ids(cells: Mapping[str, Mapping[str, Sequence[Episode]]], name: str) -> set[str]:
    return {episode.task_id for tasks in cells.values() for episode in tasks.get(name, ())}


def _read(reading: Reading, row: Mapping[str, Any]) -> Asked:
    reading.reset(row)
    while not reading.advance(None).needs_act:
        continue
    found = Asked(reading.task.question, tuple(reading.task.answers()))
    reading.close()
    return found


def _write(
    output: Path,
    about: Mapping[str, Any],
    strategy: str,
    tasks: Mapping[str, Sequence[Episode]],
    asked: Mapping[str, Asked],
    numbers: Mapping[str, Mapping[str, int]],
    when: float,
) -> Path:
    """The files of one strategy."""
    arguments = about["arguments"]
    model = f"{arguments['policy']}+{strategy}"
    # As that harness makes a folder's name of a model's.
    folder = output / re.sub(r'["<>:/|\\?*\[\]]+', "__", model)
    stamp = datetime.fromtimestamp(when).isoformat().replace(":", "-")
    samples: dict[str, list[dict[str, Any]]] = {}
    for name, episodes in tasks.items():
        made = [sample(episode, asked[episode.task_id], arguments, numbers[name]) for episode in episodes]
        samples[name] = sorted(made, key=lambda each: each["doc_id"])
        lines = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in samples[name])
        write_atomically(folder / f"samples_{name}_{stamp}.jsonl", lines.encode("utf-8", "replace"))
    results = {
        "results": {name: _figures(name, [outcome_of(episode) for episode in tasks[name]]) for name in tasks},
        "group_subtasks": {},
        "configs": {name: {"task": name, "num_fewshot": 0, "output_type": "generate_until"} for name in tasks},
        "versions": dict.fromkeys(tasks, version("palimpsest-rl")),
        "n-shot": dict.fromkeys(tasks, 0),
        "higher_is_better": {name: dict.fromkeys(METRICS, True) for name in tasks},
        "n-samples": {name: {"original": len(numbers[name]), "effective": len(tasks[name])} for name in tasks},
        "config": _config(arguments, strategy),
        "git_hash": None,
        "date": when,
        "transformers_version": about["versions"]["transformers"],
        "task_hashes": {
            name: _hash("".join(s["doc_hash"] + s["prompt_hash"] + s["target_hash"] for s in made))
            for name, made in samples.items()
        },
        "model_source": arguments["engine"],
        "model_name": model,
        "model_name_sanitized": folder.name,
        "system_instruction": None,
        "system_instruction_sha": None,
        "fewshot_as_multiturn": None,
        "chat_template": None,
        "chat_template_sha": None,
    }
    path = folder / f"results_{stamp}.json"
    write_atomically(path, json.dumps(results, indent=2, ensure_ascii=False).encode("utf-8", "replace"))
    return path


def sample(episode: Episode, asked: Asked, arguments: Mapping[str, Any], numbers: Mapping[str, int]) -> dict[str, Any]:
    """One line of ``samples_*.jsonl``. An episode without an answer has the empty one, and scores 0."""
    outcome = outcome_of(episode)
    answer = episode.acts[-1] if episode.acts else ""
    doc = {**episode.task, "question": asked.question}
    target = str(list(asked.answers))
    limits = {"until": [], "max_gen_toks": arguments["act_tokens"], "temperature": arguments["temperature"]}
    return {
        "doc_id": numbers[episode.task_id],
        "doc": doc,
        "target": target,
        "arguments": {"gen_args_0": {"arg_0": asked.question, "arg_1": limits}},
        "resps": [[answer]],
        "filtered_resps": [answer],
        "filter": FILTER,
        "metrics": list(METRICS),
        "doc_hash": _hash(json.dumps(doc, indent=2, ensure_ascii=False)),
        "prompt_hash": _hash(asked.question),
        "target_hash": _hash(target),
        "strict": outcome.success,
        "official": _official(outcome),
        "compactions": float(outcome.compactions),
        "tokens_forwarded": float(outcome.tokens),
    }


def _figures(name: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    clusters = [outcome.cluster for outcome in outcomes]
    scores = {"strict": [o.success for o in outcomes], "official": [_official(o) for o in outcomes]}
    found: dict[str, Any] = {"name": name, "alias": name, "sample_len": len(outcomes)}
    for metric, values in scores.items():
        found[f"{metric},{FILTER}"] = sum(values) / len(values)
        found[f"{metric}_stderr,{FILTER}"] = standard_error(values, clusters)
    return found


def standard_error(values: Sequence[float], clusters: Sequence[str]) -> float | str:
    """The clustered standard error; ``N/A``, as that harness writes it, with a single cluster."""
    interval = clustered(values, clusters)
    if interval is None:
        return "N/A"
    return (interval.high - interval.low) / 2 / student_quantile(0.975, len(set(clusters)) - 1)


def _official(outcome: Outcome) -> float:
    return outcome.success if outcome.official is None else outcome.official


def _config(arguments: Mapping[str, Any], strategy: str) -> dict[str, Any]:
    kept = ("window", "full_window", "summary_tokens", "act_tokens", "page_tokens", "prompt_style", "policy_dtype")
    return {
        "model": arguments["engine"],
        "model_args": {
            "pretrained": arguments["policy"],
            "strategy": strategy,
            **(arguments["strategy_options"].get(strategy) or {}),
            **{name: arguments[name] for name in kept},
        },
        "batch_size": arguments["sessions"],
        "batch_sizes": [],
        "device": None,
        "use_cache": None,
        "limit": None,
        "bootstrap_iters": 0,
        "gen_kwargs": {"temperature": arguments["temperature"], "max_gen_toks": arguments["act_tokens"]},
        "random_seed": arguments["seed"],
    }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
