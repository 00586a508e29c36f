"""All that an evaluation's YAML may say, checked before anything loads. Every mistake is one sentence."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, get_type_hints

import yaml

from eval.reading import ASKED, task_class
from eval.tasks.known import FORMATS
from rollouts.yaml_file import NoDuplicates, fits, in_words, one_sentence, read_fields
from summarization.prompts import STYLES
from summarization.resolve import UserError, closest, resolve
from summarization.strategies import BUILTIN as STRATEGIES
from summarization.strategies import SelfSummary

FILE_FIELDS = ("path", "format", "file", "revision", "subset", "split", "passages", "metric", "rows")
# Ways to play an episode, beside those to compact a context: they need more than the context to be told.
FULL_CONTEXT, NO_CONTEXT = "full_context", "no_context"
SHUFFLED_SUMMARY, MOST_FREQUENT = "shuffled_summary", "most_frequent_answer"
WAYS = {
    FULL_CONTEXT: "No compaction, in a window of full_window tokens; where the sample fits.",
    NO_CONTEXT: "No page is delivered: what can be answered without reading.",
    SHUFFLED_SUMMARY: "Carries what self_summary (or the strategy that 'of' names) wrote for another sample.",
    MOST_FREQUENT: "No policy: always the most frequent right answer of the cell's samples; the floor.",
}


@dataclass(frozen=True)
class EvalArguments:
    """One evaluation: policy x strategy x task x where the question stands x length x sample.

    Attributes:
        output_dir: Where everything is written.
        policy: A hub id, a folder, ``smollm2-135m``, or ``tiny``; with engine ``openai``, whose tokenizer is used.
        frozen_policy: Writes the summaries of ``frozen_summary``.
        policy_dtype: Type of the weights.
        policy_attention: ``attn_implementation`` of transformers.
        trust_policy_code: Run code that comes with the model's files.
        template_kwargs: Passed to the chat template.
        engine: ``transformers``, ``openai``, or ``package.module:Name``.
        engine_kwargs: Of the engine, such as ``base_url`` and ``model``.
        tasks: Names of tasks; ``eval.run --list`` shows them.
        task_options: Options of tasks, by task name.
        files: Files of public benchmarks, each ``{path, format}``; ``path`` is a file, or a dataset on the hub with
            ``file`` and ``revision``; ``rows`` takes the first so many.
        lengths: In tokens of the policy's tokenizer.
        asked: Where the question stands: ``first``, ``last``, ``both``.
        strategies: Ways to compact; also ``full_context`` (a window of ``full_window``), ``no_context``,
            ``shuffled_summary`` and ``most_frequent_answer``.
        strategy_options: Options of strategies, by name; ``{name: {strategy: self_summary, ...}}`` names a variant.
        samples: Samples of each task and length; one number, or one for each length.
        seed: Samples are drawn from it.
        window: W, the most tokens the policy ever sees at once.
        full_window: The window of ``full_context``; 0 for the model's own limit.
        act_tokens: The most tokens of an answer.
        summary_tokens: The most tokens of a summary.
        prompt_style: Words of requests and state blocks.
        page_tokens: Tokens of a page.
        oversize: What happens to a page too large for a fresh window: ``split`` or ``cut``.
        haystack: A text file for filler.
        sessions: Episodes at once.
        temperature: Of sampling; 0 is greedy.
        report_to: ``wandb`` or ``none``.
    """

    output_dir: str
    policy: str
    frozen_policy: str | None = None
    policy_dtype: str = "float32"
    policy_attention: str | None = None
    trust_policy_code: bool = False
    template_kwargs: dict[str, Any] = field(default_factory=dict)
    engine: str = "transformers"
    engine_kwargs: dict[str, Any] = field(default_factory=dict)
    tasks: list[str] = field(default_factory=list)
    task_options: dict[str, Any] = field(default_factory=dict)
    files: list[dict[str, Any]] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    asked: list[str] = field(default_factory=lambda: ["both"])
    strategies: list[str] = field(default_factory=lambda: ["self_summary"])
    strategy_options: dict[str, Any] = field(default_factory=dict)
    samples: list[int] = field(default_factory=lambda: [20])
    seed: int = 0
    window: int = 4096
    full_window: int = 0
    act_tokens: int = 128
    summary_tokens: int = 512
    prompt_style: str = "default"
    page_tokens: int = 256
    oversize: str = "split"
    haystack: str | None = None
    sessions: int = 16
    temperature: float = 0.0
    report_to: str = "none"

    def __post_init__(self) -> None:
        for name in ("window", "act_tokens", "summary_tokens", "page_tokens", "sessions"):
            _refuse_unless(getattr(self, name) >= 1, name, getattr(self, name), "must be at least 1")
        for name in ("seed", "full_window"):
            _refuse_unless(getattr(self, name) >= 0, name, getattr(self, name), "must be at least 0")
        _refuse_unless(0 <= self.temperature < math.inf, "temperature", self.temperature, "must be 0 (greedy) or above")
        _refuse_unless(bool(self.tasks or self.files), "tasks", self.tasks, "name at least one task, or a file")
        _refuse_unless(bool(self.strategies), "strategies", self.strategies, "name at least one")
        if self.tasks:
            right = bool(self.lengths) and all(length >= 1 for length in self.lengths)
            _refuse_unless(right, "lengths", self.lengths, "name lengths in tokens, such as [1000, 100000]")
            right = len(self.samples) in (1, len(self.lengths)) and all(count >= 1 for count in self.samples)
            _refuse_unless(right, "samples", self.samples, "must be one number of at least 1, or one for each length")
        for name, values in (("tasks", self.tasks), ("lengths", self.lengths), ("strategies", self.strategies)):
            twice = [value for value in values if list(values).count(value) > 1]
            _refuse_unless(not twice, name, values, f"{twice[:1]} stands there twice")
        for where in self.asked:
            _refuse_unless(where in ASKED, "asked", where, closest(where, list(ASKED)))
        style = self.prompt_style
        _refuse_unless(style in STYLES, "prompt_style", style, closest(style, dict(STYLES)))
        for name, known in (("oversize", ("split", "cut")), ("report_to", ("none", "wandb"))):
            value = getattr(self, name)
            _refuse_unless(value in known, name, value, closest(value, list(known)))
        for name in self.tasks:
            task_class(name)
        self._check_options()
        for name in self.strategies:
            kind, options = self.strategy(name)
            if kind == SHUFFLED_SUMMARY:
                self._check_shuffled(name)
            elif kind in WAYS:
                _refuse_unless(not options, f"strategy_options: {name}", options, f"'{kind}' has no options")

    def samples_of(self, length: int) -> int:
        """How many samples a length has."""
        return self.samples[0] if len(self.samples) == 1 else self.samples[self.lengths.index(length)]

    def strategy(self, name: str) -> tuple[str, Mapping[str, Any]]:
        """The strategy that a name of ``strategies`` stands for, and its options.

        Raises:
            UserError: It is unknown.
        """
        options = dict(self.strategy_options.get(name) or {})
        kind = str(options.pop("strategy", name))
        if kind not in WAYS:
            known = dict(STRATEGIES) | WAYS
            if kind not in known and ":" not in kind:
                raise UserError(f"strategies: there is no '{kind}'; {closest(kind, known)}")
            resolve(kind, STRATEGIES, "strategy")
        return kind, options

    def source_of(self, name: str) -> str:
        """The strategy whose summaries a ``shuffled_summary`` of this name carries."""
        return str(self.strategy(name)[1].get("of", "self_summary"))

    def _check_shuffled(self, name: str) -> None:
        source = self.source_of(name)
        for option in self.strategy(name)[1]:
            _refuse_unless(option == "of", f"strategy_options: {name}", option, "its one option is 'of'")
        if source not in self.strategies:
            raise UserError(
                f"strategies: '{name}' carries what '{source}' writes in the same run, which is not among "
                f"{', '.join(self.strategies)}: add it, or name another with strategy_options: {{{name}: {{of: ...}}}}"
            )
        kind = self.strategy(source)[0]
        made = None if kind in WAYS else resolve(kind, STRATEGIES, "strategy")
        writes = isinstance(made, type) and issubclass(made, SelfSummary)
        remedy = "it writes no summaries; name self_summary or another that does"
        _refuse_unless(writes, f"strategy_options: {name}: of", source, remedy)
        enough = not self.tasks or min(self.samples) >= 2
        _refuse_unless(enough, "samples", self.samples, f"'{name}' takes summaries of other samples: at least 2 needed")

    def _check_options(self) -> None:
        for name, known in (("task_options", self.tasks), ("strategy_options", self.strategies)):
            for key, options in getattr(self, name).items():
                _refuse_unless(key in known, name, key, f"it is not among {', '.join(known) or 'those named'}")
                _refuse_unless(isinstance(options, dict), f"{name}: {key}", options, "must be a mapping")
        for entry in self.files:
            for key in ("path", "format"):
                _refuse_unless(isinstance(entry.get(key), str), "files", entry, f"each needs '{key}', a text")
            for key, value in entry.items():
                _refuse_unless(key in FILE_FIELDS, "files", key, closest(str(key), list(FILE_FIELDS)))
                kind = int if key == "rows" else str
                _refuse_unless(isinstance(value, kind), f"files: {key}", value, f"must be {in_words(kind)}")
            _refuse_unless(entry["format"] in FORMATS, "files", entry["format"], closest(entry["format"], FORMATS))


def _refuse_unless(right: bool, name: str, value: object, remedy: str) -> None:
    if not right:
        raise UserError(f"{name} is {value!r}: {remedy}")


def parse(argv: Sequence[str]) -> tuple[EvalArguments, str]:
    """``--config FILE`` and ``--field value`` after it, which wins; returns the arguments and the file's name.

    Raises:
        UserError: Anything that cannot work.
    """
    hints = get_type_hints(EvalArguments)
    words = [part for word in argv for part in (word.split("=", 1) if word.startswith("--") else [word])]
    source, given = "command line", {}
    values: dict[str, Any] = {}
    while words:
        flag = words.pop(0)
        name = flag[2:].replace("-", "_")
        if not flag.startswith("--"):
            raise UserError(f"{source}: '{flag}' is no field; write --config FILE or --field value")
        if name not in ("config", *hints):
            raise UserError(f"{source}: there is no field '{name}'; {closest(name, ['config', *hints])}")
        text = words.pop(0) if words else ""
        if name == "config":
            source = text
            values = read_fields(text, hints)
        else:
            given[name] = _value(name, text, hints[name])
    return arguments_of({**values, **given}, source), source


def arguments_of(values: dict[str, Any], source: str) -> EvalArguments:
    """The arguments that fields and values make.

    Args:
        source: The file they stand in, for messages.

    Raises:
        UserError: A value is of the wrong type, a field is missing, or anything that cannot work.
    """
    hints = get_type_hints(EvalArguments)
    values = dict(values)
    for name, value in values.items():
        # YAML reads 1e-5 as text.
        if hints[name] is float and isinstance(value, str | int) and not isinstance(value, bool):
            with contextlib.suppress(ValueError):
                values[name] = float(value)
        if not fits(values[name], hints[name]):
            raise UserError(f"{source}: {name} is {value!r}: must be {in_words(hints[name])}")
    for entry in fields(EvalArguments):
        if entry.name in ("output_dir", "policy") and entry.name not in values:
            raise UserError(f"{source}: field '{entry.name}' is missing")
    try:
        return EvalArguments(**values)
    except UserError as error:
        raise UserError(f"{source}: {error}") from error


def _value(name: str, text: str, hint: Any) -> Any:
    """A command line's value, read as YAML would; a single item will do for a list."""
    try:
        value = yaml.load(text, NoDuplicates)
    except yaml.YAMLError as error:
        raise UserError(f"command line: {name} is {text!r}: is no valid YAML ({one_sentence(str(error))})") from error
    return [value] if not fits(value, hint) and fits([value], hint) else value
