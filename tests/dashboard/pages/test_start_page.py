"""A system without runs: a demo to start from the page, commands to copy, and workers as they come."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.cli.conftest import starter
from tests.cli.programs import Programs, Up, wait_for
from tests.dashboard.browser import PHONE, visit
from tests.dashboard.test_access import violations


@pytest.fixture
def empty(browser: Browser, programs: Programs) -> Iterator[Up]:
    up = starter(programs)("--durability", "interval", data_dir=programs.folder / "empty")
    wait_for(lambda: httpx.get(f"{up.url}/workers").json(), "a worker")
    yield up
    up.program.send(signal.SIGINT)
    up.program.ended()


def test_a_system_without_runs_shows_how_to_start(browser: Browser, empty: Up) -> None:
    for language, window in (("ja", PHONE), ("en", {"width": 1280, "height": 800})):
        with visit(browser, empty.url, language, window=window) as shown:
            shown.open("/runs")
            expect(shown.page.locator("[data-workers='1']")).to_be_visible()
            commands = shown.page.locator(".start-page .command pre")
            expect(commands).to_have_count(3)
            expect(commands.first).to_contain_text(f"pyoco-client --server {empty.url} submit hello")
            for flow in ("hello", "release"):
                expect(shown.page.get_by_role("link", name=flow, exact=True)).to_be_visible()
            assert violations(shown) == []
            wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
            assert not shown.page.evaluate(wide)
    with visit(browser, empty.url) as shown:
        shown.open("/runs")
        shown.button("start.demo").click()
        shown.status_is("COMPLETED")
        assert httpx.get(f"{empty.url}/runs/{shown.run_id}").json()["flow_name"] == "hello"
        # Now there is a list.
        shown.open("/runs")
        expect(shown.page.locator(".rows .row")).to_have_count(1)
        expect(shown.page.locator(".start-page")).to_have_count(0)
