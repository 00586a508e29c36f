"""Freed memory is kept, unless somebody has said what is to be done with it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Blocks below the largest that is kept, freed together and asked for again. Else glibc gives them back
# now and then, as it happens to have learned; with a low threshold (-3 is M_MMAP_THRESHOLD) it always does.
SCRIPT = """
import ctypes
import resource
import sys
import torch
from rollouts.engines.heap import keep_freed_memory

if hasattr(ctypes.CDLL(None), "mallopt"):
    ctypes.CDLL(None).mallopt(-3, 131072)
kept = sys.argv[1] == "keep" and keep_freed_memory()
assert sys.argv[1] != "keep" or keep_freed_memory() == kept

def faults(rounds):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(rounds):
        [torch.ones(24 * 2**18) for _ in range(6)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults(4)
print(kept, faults(10))
"""


def run(word: str = "keep", **environment: str) -> tuple[bool, int]:
    """Whether memory is kept, and how many pages the later rounds had to be given."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    plain["PYTHONPATH"] = os.getcwd()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, word], env={**plain, **environment}, capture_output=True, text=True, check=True
    )
    kept, faults = done.stdout.split()
    return kept == "True", int(faults)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_what_was_freed_is_not_fetched_again() -> None:
    kept, faults = run()
    if not kept:
        pytest.skip("this C library has no such settings")
    _, otherwise = run("free")
    # Huge pages are one fault for 512.
    assert otherwise >= 10 * 6 * 12
    assert faults < otherwise / 10


@pytest.mark.parametrize(
    "setting", [{"MALLOC_TRIM_THRESHOLD_": "131072"}, {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=7"}]
)
def test_whoever_set_it_is_left_alone(setting: dict[str, str]) -> None:
    kept, _ = run(**setting)
    assert not kept
