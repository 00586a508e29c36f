"""Shows episodes in a browser: ``python -m eval.view RUN_OR_EPISODES``.

RUN_OR_EPISODES is a training run's folder, an evaluation's, or a file ``*.jsonl.gz`` of episodes. One HTML file is
written that needs nothing else; open it from disk, send it to someone, or serve it to this machine with ``--serve``.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from eval.viewer.page import Page, build
from eval.viewer.serve import server
from eval.viewer.sources import Input, Source, find
from eval.viewer.text import Decoder
from rollouts.episode import Episode
from rollouts.files import write_atomically
from rollouts.policies.load import load_tokenizer
from rollouts.storage import read_episodes
from summarization.resolve import UserError

LARGE = 200_000_000
"""Bytes from which on a browser may take longer than a person likes."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code: 0 done, 2 a mistake in what was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m eval.view", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path, metavar="RUN_OR_EPISODES")
    parser.add_argument("--out", type=Path, help="the HTML file; by default beside the episodes")
    parser.add_argument("--policy", help="folder or hub id whose tokenizer wrote the episodes; by default the run's")
    parser.add_argument("--trust_policy_code", action="store_true", help="run code that comes with the policy's files")
    parser.add_argument("--limit", type=int, default=0, help="show the first so many episodes; 0 for all")
    parser.add_argument("--serve", action="store_true", help="serve the page on 127.0.0.1 until Ctrl-C")
    parser.add_argument("--port", type=int, default=0, help="with --serve; 0 takes a free one")
    asked = parser.parse_args(argv)
    console = Console(highlight=False, soft_wrap=True)
    try:
        page = show(asked.path, asked.out, asked.policy, asked.trust_policy_code, asked.limit, console)
        if asked.serve:
            _serve(page, asked.port, console)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def show(
    path: Path,
    out: Path | None = None,
    policy: str | None = None,
    trust_policy_code: bool = False,
    limit: int = 0,
    console: Console | None = None,
) -> Page:
    """Write the page of the episodes that ``path`` stands for; the arguments are the command's.

    Raises:
        UserError: There are no episodes, they cannot be read, or the page cannot be written.
    """
    if limit < 0:
        raise UserError(f"--limit is {limit}: name how many episodes to show, or 0 for all")
    console = console or Console(quiet=True)
    given = find(path)
    decoder, note = decoder_of(given, policy, trust_policy_code) if _have_tokens(given.sources) else (None, "")
    episodes = itertools.islice(_episodes(given.sources), limit or None)
    page = build(given.title, note, episodes, decoder)
    if not page.episodes:
        raise UserError(f"{path}: holds no whole episode yet; wait for the run to write one")
    target = out or given.page
    try:
        write_atomically(target, page.content)
    except OSError as error:
        raise UserError(f"{target}: cannot be written ({error}); name another file with --out") from error
    console.print(
        f"{page.episodes:,} episodes, {page.tokens:,} tokens, {len(page.content) / 1e6:.1f} MB: {target}", markup=False
    )
    if note:
        console.print(note, markup=False)
    if len(page.content) > LARGE:
        console.print("this is much for a browser; --limit shows fewer episodes", markup=False)
    return page


def decoder_of(given: Input, policy: str | None, trust_policy_code: bool) -> tuple[Decoder | None, str]:
    """What reads the token ids, and what to tell the reader where nothing does.

    Raises:
        UserError: The policy that the user named cannot be loaded.
    """
    if policy is not None:
        return Decoder(load_tokenizer(policy, trust_policy_code)), ""
    fallback = "Token ids are not shown as text, only what the file holds as text: summaries, acts and facts. "
    if given.policy is None:
        return None, f"{fallback}The file names no policy; name one with --policy."
    try:
        return Decoder(load_tokenizer(given.policy, trust_policy_code)), ""
    except UserError as error:
        return None, f"{fallback}{error}; name one with --policy."


def _have_tokens(sources: Sequence[Source]) -> bool:
    """Whether token ids were kept: an evaluation keeps none, and then no tokenizer is asked for."""
    return any(episode.segments for source in sources for episode in itertools.islice(read_episodes(source.file), 1))


def _episodes(sources: Sequence[Source]) -> Iterator[tuple[str, Episode]]:
    for source in sources:
        for episode in read_episodes(source.file):
            yield source.label, episode


def _serve(page: Page, port: int, console: Console) -> None:
    with server(page.content, port) as made:
        console.print(
            f"serving on http://{made.server_address[0]}:{made.server_address[1]}/ until Ctrl-C", markup=False
        )
        try:
            made.serve_forever()
        except KeyboardInterrupt:
            console.print("stopped", markup=False)


if __name__ == "__main__":
    sys.exit(main())
