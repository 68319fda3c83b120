"""The site is built without a warning, its links lead somewhere, and it works without a network."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from website.check import problems

from tests.dashboard.browser import CHROMIUM, HEADLESS, chromium
from tests.tidy.repository import ROOT

LANGUAGES = {
    "en": ("", "executions", "Runs, jobs and executions"),
    "ja": ("ja/", "エグゼキューション", "実行、ジョブ、エグゼキューション"),
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not HEADLESS.exists() and not CHROMIUM.exists():
        pytest.skip("no browser: on Debian, as root, run `apt-get install chromium`")
    with chromium() as started:
        yield started


def test_every_link_leads_somewhere_and_nothing_comes_from_another_host(built: Path) -> None:
    assert problems(built) == []


def test_the_check_finds_what_it_is_for(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "index.html").write_text('<h1 id="top">Other</h1><a href="../#part">back</a>')
    (tmp_path / "index.html").write_text(
        '<a href="other/#top">fine</a><a href="other/#bottom">1</a><a href="gone/">2</a>'
        '<a href="https://example.org">fine</a><script src="https://example.org/a.js"></script>'
    )
    (tmp_path / "a.css").write_text("@font-face{src:url(https://example.org/font.woff2)}")
    assert problems(tmp_path) == [
        "index.html loads https://example.org/a.js",
        "index.html links to other/#bottom, and the page has no such part",
        "index.html links to gone/, which is not there",
        "other/index.html links to ../#part, and the page has no such part",
        "a.css loads from another host",
    ]


def test_every_operation_of_the_api_has_its_section(built: Path) -> None:
    pages = {page.parent.name: page.read_text() for page in built.glob("reference/http/*/index.html")}
    described = json.loads((ROOT / "docs" / "openapi.json").read_text(encoding="utf-8"))
    operations = (f"{method.upper()} {path}" for path, item in described["paths"].items() for method in item)
    sections = "".join(pages.values())
    assert [one for one in operations if f"<code>{one}</code>" not in sections] == []
    assert "daily_report" in pages["runs"]  # of the recorded example


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_reader_searches_and_follows_a_result_without_a_network(
    browser: Browser, address: str, language: str
) -> None:
    home, words, title = LANGUAGES[language]
    with browser.new_context(locale=language) as context:
        page = context.new_page()
        said: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{address}/{home}")
        expect(page.locator("html")).to_have_attribute("lang", language)
        page.get_by_role("searchbox").or_(page.locator(".md-search__input")).first.fill(words)
        page.locator(".md-search-result__link", has_text=title).first.click()
        expect(page.locator("article")).to_contain_text(title)
        assert f"/{home}" in page.url
        assert said == []
        assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


def test_the_reader_changes_the_language_of_a_page(browser: Browser, address: str) -> None:
    with browser.new_context(locale="en") as context:
        page = context.new_page()
        page.goto(f"{address}/concepts/glossary/")
        page.locator("a[hreflang=ja]").first.dispatch_event("click")
        page.wait_for_url(f"{address}/ja/concepts/glossary/")
        expect(page.locator("html")).to_have_attribute("lang", "ja")


def test_a_page_in_japanese_answers_to_english_anchors_and_has_no_spaces_at_ends_of_lines(
    built: Path,
) -> None:
    page = (built / "ja" / "concepts" / "engine" / "index.html").read_text()
    assert re.search(r'<h2 id="再試行">再試行 <a id="retries"></a>', page)
    assert re.search(r"[。、]\s+[\u3040-\u30ff\u4e00-\u9fff]", page) is None


@pytest.mark.parametrize(("home", "name"), [("", "Project"), ("ja/", "プロジェクト")])
def test_each_tab_leads_to_the_first_page_of_its_section(
    browser: Browser, address: str, home: str, name: str
) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{address}/{home}")
        page.locator(".md-tabs__link", has_text=name).click()
        page.wait_for_url(f"{address}/{home}concepts/comparison/")
