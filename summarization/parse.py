"""A summary reply taken apart: scratch space, the summary proper, and what is wrong with it.

The policy may think in ``<scratch>...</scratch>`` before the summary; only the summary is carried over. A reply is
*malformed* when its scratch space is never closed, is closed without being opened, or no summary follows it. It is
*cut off* when it ran into its token limit. What can be saved of a bad reply is saved, and the fault is reported.
"""

from __future__ import annotations

from dataclasses import dataclass

SCRATCH_OPEN = "<scratch>"
SCRATCH_CLOSE = "</scratch>"


@dataclass(frozen=True)
class Summary:
    """What a summary reply held.

    Attributes:
        text: The summary proper, stripped. Empty when the reply held none.
        scratch: What was thought before it.
        malformed: The reply broke the form.
        cut_off: The reply ran into its token limit.
    """

    text: str
    scratch: str = ""
    malformed: bool = False
    cut_off: bool = False


def parse_summary(reply: str, cut_off: bool = False) -> Summary:
    """Take a reply apart. Never raises: every string is some summary.

    Args:
        reply: The decoded reply, control tokens removed.
        cut_off: Whether sampling stopped at the token limit.
    """
    before, opened, rest = reply.partition(SCRATCH_OPEN)
    if not opened:
        text = reply.strip()
        stray = SCRATCH_CLOSE in text
        if stray:
            text = text.rpartition(SCRATCH_CLOSE)[2].strip()
        return Summary(text, malformed=stray or not text, cut_off=cut_off)
    scratch, closed, after = rest.partition(SCRATCH_CLOSE)
    if not closed:
        return Summary(before.strip(), scratch.strip(), malformed=True, cut_off=cut_off)
    text = f"{before.strip()}\n{after.strip()}".strip()
    stray = SCRATCH_OPEN in text or SCRATCH_CLOSE in text
    return Summary(text, scratch.strip(), malformed=stray or not text, cut_off=cut_off)
