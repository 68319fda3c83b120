"""With the page open, the broker goes away, and then the gateway: it says so, and comes back by itself."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

from pyoco_server.http_api.gateway import BROKER_SILENT
from tests.cli.programs import Program, Programs, wait_for
from tests.conftest import NatsServer, free_port
from tests.dashboard.browser import Visit, visit


@pytest.fixture
def broker(tmp_path: Path, browser: Browser) -> Iterator[NatsServer]:
    folder = tmp_path / "nats"
    folder.mkdir()
    server = NatsServer(folder, free_port())
    server.start()
    yield server
    server.stop()


def test_a_page_whose_script_is_missing_says_so_and_the_others_can_be_used(shown: Visit) -> None:
    """As after an upgrade of the gateway while the dashboard is open."""
    scripts = re.compile(r"/static/others-.*\.js")
    shown.page.route(scripts, lambda route: route.fulfill(status=404, body="gone"))
    shown.forgives = lambda said: "Failed to load resource" in said or "could not be loaded" in said
    shown.open("/runs")
    expect(shown.page.locator(".live")).to_have_text(shown.word("live.open"))
    shown.open("/workers")
    expect(shown.page.get_by_role("alert")).to_contain_text(shown.word("broken.notLoaded"))
    shown.open("/runs")
    expect(shown.page.get_by_role("heading", name=shown.word("runs.title"))).to_be_visible()
    shown.open("/workers")
    shown.page.unroute(scripts)
    shown.button("broken.reload").click()
    expect(shown.page.locator("tr[data-worker]").first).to_be_visible()


def start_gateway(programs: Programs, broker: NatsServer, port: int) -> Program:
    program = programs.start("pyoco-server", "--nats-url", broker.url, "--port", port)
    wait_for(lambda: _is_ready(port), "the gateway to be ready")
    return program


def test_what_goes_away_is_told_and_what_comes_back_is_shown(
    browser: Browser, broker: NatsServer, programs: Programs
) -> None:
    port = free_port()
    gateway = start_gateway(programs, broker, port)
    url = f"http://127.0.0.1:{port}"
    with visit(browser, url, forgives=lambda said: "Failed to load resource" in said) as shown:
        shown.open("/runs")
        live = shown.page.locator(".live")
        expect(live).to_have_text(shown.word("live.open"))
        broker.pause()
        expect(live).to_contain_text(shown.word("live.away", why=BROKER_SILENT))
        broker.resume()
        expect(live).to_have_text(shown.word("live.open"))
        broker.kill()
        expect(live).to_contain_text(shown.word("live.away", why=""))
        broker.start()
        expect(live).to_have_text(shown.word("live.open"))
        gateway.send(signal.SIGKILL)
        gateway.ended()
        expect(live).to_have_text(shown.word("live.lost"))
        start_gateway(programs, broker, port)
        expect(live).to_have_text(shown.word("live.open"))
        made = httpx.post(f"{url}/runs", json={"flow_name": "after-the-storm"}).json()["run_id"]
        expect(shown.page.locator(".rows .row", has_text=made[:8])).to_be_visible()


def _is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/ready").status_code == 200
    except httpx.TransportError:
        return False
