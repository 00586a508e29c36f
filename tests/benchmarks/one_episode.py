"""Started by ``test_scale`` in a process of its own: plays one episode and prints what it took, as JSON.

Usage: one_episode.py WORDS
"""

from __future__ import annotations

import json
import resource
import sys
import time

from rollouts.collect import collect
from rollouts.engines.transformers import TransformersEngine
from rollouts.environments.recall import Recall, tasks
from rollouts.jobs import jobs
from rollouts.policies.tiny import tiny_model, tiny_tokenizer
from rollouts.rendering import Renderer
from rollouts.runner import Limits
from summarization.prompts import TINY
from summarization.strategies import SelfSummary

WINDOW, SUMMARY, ACT = 256, 4, 4


def main() -> None:
    """Warm up on a short episode, then play the one asked for."""
    tokenizer = tiny_tokenizer()
    renderer = Renderer(tokenizer)
    engine = TransformersEngine(
        tiny_model(tokenizer, 0), window=WINDOW, stop_ids=renderer.stop_ids, temperature=0.0, max_sessions=1
    )

    def play(words: int) -> int:
        episodes = collect(
            jobs(
                list(tasks("test", 1, words, ["find"], 0)),
                lambda: Recall(page_words=32),
                SelfSummary(SUMMARY, style=TINY),
                0,
            ),
            {"policy": engine},
            renderer,
            Limits(WINDOW, ACT, keep_segments=False),
        )
        return int(episodes[0].metrics["tokens_forwarded"])

    play(2000)
    began = time.perf_counter()
    tokens = play(int(sys.argv[1]))
    seconds = time.perf_counter() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"tokens": tokens, "seconds": seconds, "peak_memory": memory}))


if __name__ == "__main__":
    main()
