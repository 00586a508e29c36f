"""What stops a run from outside: Ctrl-C, SIGTERM, a full disk."""

from __future__ import annotations

import errno
import os
import signal
import threading
from types import FrameType

# A disk that is full, over its quota, or read-only; a file over the size that the process may write, or not its own.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EACCES)


class Interrupted(KeyboardInterrupt):
    """A signal asked the process to end."""


class Interrupts:
    """Within it, SIGINT and SIGTERM raise :class:`Interrupted`, and are remembered.

    A second signal raises again, so that a process that is busy tidying up can be stopped too. Elsewhere than in the
    main thread it does nothing, since only there signals can be handled.

    Attributes:
        received: The signals, in order.
    """

    def __init__(self) -> None:
        self.received: list[int] = []
        self._before: dict[int, object] = {}

    @property
    def exit_code(self) -> int:
        """As shells count it: 130 for SIGINT, 143 for SIGTERM; 0 where nothing came."""
        return 128 + self.received[0] if self.received else 0

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._raise)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _raise(self, number: int, _frame: FrameType | None) -> None:
        self.received.append(number)
        raise Interrupted(signal.Signals(number).name)


def no_room(error: BaseException) -> str | None:
    """Why a file could not be written, where that is what an error says; None for any other error.

    Libraries that write files in other languages say so in words of their own.
    """
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
    text = str(error)
    for number in _NO_ROOM:
        if os.strerror(number) in text or f"(os error {number})" in text:
            return " ".join(text.split())[:300]
    # What torch.save says of a file that could not be written to its end.
    if "PytorchStreamWriter failed writing" in text or "unexpected pos" in text:
        return " ".join(text.split())[:300]
    return no_room(error.__context__) if error.__context__ is not None else None
