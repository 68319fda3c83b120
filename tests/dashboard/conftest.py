"""What the browser's tests share: a browser, and everything that `up` starts, with flows to watch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.cli.programs import Programs, Up
from tests.dashboard.browser import Visit, chromium, require_browser, visit
from tests.dashboard.site import everything

FLOWS = Path(__file__).with_name("flows.py")
STRATEGIES = """
strategies:
  - {id: one.fast, title: One, instrument: USDJPY, tags: [daily]}
  - {id: two.fast, title: Two, instrument: EURUSD, tags: [daily]}
"""
GRACE_SEC = 3


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Not for longer: while it is there, its loop runs in this thread, and tests that await cannot.

    No test of this folder awaits. Each test has a context of its own in it (`visit`).
    """
    require_browser()
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def programs(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    running = Programs(tmp_path_factory.mktemp("dashboard"))
    yield running
    running.end_all()


@pytest.fixture(scope="module")
def site(programs: Programs) -> Up:
    arguments = ("--durability", "interval", "--concurrency", 4)
    return everything(programs, FLOWS, STRATEGIES, *arguments, grace_sec=GRACE_SEC)


@pytest.fixture(params=["en", "ja"])
def shown(browser: Browser, site: Up, request: pytest.FixtureRequest) -> Iterator[Visit]:
    with visit(browser, site.url, request.param) as opened:
        yield opened


@pytest.fixture
def in_english(browser: Browser, site: Up) -> Iterator[Visit]:
    with visit(browser, site.url, "en") as opened:
        yield opened
