"""A real browser: its EventSource and its WebSocket follow a job, with and without keys."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Page, async_playwright

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.http_api.faces.jobs.test_jobs import created
from tests.http_api.live import live
from tests.keyring import new_key
from tests.log_writing import Writer
from tests.worker.stage import config_on

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
pytestmark = pytest.mark.skipif(
    shutil.which("chromium") is None,
    reason="chromium is missing: apt-get install chromium (make test does, as root on Debian)",
)

FOLLOW = """([url]) => {
  window.seen = [];
  window.source = new EventSource(url);
  for (const name of ["logEntry", "status", "end"])
    source.addEventListener(name, event => seen.push([name, JSON.parse(event.data), event.lastEventId]));
}"""
TALK = """([url]) => {
  window.frames_ = [];
  const socket = new WebSocket(url);
  socket.onopen = () => socket.send(JSON.stringify({type: "subscribe"}));
  socket.onmessage = message => frames_.push(JSON.parse(message.data));
  socket.onclose = closed => frames_.push({type: "closed", code: closed.code});
}"""
TICKET = """async ([path, key]) => (await (await fetch("/tickets", {
  method: "POST", headers: {"X-API-Key": key, "Content-Type": "application/json"},
  body: JSON.stringify({path})})).json()).ticket"""


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield await browser.new_page()
        await browser.close()


async def test_event_source_reads_every_line_once_and_stops_at_the_end(
    page: Page, config: NatsBackendConfig, store: Store
) -> None:
    async with live(config) as gateway:
        job = str((await created(gateway.client))["id"])
        writer = Writer(store, job)
        await writer.write("one", "two")
        await page.goto(f"http://127.0.0.1:{gateway.port}/health")
        await page.evaluate(FOLLOW, [f"/jobs/{job}/logs/stream"])

        async def lines() -> list[str]:
            found: list[str] = await page.evaluate(
                "seen.filter(e => e[0] == 'logEntry').map(e => e[1].message)"
            )
            return found

        async def has(count: int) -> bool:
            return len(await lines()) == count

        await until(lambda: has(2))
        await writer.write("three")
        await until(lambda: has(3))
        # The gateway lets go of everybody: the browser comes back by itself, with the last id.
        gateway.gateway.streams.end()
        gateway.gateway.streams.ended = False
        await writer.write("four")
        await until(lambda: has(4))
        await gateway.client.delete(f"/jobs/{job}")
        # It comes back once more after the end, is told 204, and gives up for good.
        await until(lambda: page.evaluate("source.readyState == EventSource.CLOSED"))
        assert (await lines())[:4] == ["one", "two", "three", "four"]
        ends = await page.evaluate("seen.filter(e => e[0] == 'end').map(e => e[1].status)")
        assert ends == ["canceled"]


async def test_a_page_with_a_key_gets_tickets_for_its_stream_and_its_socket(
    page: Page, nats_server: NatsServer
) -> None:
    config = config_on(nats_server, http_auth_mode="api_key")
    async with live(config) as gateway:
        store = await Store.connect(config, name="test")
        key = await new_key(store)
        headers = {"X-API-Key": key}

        async def made() -> str | None:
            answer = await gateway.client.post("/jobs", json={"parameters": {}}, headers=headers)
            return str(answer.json()["id"]) if answer.status_code == 201 else None

        job = str(await until(made))
        await Writer(store, job).write("one")
        await gateway.client.delete(f"/jobs/{job}", headers=headers)
        await page.goto(f"http://127.0.0.1:{gateway.port}/health")
        stream, socket = f"/jobs/{job}/logs/stream", f"/jobs/{job}/ws"
        ticket = await page.evaluate(TICKET, [stream, key])
        await page.evaluate(FOLLOW, [f"{stream}?ticket={ticket}"])
        await until(lambda: page.evaluate("seen.some(e => e[0] == 'end')"))
        ticket = await page.evaluate(TICKET, [socket, key])
        await page.evaluate(TALK, [f"ws://127.0.0.1:{gateway.port}{socket}?ticket={ticket}"])
        await until(lambda: page.evaluate("frames_.some(frame => frame.type == 'closed')"))
        frames = await page.evaluate("frames_")
        assert [frame["type"] for frame in frames] == ["status", "log", "log", "end", "closed"]
        assert frames[-1]["code"] == 1000
        await store.close()
