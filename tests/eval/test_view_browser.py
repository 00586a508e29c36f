"""The viewer in a real browser: what a person does with it. Skipped where there is none."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eval.view import show
from eval.viewer.page import build
from eval.viewer.text import Decoder
from rollouts.policies.tiny import tiny_tokenizer
from rollouts.rendering import Renderer
from tests.eval.view_worlds import FACTS, HOSTILE, byte_tokenizer, group, hostile, long, many, written

playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra 'browser' (playwright)")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium or Chrome on the PATH")
DESKTOP, PHONE = {"width": 1300, "height": 850}, {"width": 375, "height": 740}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        # In a container the user is often root, whom Chromium's sandbox refuses.
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Opened:
    """A page that was opened from disk, with all that went wrong and all that it asked the network for."""

    def __init__(self, browser: Any, path: Path, size: dict[str, int], fragment: str = "", dark: bool = False) -> None:
        self.page = browser.new_context(viewport=size, color_scheme="dark" if dark else "light").new_page()
        # On a machine that is busy with other work, a browser may wait long for its turn.
        self.page.set_default_timeout(120_000)
        self.wrong: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.wrong.append(message.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri() + fragment)
        self.page.wait_for_selector(".card", state="attached")

    def text(self, selector: str) -> str:
        return re.sub(r"\s+", " ", self.page.locator(selector).first.inner_text())

    def settled(self, place: str) -> None:
        """Wait until the first pane stands at ``place``."""
        self.page.wait_for_function(f"document.querySelector('.place').textContent === '{place}'")


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer(byte_tokenizer())


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory, renderer: Renderer) -> Path:
    folder = tmp_path_factory.mktemp("three")
    renderer.tokenizer.save_pretrained(folder / "policy")
    show(written(folder / "episodes.jsonl.gz", group(renderer)), policy=str(folder / "policy"))
    return folder / "episodes.html"


def test_it_opens_from_disk_and_says_what_was_kept(browser: Any, three: Path) -> None:
    opened = Opened(browser, three, DESKTOP)
    assert opened.text(".verdict") == "4 windows, 3 compactions. 2 of 2 needed facts reached the last window."
    assert opened.page.locator(".option").count() == 3
    assert opened.text(".scores") == (
        "reward 1.00 mean of 3 attempts here 0.50 advantage +0.50 status finished facts kept per compaction 100 % "
        f"tokens in windows {sum(s.length for s in group(Renderer(byte_tokenizer()))[0].segments):,} sampled "
        f"{group(Renderer(byte_tokenizer()))[0].sampled_tokens}"
    )
    assert opened.page.locator(".card mark.kept").all_inner_texts() == [FACTS[0]]
    assert opened.asked == [three.as_uri()]
    assert opened.wrong == []


def test_the_keyboard_goes_from_episode_to_loss_to_window(browser: Any, three: Path) -> None:
    opened = Opened(browser, three, DESKTOP)
    keys = opened.page.keyboard
    keys.press("j")
    opened.settled("window 2 of 4")  # the first loss
    assert opened.text(".verdict").endswith(f"lost on the way: {FACTS[0]} (compaction 2).")
    assert opened.text(".card").startswith("Compaction 2 200 →")
    assert opened.page.locator(".card .facts.lost li").all_inner_texts() == [FACTS[0]]
    assert opened.page.locator(".card mark.kept").all_inner_texts() == [FACTS[1].upper()]
    assert opened.page.locator(".column mark.lost").all_inner_texts() == [FACTS[0]]
    keys.press("ArrowRight")
    opened.settled("window 3 of 4")
    assert opened.page.locator(".card .facts.gone li").all_inner_texts() == [FACTS[0]]
    keys.press("ArrowRight")
    keys.press("ArrowRight")
    opened.settled("window 4 of 4")
    assert opened.text(".card h3") == "The last window"
    keys.press("n")
    opened.settled("window 2 of 4")
    keys.press("j")
    opened.settled("window 1 of 4")
    assert opened.page.evaluate("location.hash") == "#e=3&w=1"
    opened.page.locator(".band").focus()
    keys.press("End")
    opened.settled("window 4 of 4")
    assert opened.page.locator(".band").get_attribute("aria-valuenow") == "4"
    opened.page.locator(".cross").first.click()
    opened.settled("window 1 of 4")
    assert opened.wrong == []


def test_roles_and_texts_stand_in_their_order(browser: Any, three: Path) -> None:
    opened = Opened(browser, three, DESKTOP, "#e=1&w=2")
    opened.settled("window 2 of 4")
    shown = [re.sub(r"\s+", " ", text) for text in opened.page.locator(".column article:visible").all_inner_texts()]
    assert shown[:3] == [
        f"user, carried over Summary: {FACTS[0]}",
        f"user Snow fell. {FACTS[1]}.",
        "user Summarize.",
    ]
    assert shown[3].startswith("summary ")
    assert shown[3].endswith(f"advantage +0.50 {FACTS[0]}; {FACTS[1]}<|end|>")


def test_filter_and_sort(browser: Any, three: Path) -> None:
    opened = Opened(browser, three, DESKTOP)
    page = opened.page

    def rewards() -> list[str]:
        return page.locator(".option .reward").all_inner_texts()

    page.keyboard.press("/")
    page.keyboard.type("reward<1")
    assert rewards() == ["0.50", "0.00"]
    assert opened.text("#count") == "2 of 3 episodes"
    page.locator("#query").fill("reward<1 reward>0")
    assert rewards() == ["0.50"]
    page.locator("#query").fill("nowhere")
    assert rewards() == []
    page.locator("#query").press("Escape")
    page.locator("#sort").select_option("reward")
    assert rewards() == ["0.00", "0.50", "1.00"]
    page.locator("#direction").click()
    assert rewards() == ["1.00", "0.50", "0.00"]
    page.locator("#list").focus()
    page.keyboard.press("End")
    opened.settled("window 1 of 4")
    assert page.locator(".option[aria-selected=true] .reward").inner_text() == "0.00"
    assert opened.wrong == []


def test_two_attempts_side_by_side_turn_together(browser: Any, three: Path) -> None:
    opened = Opened(browser, three, DESKTOP)
    page = opened.page
    page.locator(".compare").select_option(index=2)
    page.wait_for_selector(".pane:nth-child(2) .card")
    left, right = (page.locator(".pane").nth(at).bounding_box() for at in (0, 1))
    assert abs(left["y"] - right["y"]) < 2
    assert left["x"] + left["width"] <= right["x"] + 1
    opened.settled("window 1 of 4")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("[...document.querySelectorAll('.place')].every((e) => e.textContent === 'window 2 of 4')")
    assert page.evaluate("location.hash") == "#e=1&w=2&c=3&v=2"
    again = Opened(browser, three, DESKTOP, "#e=1&w=2&c=3&v=2")
    again.page.wait_for_selector(".pane:nth-child(2) .card")
    assert again.page.locator(".pane").count() == 2
    page.keyboard.press("Escape")
    page.wait_for_function("document.querySelectorAll('.pane').length === 1")
    assert opened.wrong == []


def test_sampled_tokens_are_shaded_on_request(browser: Any, three: Path) -> None:
    opened = Opened(browser, three, DESKTOP)
    page = opened.page
    assert page.locator(".token").count() == 0
    page.keyboard.press("s")
    page.wait_for_selector(".token")
    tokens = page.locator("article.summary .token")
    assert tokens.count() == len(FACTS[0]) + 1
    assert tokens.nth(20).get_attribute("title").startswith("log-probability −0.200")
    shades = page.evaluate("[...document.querySelectorAll('.token')].map((e) => e.style.backgroundColor)")
    assert len(set(shades)) > 3
    page.keyboard.press("s")
    page.wait_for_function("document.querySelector('.token').title === 'advantage +0.500'")
    assert opened.wrong == []


def test_hostile_text_is_text(browser: Any, renderer: Renderer, tmp_path: Path) -> None:
    page = build(
        HOSTILE, HOSTILE, [(HOSTILE, hostile(renderer)), ("", group(renderer)[0])], Decoder(renderer.tokenizer)
    )
    (tmp_path / "hostile.html").write_bytes(page.content)
    opened = Opened(browser, tmp_path / "hostile.html", DESKTOP)
    page = opened.page
    for key in ("s", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
        page.wait_for_timeout(100)
    page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    assert page.evaluate("globalThis.harmed") is None
    assert page.locator("img").count() == 0
    assert page.locator("#main script, #main style, #side script, #side style").count() == 0
    for place in (".head", ".verdict", ".card", ".column", "p.flaw", "#note", ".option", ".metrics"):
        assert "window.harmed = 1" in page.locator(place).first.inner_text(), place
    everything = page.evaluate("document.body.innerText")
    assert "␛[31mred" in everything
    assert "⟨U+202E⟩gnp.exe" in everything
    assert not re.search("[\x00\x1b\u202e]", everything)
    assert (opened.wrong, len(opened.asked)) == ([], 1)


def test_a_phone_shows_the_list_then_the_episode(browser: Any, three: Path) -> None:
    opened = Opened(browser, three, PHONE)
    page = opened.page

    def too_wide() -> int:
        return page.evaluate("document.documentElement.scrollWidth - innerWidth")

    assert (page.locator("#side").is_visible(), page.locator(".verdict").is_visible(), too_wide()) == (True, False, 0)
    page.locator(".option").nth(1).click()
    opened.settled("window 2 of 4")
    assert (page.locator("#side").is_visible(), page.locator(".verdict").is_visible(), too_wide()) == (False, True, 0)
    assert page.locator(".band canvas").bounding_box()["width"] > 300
    page.locator(".compare").select_option(index=1)
    page.wait_for_selector(".pane:nth-child(2) .card")
    first, second = (page.locator(".pane").nth(at).bounding_box() for at in (0, 1))
    assert second["y"] >= first["y"] + first["height"]
    assert too_wide() == 0
    page.locator(".back").first.click()
    assert page.locator("#side").is_visible()
    assert opened.wrong == []


def test_it_is_dark_where_the_reader_wants_it_dark(browser: Any, three: Path) -> None:
    papers = []
    for dark in (False, True):
        opened = Opened(browser, three, DESKTOP, dark=dark)
        papers.append(opened.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert papers == ["rgb(250, 247, 241)", "rgb(23, 24, 27)"]


def test_a_damaged_page_says_so(browser: Any, three: Path, tmp_path: Path) -> None:
    damaged = re.sub(rb'(id="index">).{40}', rb"\1" + b"A" * 40, three.read_bytes())
    (tmp_path / "damaged.html").write_bytes(damaged)
    page = browser.new_page()
    page.goto((tmp_path / "damaged.html").as_uri())
    page.wait_for_selector("#main .flaw")
    assert "This page cannot be read" in page.locator("#main").inner_text()


@pytest.mark.slow
def test_a_thousand_episodes_and_a_million_tokens_stay_small_in_the_page(browser: Any, tmp_path: Path) -> None:
    decoder = Decoder(tiny_tokenizer())
    page = build("many", "", [("", episode) for episode in [long(250, 4000), *many(1000)]], decoder)
    assert page.tokens > 1_000_000
    (tmp_path / "many.html").write_bytes(page.content)
    opened = Opened(browser, tmp_path / "many.html", DESKTOP)
    nodes = "document.querySelectorAll('*').length"
    assert opened.page.locator(".option").count() < 40
    assert opened.page.evaluate(nodes) < 2500
    opened.page.keyboard.press("End")
    opened.page.locator("#list").focus()
    opened.page.keyboard.press("End")
    opened.page.wait_for_selector("#option-1000")
    assert opened.page.locator(".option").count() < 40
    opened.page.keyboard.press("Home")
    opened.page.wait_for_function("document.querySelector('.place').textContent.endsWith('of 250')")
    for _ in range(5):
        opened.page.keyboard.press("n")
    assert opened.page.evaluate(nodes) < 2500
    assert opened.wrong == []


@pytest.mark.slow
def test_a_window_of_a_million_tokens_is_filled_as_it_is_read(browser: Any, tmp_path: Path) -> None:
    page = build("one", "", [("", long(1, 1_000_000))], Decoder(tiny_tokenizer()))
    (tmp_path / "one.html").write_bytes(page.content)
    opened = Opened(browser, tmp_path / "one.html", DESKTOP)
    before = opened.page.evaluate("document.querySelectorAll('article').length")
    assert 0 < before < 400
    opened.page.evaluate("scrollTo(0, document.body.scrollHeight / 2)")
    opened.page.wait_for_function(f"document.querySelectorAll('article').length > {before}")
    assert opened.page.evaluate("document.querySelectorAll('article').length") < 1000
    assert opened.wrong == []
