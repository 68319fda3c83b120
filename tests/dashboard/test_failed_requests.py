"""A request that failed: its error is shown with a button; it is repeated with growing pauses, or not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.cli.programs import Up, wait_for
from tests.dashboard.browser import Visit, visit

pytestmark = pytest.mark.slow

# The page shown, and the path it reads.
PAGES = {
    "/runs": "/runs",
    "/flows": "/flows",
    "/schedules": "/schedules",
    "/dlq": "/dlq",
    "/wheels": "/wheels",
}
MORE_PAGES = {"/approvals": "/approvals", "/system": "/system", "/strategies": "/gui/strategies"}
REFUSALS = [403, 422]
PASSING = [429, 500, 503, None]  # None: no answer at all
WINDOW_SEC = 60
# Pauses of 0.5 to 1 s, 1 to 2 s, ... and at most 30 s: no more than nine fit into the window.
REQUESTS_MAX = 9
# A refused request is sent once. A change that the gateway reports meanwhile asks once more: on a busy
# machine a heartbeat of the worker may be late. Repetitions with growing pauses would be three or more.
REFUSED_MAX = 2
# Of two seconds each, until a request is repeated.
STEPS_MAX = 60
# The page's clock runs ahead of the comments that the gateway sends. The page would take the gateway for
# silent, connect again, and rightly read everything again.
SILENCE_MS = 12_000
NEVER_SILENT = f"""(() => {{
  const wait = window.setTimeout
  window.setTimeout = (act, ms, ...more) => wait(act, ms === {SILENCE_MS} ? 2 ** 30 : ms, ...more)
}})()"""
COUNT_FETCHES = """(() => {
  const fetch = window.fetch
  window.fetchesUnderWay = 0
  window.fetch = (...asked) => {
    window.fetchesUnderWay += 1
    return fetch(...asked).finally(() => { window.fetchesUnderWay -= 1 })
  }
})()"""


@dataclass
class Failing:
    """Answers every GET of a path with an error, and counts."""

    page: Page
    path: str
    status: int | None
    headers: dict[str, str] = field(default_factory=dict)
    asked: int = 0

    def begin(self) -> None:
        self.page.route(self.matches, self.answer)

    def end(self) -> None:
        self.page.unroute(self.matches)

    def matches(self, url: str) -> bool:
        return urlsplit(url).path == self.path

    def answer(self, route: Route) -> None:
        self.asked += 1
        if self.status is None:
            route.abort("connectionrefused")
        else:
            body = json.dumps({"detail": f"refused with {self.status}"})
            route.fulfill(
                status=self.status, body=body, content_type="application/json", headers=self.headers
            )


@pytest.fixture
def troubled(browser: Browser, site: Up) -> Iterator[Visit]:
    """With a clock that the test moves."""
    with visit(browser, site.url, forgives=lambda said: "Failed to load resource" in said) as opened:
        opened.page.clock.install()
        opened.page.add_init_script(COUNT_FETCHES)
        opened.page.add_init_script(NEVER_SILENT)
        yield opened


def pass_time(shown: Visit, seconds: int, step_sec: int = 2) -> None:
    """Each request is answered before more time passes: an answer takes no time of the page."""
    for _ in range(0, seconds, step_sec):
        shown.page.clock.run_for(1000 * step_sec)
        wait_for(lambda: shown.page.evaluate("window.fetchesUnderWay ?? 0") == 0, "an answer to each request")


def open_anew(shown: Visit, address: str) -> None:
    """Without what the page before it has read: that would be shown, and the failure of the next read not."""
    shown.page.goto("about:blank")
    shown.open(address)


def pause_long(shown: Visit, failing: Failing) -> None:
    """Until the page pauses for minutes: then only a click ends the pause, and its button stays."""
    failing.status, failing.headers, asked = 503, {"Retry-After": "300"}, failing.asked
    for _ in range(STEPS_MAX):
        if failing.asked > asked:
            return
        pass_time(shown, 2)
    raise AssertionError("it was not repeated")


@pytest.mark.parametrize("status", REFUSALS)
def test_a_refused_request_is_shown_and_not_repeated(troubled: Visit, site: Up, status: int) -> None:
    for address, path in PAGES.items():
        failing = Failing(troubled.page, path, status)
        failing.begin()
        open_anew(troubled, address)
        alert = troubled.page.get_by_role("alert")
        expect(alert).to_contain_text(f"refused with {status}")
        pass_time(troubled, WINDOW_SEC)
        assert failing.asked <= REFUSED_MAX, f"{address} sent {failing.asked} requests in {WINDOW_SEC} s"
        expect(alert).to_contain_text(f"refused with {status}")
        failing.end()
        alert.get_by_role("button", name=troubled.word("do.again")).click()
        expect(alert).to_have_count(0)


@pytest.mark.parametrize("status", PASSING)
def test_a_request_without_an_answer_is_repeated_with_growing_pauses(
    troubled: Visit, site: Up, status: int | None
) -> None:
    for address, path in {**PAGES, **MORE_PAGES}.items():
        failing = Failing(troubled.page, path, status)
        failing.begin()
        open_anew(troubled, address)
        alert = troubled.page.get_by_role("alert").first
        said = troubled.word("wrong.away") if status is None else f"refused with {status}"
        expect(alert).to_contain_text(said)
        pass_time(troubled, WINDOW_SEC)
        assert 3 <= failing.asked <= REQUESTS_MAX, f"{address}: {failing.asked} requests in {WINDOW_SEC} s"
        expect(alert).to_contain_text(said)  # it stays while it is repeated
        # The reader does not have to wait for the end of a pause, however long it is.
        pause_long(troubled, failing)
        failing.end()
        alert.get_by_role("button", name=troubled.word("do.again")).click()
        expect(troubled.page.get_by_role("alert")).to_have_count(0)


def test_it_is_not_repeated_before_the_server_allows_it(troubled: Visit, site: Up) -> None:
    for address, path in PAGES.items():
        failing = Failing(troubled.page, path, 429, {"Retry-After": "40"})
        failing.begin()
        open_anew(troubled, address)
        expect(troubled.page.get_by_role("alert")).to_contain_text("refused with 429")
        pass_time(troubled, 30)
        assert failing.asked == 1, address
        failing.end()
        pass_time(troubled, 15)
        expect(troubled.page.get_by_role("alert")).to_have_count(0)


def test_news_does_not_hurry_a_request_that_fails(troubled: Visit, site: Up) -> None:
    """Every change of a list asks for it again: not while it fails."""
    failing = Failing(troubled.page, "/schedules", 500)
    failing.begin()
    troubled.open("/schedules")
    expect(troubled.page.get_by_role("alert")).to_contain_text("refused with 500")
    expect(troubled.page.locator(".live.good")).to_be_visible()
    once = {"flow_name": "diamond", "run_at": "2100-01-01T00:00:00Z"}
    for _ in range(WINDOW_SEC):
        made = httpx.post(f"{site.url}/schedules", json=once).raise_for_status().json()
        httpx.delete(f"{site.url}/schedules/{made['schedule_id']}")
        pass_time(troubled, 1, 1)
    assert failing.asked <= REQUESTS_MAX


@pytest.mark.parametrize("status", [422, 429, 503, None])
def test_the_live_connection_is_repeated_with_growing_pauses(
    troubled: Visit, site: Up, status: int | None
) -> None:
    failing = Failing(troubled.page, "/stream", status)
    failing.begin()
    troubled.open("/runs")
    expect(troubled.page.locator(".live.bad")).to_be_visible()
    pass_time(troubled, WINDOW_SEC)
    assert (2 if status == 422 else 3) <= failing.asked <= REQUESTS_MAX
    pause_long(troubled, failing)
    failing.end()
    troubled.page.locator(".top").get_by_role("button", name=troubled.word("do.again")).click()
    expect(troubled.page.locator(".live.good")).to_be_visible()


def test_a_live_connection_that_ends_at_once_is_not_repeated_at_once(troubled: Visit, site: Up) -> None:
    asked = 0

    def end_at_once(route: Route) -> None:
        nonlocal asked
        asked += 1
        route.fulfill(status=200, body=": hello\n\n", content_type="text/event-stream")

    troubled.page.route(lambda url: urlsplit(url).path == "/stream", end_at_once)
    troubled.open("/runs")
    troubled.page.locator(".run-table, .empty").first.wait_for()
    pass_time(troubled, WINDOW_SEC)
    assert 3 <= asked <= REQUESTS_MAX


def test_a_status_that_does_not_exist_is_left_out_of_the_list(shown: Visit, site: Up) -> None:
    asked: list[str] = []
    shown.page.on("request", lambda request: asked.append(request.url))
    shown.open("/runs?status=BOGUS&since=tomorrow")
    notice = shown.page.locator(".notice")
    expect(notice).to_contain_text("BOGUS")
    expect(notice).to_contain_text("tomorrow")
    expect(shown.page.locator(".rows-end, .start-page").first).to_be_visible()
    shown.page.clock.install()
    pass_time(shown, 10)
    assert len([url for url in asked if urlsplit(url).path == "/runs"]) == 1
    notice.get_by_role("link", name=shown.word("runs.clear")).click()
    expect(notice).to_have_count(0)


def test_filters_of_other_pages_that_do_not_exist_are_said(in_english: Visit, site: Up) -> None:
    in_english.open("/strategies?health=BOGUS&page=none")
    expect(in_english.page.locator(".notice")).to_contain_text("BOGUS")
    expect(in_english.page.locator("tr[data-strategy]").first).to_be_visible()
