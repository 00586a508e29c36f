"""What there is to evaluate, and with what: one line each."""

from __future__ import annotations

import re

from eval.arguments import WAYS
from eval.reading import task_class
from eval.setup import ENGINES
from eval.tasks.known import BUILTIN as TASKS
from eval.tasks.known import FORMATS
from summarization.resolve import resolve
from summarization.strategies import BUILTIN as STRATEGIES

ABOUT_ENGINES = {
    "transformers": "a model in this process, on CPU or GPU",
    "openai": "any endpoint that speaks OpenAI's protocol; engine_kwargs: base_url, model",
}


def listing() -> str:
    """Tasks, strategies and engines."""
    lines = ["tasks"]
    for name in TASKS:
        kind = task_class(name)
        options = ", ".join(f"{option}={value!r}" for option, value in kind.defaults.items())
        lines.append(f"  {name:<20} {kind.about}" + (f" [{options}]" if options else ""))
    lines.append("formats of files")
    lines += [f"  {name:<20} {task_class(f'{name}_file').about}" for name in FORMATS]
    lines.append("strategies")
    for name in STRATEGIES:
        about = (resolve(name, STRATEGIES, "strategy").__doc__ or "").strip().splitlines()[0]
        lines.append(f"  {name:<20} {plain(about)}")
    lines += [f"  {name:<20} {about}" for name, about in WAYS.items()]
    lines.append("engines")
    lines += [f"  {name:<20} {ABOUT_ENGINES[name]}" for name in ENGINES]
    return "\n".join(lines)


def plain(text: str) -> str:
    """A docstring's text without the marks of Sphinx: ``:meth:`text``` is text, and so is what is quoted twice."""
    return re.sub(r"`+([^`]*)`+", r"\1", re.sub(r":\w+:(?=`)", "", text))
