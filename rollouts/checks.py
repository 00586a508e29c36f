"""What an environment answers, held to its types: what is wrong becomes the episode's error, in a sentence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rollouts.environment import Observation
from rollouts.episode import Episode, Status
from summarization.messages import Message


class WrongAnswer(Exception):
    """An environment answered something that it must not; the text names the method and the answer."""


def checked_observation(answer: object, method: str) -> Observation:
    """The answer of ``reset`` or ``advance``.

    Raises:
        WrongAnswer: It is no observation, or holds what is no message.
    """
    if not isinstance(answer, Observation):
        raise WrongAnswer(f"{method} returned {shown(answer)}, must be an Observation")
    if not isinstance(answer.messages, tuple):
        raise WrongAnswer(f"{method} returned messages {shown(answer.messages)}, must be a tuple of Message")
    for message in answer.messages:
        if not isinstance(message, Message) or not isinstance(message.content, str):
            raise WrongAnswer(f"{method} returned {shown(message)} among its messages, must be a Message with text")
    if not isinstance(answer.answer_prefix, str):
        raise WrongAnswer(f"{method} returned answer_prefix {shown(answer.answer_prefix)}, must be text")
    return answer


def checked_number(answer: object, what: str) -> float:
    """A finite number as a float; numpy scalars and other types that are numbers are taken.

    Raises:
        WrongAnswer: It is not a number, or not finite.
    """
    # A text has no __float__ although float() reads it; an array has one although it holds many numbers.
    if not hasattr(type(answer), "__float__") or getattr(answer, "ndim", 0):
        raise WrongAnswer(f"{what} is {shown(answer)}, must be a number")
    try:
        number = float(answer)  # pyright: ignore[reportArgumentType]
    except (ValueError, OverflowError) as error:
        raise WrongAnswer(f"{what} is {shown(answer)}, must be a finite number") from error
    if not math.isfinite(number):
        raise WrongAnswer(f"{what} is {number}, must be a finite number")
    return number


def checked_reward(answer: object) -> float | None:
    """The answer of ``reward``; None is allowed (not scored).

    Raises:
        WrongAnswer: It is neither a finite number nor None.
    """
    return None if answer is None else checked_number(answer, "the reward")


def checked_facts(answer: object) -> tuple[str, ...]:
    """The answer of ``needed``.

    Raises:
        WrongAnswer: It is no sequence of texts.
    """
    if isinstance(answer, str) or not isinstance(answer, Sequence) or not all(isinstance(f, str) for f in answer):
        raise WrongAnswer(f"needed returned {shown(answer)}, must be a sequence of texts")
    return tuple(answer)


def checked_text(answer: object, method: str) -> str:
    """The answer of ``keep`` or ``task_text``.

    Raises:
        WrongAnswer: It is no text.
    """
    if not isinstance(answer, str):
        raise WrongAnswer(f"{method} returned {shown(answer)}, must be text")
    return answer


def checked_metrics(answer: object) -> dict[str, float]:
    """The answer of ``metrics``.

    Raises:
        WrongAnswer: It is no mapping from names to finite numbers.
    """
    if not isinstance(answer, Mapping):
        raise WrongAnswer(f"metrics returned {shown(answer)}, must be a mapping")
    return {str(name): checked_number(value, f"metric '{name}'") for name, value in answer.items()}


def shown(answer: Any) -> str:
    """What an answer is, in at most some words."""
    try:
        text = repr(answer)
    except Exception as error:
        text = f"(its repr raises {type(error).__name__})"
    return f"{type(answer).__name__} {text[:80]}{'...' if len(text) > 80 else ''}"


FAILURES = (Status.ENVIRONMENT_ERROR, Status.ENGINE_ERROR, Status.TIMED_OUT, Status.ENDLESS)


def failures(episodes: Iterable[Episode]) -> str:
    """One line that says how many episodes failed, of what, and the commonest error; empty where none did."""
    everyone = list(episodes)
    failed = [episode for episode in everyone if episode.status in FAILURES]
    if not failed:
        return ""
    counts = Counter(episode.status.value for episode in failed)
    ((error, times),) = Counter(episode.error or "no reason given" for episode in failed).most_common(1)
    named = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    return f"{len(failed)} of {len(everyone)} episodes failed ({named}); {times} of them: {error[:300]}"
