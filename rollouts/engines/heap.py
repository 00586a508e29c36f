"""Lets the C library keep what the process frees, where models run on the CPU.

Without a word, glibc hands large freed blocks back to the operating system at once, and the next layer of the same
forward pays for fresh pages: 13 % of an evaluation's processor time. What is kept is bounded by the peak, which does
not change.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

# From glibc's <malloc.h>.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 2**31 - 1
# The largest that glibc accepts.
_LARGEST_BLOCK = 32 * 2**20


@cache
def keep_freed_memory() -> bool:
    """Raise glibc's thresholds, once a process; returns whether they are raised.

    Whoever set one in the environment (``MALLOC_TRIM_THRESHOLD_`` and so on) is left alone, and so are systems with
    another C library.
    """
    if not sys.platform.startswith("linux") or any(
        name.startswith("MALLOC_") or (name == "GLIBC_TUNABLES" and "malloc" in value)
        for name, value in os.environ.items()
    ):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version") or not hasattr(library, "mallopt"):
        return False
    return all(
        library.mallopt(option, size) == 1
        for option, size in ((_MMAP_THRESHOLD, _LARGEST_BLOCK), (_TRIM_THRESHOLD, _KEPT_BYTES))
    )
