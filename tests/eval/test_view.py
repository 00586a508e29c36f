"""What the viewer's page holds: its data, its sizes, and no markup that an episode wrote."""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.client
import json
import re
import threading
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from eval.view import main, show
from eval.viewer.page import BLOCK_CHARACTERS, Blocks, build
from eval.viewer.records import facts, outline, row, texts
from eval.viewer.serve import server
from eval.viewer.text import Decoder
from rollouts.episode import Compaction, Episode, Status, TurnKind
from rollouts.policies.tiny import tiny_tokenizer
from rollouts.rendering import Renderer
from summarization.resolve import UserError
from tests.eval.view_worlds import FACTS, HOSTILE, LONE, byte_tokenizer, group, hostile, long, many, written


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer(byte_tokenizer())


class _Elements(HTMLParser):
    """The elements of a page, and what stands in each script."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.scripts: dict[str, str] = {}
        self._script: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "script":
            self._script = dict(attrs).get("id") or "viewer"
            self.scripts[self._script] = ""

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self.scripts[self._script] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = None


def elements(content: bytes) -> _Elements:
    parser = _Elements()
    parser.feed(content.decode("utf-8"))
    return parser


def unpacked(content: bytes) -> tuple[dict[str, Any], list[list[Any]]]:
    """The index of a page and its blocks, as a browser reads them."""
    scripts = elements(content).scripts
    read = {
        name: json.loads(gzip.decompress(base64.b64decode(text))) for name, text in scripts.items() if name != "viewer"
    }
    return read["index"], [read[f"block-{index}"] for index in range(len(read) - 1)]


def test_the_page_holds_what_the_episodes_hold(renderer: Renderer) -> None:
    episodes = group(renderer)
    page = build("run", "", [("", episode) for episode in episodes], Decoder(renderer.tokenizer))
    index, blocks = unpacked(page.content)
    assert page.episodes == len(index["rows"]) == 3
    assert page.tokens == sum(segment.length for episode in episodes for segment in episode.segments)
    for episode, shown in zip(episodes, index["rows"], strict=True):
        assert (shown["task"], shown["attempt"], shown["reward"]) == ("task", episode.attempt, episode.reward)
        assert (shown["compactions"], shown["status"]) == (3, "finished")
        block, place = shown["at"]
        told = blocks[block][place]
        assert [window["length"] for window in told["windows"]] == [segment.length for segment in episode.segments]
        for window, segment in zip(told["windows"], episode.segments, strict=True):
            (turn,) = window["turns"]
            assert turn[:3] == [len(segment.turns[0].appended_ids), len(segment.turns[0].sampled_ids), turn[2]]
            assert turn[5] == segment.turns[0].advantage
            block, place = window["at"]
            (said,) = blocks[block][place]["turns"]
            assert len(said["sampled"]) == len(said["logprobs"]) == turn[1]
            assert "".join(said["sampled"]) == renderer.decode(segment.turns[0].sampled_ids) + "<|end|>"
    assert [shown["held"] for shown in index["rows"]] == [[2, 2], [1, 2], [0, 2]]


def test_facts_are_followed_from_compaction_to_compaction(renderer: Renderer) -> None:
    kept, one, none = (facts(episode.compactions) for episode in group(renderer))
    assert kept == [[FACTS[0], [[0, 2, 1]]], [FACTS[1], [[1, 2, 1]]]]
    assert one == [[FACTS[0], [[0, 0, 1], [1, 2, 0]]], [FACTS[1], [[1, 2, 1]]]]
    assert none == [[FACTS[0], [[0, 2, 0]]], [FACTS[1], [[1, 1, 1], [2, 2, 0]]]]
    # Found again, not needed for a while, named twice.
    at = [(("a",), (True,)), (("a", "a"), (False, False)), ((), ()), (("a",), (True,))]
    chain = [Compaction(i, 9, 3, "", needed=needed, kept=held) for i, (needed, held) in enumerate(at)]
    assert facts(chain) == [["a", [[0, 0, 1], [1, 1, 0], [3, 3, 1]]]]


def test_messages_have_the_roles_that_the_template_gave_them(renderer: Renderer) -> None:
    episode = group(renderer)[0]
    first, second, *_ = texts(episode, Decoder(renderer.tokenizer))
    assert first["opening"] == (("system", "You read."), ("user", "Answer about task."))
    assert first["carried"] == ()
    assert second["opening"] == first["opening"]
    assert second["carried"] == (("user", f"Summary: {FACTS[0]}"),)
    assert first["turns"][0]["appended"] == (("user", f"Rain fell. {FACTS[0]}."), ("user", "Summarize."))
    assert first["summary"] == FACTS[0]


def test_a_page_that_spells_control_tokens_opens_no_message(renderer: Renderer) -> None:
    first, _ = texts(hostile(renderer), Decoder(renderer.tokenizer))
    assert [role for role, _ in first["turns"][0]["appended"]] == ["user", "user"]
    assert "<|end|><|system|>" in first["turns"][0]["appended"][0][1]


@pytest.mark.parametrize("text", ["naïve café", "日本語 😀!", "", "a\n\n b"])
def test_pieces_join_to_the_text(text: str, renderer: Renderer) -> None:
    ids = renderer.content_ids(text)
    pieces = Decoder(renderer.tokenizer).pieces(ids)
    assert len(pieces) == len(ids)
    assert "".join(pieces) == text


def test_pieces_of_broken_bytes_come_out_whole(renderer: Renderer) -> None:
    broken = (*renderer.content_ids("😀")[:3], *renderer.content_ids("é")[:1] * 12, *renderer.content_ids("ok"))
    pieces = Decoder(renderer.tokenizer).pieces(broken)
    assert len(pieces) == len(broken)
    assert "".join(pieces).endswith("ok")


def test_words_keep_their_spaces() -> None:
    tokenizer = tiny_tokenizer()
    decoder, ids = Decoder(tokenizer), [20, 30, 40, tokenizer.get_vocab()["<end>"]]
    assert "".join(decoder.pieces(ids)) == decoder.text(ids)


def test_nothing_that_an_episode_says_becomes_markup(renderer: Renderer) -> None:
    harmless = build("title", "", [("", group(renderer)[0])], Decoder(renderer.tokenizer))
    harmful = build(HOSTILE, HOSTILE, [(HOSTILE, hostile(renderer))], Decoder(renderer.tokenizer))
    assert elements(harmful.content).tags == elements(harmless.content).tags
    index, blocks = unpacked(harmful.content)
    assert index["rows"][0]["task"] == f"{HOSTILE} {LONE}"
    assert (index["rows"][0]["reward"], index["title"]) == ("nan", HOSTILE)
    block, place = index["rows"][0]["at"]
    told = blocks[block][place]
    assert told["metrics"] == {HOSTILE: "inf", "__proto__": 1.0}
    assert json.loads(told["given"]) == {HOSTILE: [LONE, "nan", {"__proto__": 1}]}


def test_only_the_viewers_own_script_may_run(renderer: Renderer) -> None:
    content = build("title", "", [("", group(renderer)[0])], None).content.decode()
    (allowed,) = re.findall(r"script-src 'sha256-([^']+)'", content)
    script = elements(content.encode()).scripts["viewer"]
    assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() == allowed
    assert "default-src 'none'" in content
    assert not re.findall(r"(?:src|href)=\"(?!#|data:)", content)
    # Markup is never made from strings.
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", script)


def test_without_a_tokenizer_the_page_shows_what_the_file_holds(renderer: Renderer) -> None:
    *earlier, last = texts(group(renderer)[1], None)
    assert [window["summary"] for window in earlier] == [FACTS[0], FACTS[1].upper(), FACTS[1].upper()]
    assert [window["turns"][0]["said"] for window in (*earlier, last)] == [FACTS[0], *[FACTS[1].upper()] * 3]
    assert all("appended" not in window["turns"][0] for window in (*earlier, last))


def test_an_episode_of_which_only_counts_were_kept(renderer: Renderer) -> None:
    whole = group(renderer)[0]
    counted = replace(whole, segments=(), metrics={"tokens_forwarded": 900.0})
    told = outline(counted)
    lengths = [200 + compaction.summary_tokens for compaction in whole.compactions]
    last = max(900 - sum(lengths), whole.compactions[-1].tokens_after)
    assert [window["length"] for window in told["windows"]] == [*lengths, last]
    assert not told["exact"]
    assert [turn[2] for window in told["windows"] for turn in window["turns"]] == [TurnKind.SUMMARY.value] * 3
    assert texts(counted, None)[-1]["acts"] == list(whole.acts)
    assert row(counted, "cell")["length"] == sum([*lengths, last])


def test_an_episode_that_never_began() -> None:
    nothing = Episode({}, "t", 0, (), (), None, Status.ENVIRONMENT_ERROR, error="KeyError: 'door'")
    assert row(nothing, "")["length"] == 0
    assert [window["length"] for window in outline(nothing)["windows"]] == [0]
    assert len(texts(nothing, None)) == 1


def test_blocks_are_cut_by_size_and_found_again() -> None:
    blocks = Blocks()
    records = ["x" * (BLOCK_CHARACTERS // 3), "y" * 10, "z" * (2 * BLOCK_CHARACTERS), LONE, {"a": 1}]
    places = [blocks.add(record) for record in records]
    blocks.close()
    read = [json.loads(gzip.decompress(base64.b64decode(block))) for block in blocks.closed]
    assert [read[block][place] for block, place in places] == records
    assert len(read) == 3


def test_the_list_is_small_beside_what_it_lists() -> None:
    page = build("many", "", [("", episode) for episode in many(200)], Decoder(tiny_tokenizer()))
    index = len(elements(page.content).scripts["index"])
    assert page.episodes == 200
    # What is read before the first row is shown: under 100 bytes an episode.
    assert index < 100 * 200
    assert len(page.content) < 10 * page.tokens + 80_000


def test_the_same_episodes_give_the_same_page() -> None:
    pages = [build("t", "", [("", long(3, 200))], Decoder(tiny_tokenizer())).content for _ in range(2)]
    assert pages[0] == pages[1]


def test_the_command_takes_a_file_a_training_run_and_an_evaluation(
    tmp_path: Path, renderer: Renderer, capsys: Any
) -> None:
    run = tmp_path / "run"
    written(run / "transcripts" / "episodes.jsonl.gz", group(renderer), policy="nowhere/at-all")
    renderer.tokenizer.save_pretrained(run / "policy")
    assert main([str(run)]) == 0
    index, _ = unpacked((run / "episodes.html").read_bytes())
    assert (index["title"], index["note"], len(index["rows"])) == ("run", "", 3)

    assert (
        main([str(run / "transcripts" / "episodes.jsonl.gz"), "--out", str(tmp_path / "a.html"), "--limit", "2"]) == 0
    )
    assert len(unpacked((tmp_path / "a.html").read_bytes())[0]["rows"]) == 2

    cells = tmp_path / "eval"
    counted = [replace(episode, segments=()) for episode in group(renderer)]
    for strategy in ("self_summary", "none"):
        written(cells / "samples" / f"{strategy}.jsonl.gz", counted, task="recall", strategy=strategy)
    (cells / "samples" / "torn.jsonl.gz").write_bytes(b"")
    assert main([str(cells)]) == 0
    index, _ = unpacked((cells / "episodes.html").read_bytes())
    assert [row["source"] for row in index["rows"]] == ["recall none"] * 3 + ["recall self_summary"] * 3
    assert index["note"] == ""
    assert "6 episodes" in capsys.readouterr().out


def test_a_policy_that_is_not_to_be_had_is_told_of(tmp_path: Path, renderer: Renderer) -> None:
    alone = written(tmp_path / "episodes.jsonl.gz", group(renderer))
    assert "names no policy; name one with --policy" in unpacked(show(alone).content)[0]["note"]
    named = written(tmp_path / "named.jsonl.gz", group(renderer), policy="./gone")
    index, blocks = unpacked(show(named).content)
    assert "policy is './gone'" in index["note"]
    assert "appended" not in json.dumps(blocks)
    byte_tokenizer().save_pretrained(tmp_path / "policy")
    index, blocks = unpacked(show(named, policy=str(tmp_path / "policy")).content)
    assert index["note"] == ""
    assert "appended" in json.dumps(blocks)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["gone"], "there is no such file or folder"),
        (["."], "holds no episodes"),
        (["empty.jsonl.gz"], "holds no whole episode yet"),
        (["text"], "is no file of episodes"),
        (["good.jsonl.gz", "--policy", "./gone"], "policy is './gone'"),
        (["good.jsonl.gz", "--limit", "-1"], "--limit is -1"),
        (["good.jsonl.gz", "--out", "text/page.html"], "cannot be written"),
        (["good.jsonl.gz", "--serve", "--port", "99999"], "--port is 99999"),
    ],
)
def test_a_mistake_ends_in_one_sentence(
    arguments: list[str], told: str, tmp_path: Path, renderer: Renderer, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "empty.jsonl.gz", [])
    written(tmp_path / "good.jsonl.gz", group(renderer))
    (tmp_path / "text").write_text("hello")
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert told in error
    assert error.count("\n") == 1


def test_the_server_gives_the_page_to_this_machine_and_nothing_else() -> None:
    with server(b"<p>page</p>") as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        try:
            assert made.server_address[0] == "127.0.0.1"
            answers = []
            for path, host in (("/", None), ("/?x", None), ("/etc/passwd", None), ("/../x", None), ("/", "evil.test")):
                asked = http.client.HTTPConnection("127.0.0.1", int(made.server_address[1]), timeout=10)
                asked.request("GET", path, headers={"Host": host} if host else {})
                answer = asked.getresponse()
                answers.append((answer.status, answer.read() == b"<p>page</p>"))
                asked.close()
        finally:
            made.shutdown()
            thread.join()
    assert answers == [(200, True), (200, True), (404, False), (404, False), (421, False)]


def test_a_taken_port_is_told_of() -> None:
    with server(b"") as made, pytest.raises(UserError, match="name another, or 0"):
        server(b"", int(made.server_address[1]))
