"""A real browser for the tests: Chromium, driven by Playwright; its words, and what it complains of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from pyoco_server.http_api.pages import BUILT

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = Path("/usr/bin/chromium")
# The same engine without the windows, menus and extensions around it: a page takes less than half of the
# processor time. It is a package of its own, which not every distribution has.
HEADLESS = Path("/usr/bin/chromium-headless-shell")
# Without a sandbox, as root; and without a word to the outside.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
PATIENCE_MS = 30_000
# A browser tells of every refusal; the tests that provoke one look at what the page makes of it.
REFUSED = "the server responded with a status of 422"
WINDOW = {"width": 1360, "height": 860}
PHONE = {"width": 390, "height": 844}

expect.set_options(timeout=PATIENCE_MS)


def require_browser() -> None:
    """Says exactly what is missing."""
    if not _installed().exists():
        pytest.skip(f"no browser at {CHROMIUM}: on Debian, as root, run `apt-get install chromium`")
    if not (BUILT / "index.html").is_file():
        pytest.skip("the dashboard is not built: install Node 20 or newer and run `make dashboard`")


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_installed(), args=list(FLAGS))
        yield browser
        browser.close()


def _installed() -> Path:
    return HEADLESS if HEADLESS.exists() else CHROMIUM


@cache
def catalogue(language: str) -> dict[str, str]:
    """Key and sentence, as the page has them."""
    files = (ROOT / "dashboard" / "src" / "text").glob(f"{language}*.ts")
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    found = re.findall(r"^  '([^']+)': (?:'((?:[^'\\]|\\.)*)'|\"([^\"]*)\"),$", text, re.MULTILINE)
    return {key: one or other for key, one, other in found}


@dataclass
class Visit:
    """A page in a browser, in one language. Whatever it complains of is kept."""

    page: Page
    url: str
    language: str
    complaints: list[str] = field(default_factory=list)
    forgives: Callable[[str], bool] = lambda _: False

    def open(self, address: str) -> None:
        self.page.goto(f"{self.url}/#{address}")

    def word(self, key: str, **values: object) -> str:
        sentence = catalogue(self.language)[key]
        return re.sub(r"\{(\w+)\}", lambda found: str(values.get(found[1], found[0])), sentence)

    def button(self, key: str, **values: object) -> Locator:
        return self.page.get_by_role("button", name=self.word(key, **values), exact=True)

    def dialog_button(self, key: str) -> Locator:
        return self.page.locator("dialog").get_by_role("button", name=self.word(key), exact=True)

    def answer(self, card: Locator, decision: str) -> None:
        """Approve or reject on a card, with the question whether that is meant."""
        word = self.word(f"approvals.{decision}")
        card.locator(".buttons").get_by_role("button", name=word, exact=True).first.click()
        self.page.locator("dialog").get_by_role("button", name=word, exact=True).click()

    def sees(self, text: str) -> None:
        expect(self.page.get_by_text(text).first).to_be_visible()

    def status_is(self, status: str) -> None:
        expect(self.page.locator(f".run-status [data-status={status}]")).to_be_visible()

    def node_is(self, name: str, *statuses: str) -> None:
        wanted = ", ".join(f'.node[data-node="{name}"][data-status="{status}"]' for status in statuses)
        expect(self.page.locator(wanted)).to_be_visible()

    @property
    def run_id(self) -> str:
        self.page.wait_for_url(re.compile(r"#/runs/[0-9a-f-]{36}"))
        found = re.search(r"#/runs/([0-9a-f-]{36})", self.page.url)
        assert found is not None
        return found[1]

    def start(self, flow: str, params: str = "{}") -> str:
        """Start a flow from its page: the run that is shown then."""
        self.open("/flows")
        label = f"{self.word('flows.start')}: {flow}"
        self.page.get_by_role("button", name=label, exact=True).click()
        dialog = self.page.locator("dialog")
        dialog.get_by_label(self.word("flows.submit.tag")).fill("default")
        self.fill_params(params)
        dialog.locator("button[type=submit]").click()
        return self.run_id

    def fill_params(self, params: str) -> Locator:
        """Write parameters as JSON into the dialog that is open."""
        dialog = self.page.locator("dialog")
        dialog.get_by_role("tab", name=self.word("form.mode.json"), exact=True).click()
        field = dialog.get_by_label(self.word("flows.submit.params"))
        field.fill(params)
        return field


@contextmanager
def visit(
    browser: Browser,
    url: str,
    language: str = "en",
    *,
    window: dict[str, int] = WINDOW,
    theme: str = "light",
    forgives: Callable[[str], bool] = lambda _: False,
) -> Iterator[Visit]:
    """A page of its own, without memory; what its console or its scripts complain of fails the test."""
    context = browser.new_context(viewport=window, color_scheme=theme, locale=language)  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    shown = Visit(page, url, language, forgives=forgives)
    page.on("pageerror", lambda error: shown.complaints.append(str(error)))
    page.on(
        "console",
        lambda message: shown.complaints.append(message.text) if message.type == "error" else None,
    )
    yield shown
    context.close()
    assert [one for one in shown.complaints if REFUSED not in one and not shown.forgives(one)] == []
