"""The words around a compaction: the request, the state block, and how the next window opens."""

from __future__ import annotations

from dataclasses import dataclass

from summarization.messages import Message


@dataclass(frozen=True)
class PromptStyle:
    """Templates with named fields. The defaults are for a pretrained policy; a tiny one has shorter ones.

    Attributes:
        request: The request to summarize; fields ``{budget}`` (tokens) and ``{task}``.
        state: The state block; fields ``{compactions}``, ``{turns}``, ``{tokens}``, ``{budget_left}``, ``{keep}``.
        left: How the state block tells the acts left, where they are limited; field ``{turns_left}``.
        carry: The message that opens the next window; fields ``{summary}`` and ``{state}``.
        spaced_numbers: Whether numbers are written digit by digit, for a closed vocabulary that has only digits.
    """

    request: str = (
        "The context window is nearly full. Everything above, except the task, is about to be erased. Write a summary "
        "of at most {budget} tokens that holds every fact needed to finish the task, and nothing else. You may think "
        "first between <scratch> and </scratch>; only what follows is kept.\n\nTask: {task}"
    )
    state: str = "Compactions so far: {compactions}. Turns so far: {turns}. Tokens so far: {tokens}.{budget_left}{keep}"
    left: str = " Turns left: {turns_left}."
    carry: str = "Summary of what came before:\n{summary}\n\n{state}"
    spaced_numbers: bool = False

    def __post_init__(self) -> None:
        for name, fields in {
            "request": ("budget", "task"),
            "state": ("compactions", "turns", "tokens", "budget_left", "keep"),
            "left": ("turns_left",),
            "carry": ("summary", "state"),
        }.items():
            try:
                # Strings, as when it is used: a format such as {budget:d} fails here and not in the middle of a run.
                getattr(self, name).format(**dict.fromkeys(fields, ""))
            except (LookupError, ValueError, AttributeError, TypeError) as error:
                known = ", ".join("{" + field + "}" for field in fields)
                raise ValueError(f"prompt '{name}' cannot be filled in ({error}); its fields are {known}") from error
        if "{summary}" not in self.carry:
            raise ValueError("prompt 'carry' does not name {summary}: what was summarized would be lost")


TINY = PromptStyle(
    request="summarize in {budget} tokens : {task}",
    state="{compactions} compactions {turns} turns {tokens} tokens{budget_left}{keep}",
    left=" ; {turns_left} turns",
    carry="{state} ; summary {summary}",
    spaced_numbers=True,
)

STYLES = {"default": PromptStyle(), "tiny": TINY}


@dataclass(frozen=True)
class Progress:
    """What the state block reports.

    Attributes:
        compactions: Compactions so far, this one included.
        turns: Samples taken so far (acts and summaries).
        tokens: Tokens read and sampled so far, those of erased windows included.
        turns_left: Acts left, or None without a limit.
        keep: Text that the environment wants carried verbatim.
    """

    compactions: int
    turns: int
    tokens: int
    turns_left: int | None = None
    keep: str = ""


def _number(style: PromptStyle, number: int) -> str:
    return " ".join(str(number)) if style.spaced_numbers else str(number)


def request_message(style: PromptStyle, budget: int, task: str) -> Message:
    """The request to summarize in at most ``budget`` tokens."""
    return Message("user", style.request.format(budget=_number(style, budget), task=task))


def carry_message(style: PromptStyle, summary: str, progress: Progress) -> Message:
    """The message with summary and state block that follows system and task in the next window."""
    left = progress.turns_left
    state = style.state.format(
        compactions=_number(style, progress.compactions),
        turns=_number(style, progress.turns),
        tokens=_number(style, progress.tokens),
        budget_left="" if left is None else style.left.format(turns_left=_number(style, left)),
        keep=f" {progress.keep}" if progress.keep else "",
    )
    return Message("user", style.carry.format(summary=summary, state=state))
