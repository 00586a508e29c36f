"""Freed memory is kept, unless somebody has said what is to be done with it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# A block below the largest that is kept, freed and asked for again twenty times.
SCRIPT = """
import resource
import torch
from rollouts.engines.heap import keep_freed_memory

kept = keep_freed_memory()
assert keep_freed_memory() == kept

def faults(megabytes):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.ones(megabytes * 2**18)
        torch.ones(megabytes * 2**18)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults(24)
print(kept, faults(24))
"""


def run(**environment: str) -> tuple[bool, int]:
    """Whether memory is kept, and how many pages the second round had to be given."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    plain["PYTHONPATH"] = os.getcwd()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={**plain, **environment}, capture_output=True, text=True, check=True
    )
    kept, faults = done.stdout.split()
    return kept == "True", int(faults)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_what_was_freed_is_not_fetched_again() -> None:
    kept, faults = run()
    if not kept:
        pytest.skip("this C library has no such settings")
    assert faults < 100


@pytest.mark.parametrize(
    "setting", [{"MALLOC_TRIM_THRESHOLD_": "131072"}, {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=7"}]
)
def test_whoever_set_it_is_left_alone(setting: dict[str, str]) -> None:
    kept, _ = run(**setting)
    assert not kept
