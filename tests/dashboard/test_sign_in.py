"""With authentication on, the page asks who you are, keeps that for the session, and shows the tenant."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from playwright.sync_api import Browser, expect

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.store import Store
from tests.cli.programs import Programs, wait_for
from tests.conftest import NatsServer, free_port
from tests.dashboard.browser import Visit, visit
from tests.keyring import new_key


@pytest.fixture
def url(nats_server: NatsServer, programs: Programs) -> str:
    port = free_port()
    programs.start(
        *("pyoco-server", "--nats-url", nats_server.url, "--port", port), PYOCO_HTTP_AUTH_MODE="api_key"
    )
    wait_for(lambda: _is_ready(port), "the gateway")
    return f"http://127.0.0.1:{port}"


@pytest.fixture(params=["en", "ja"])
def shown(browser: Browser, url: str, request: pytest.FixtureRequest) -> Iterator[Visit]:
    refusals = ("status of 401", "status of 403")
    with visit(
        browser, url, request.param, forgives=lambda said: any(one in said for one in refusals)
    ) as opened:
        yield opened


def test_a_key_is_asked_for_used_and_forgotten(shown: Visit, nats_server: NatsServer, url: str) -> None:
    with ThreadPoolExecutor(1) as elsewhere:  # this thread's loop is the browser's
        key = elsewhere.submit(lambda: asyncio.run(_key(nats_server, "acme"))).result()
    wait_for(lambda: httpx.get(f"{url}/caller", headers={"X-API-Key": key}).status_code == 200, "the key")
    httpx.post(f"{url}/runs", json={"flow_name": "ours"}, headers={"X-API-Key": key})
    shown.open("/runs")
    field = shown.page.get_by_label(shown.word("who.key"))
    field.fill("pk_wrong_key")
    shown.button("who.in").click()
    expect(shown.page.get_by_role("alert")).to_be_visible()
    field.fill(key)
    shown.button("who.in").click()
    expect(shown.page.locator(".rows .row", has_text="ours").first).to_be_visible()
    shown.sees(shown.word("who.tenant", tenant="acme"))
    assert key not in shown.page.evaluate("JSON.stringify(localStorage) + location.href + document.cookie")
    shown.page.reload()
    expect(shown.page.locator(".rows .row", has_text="ours").first).to_be_visible()
    shown.button("who.out").click()
    expect(field).to_be_visible()
    expect(shown.page.get_by_text("ours")).to_have_count(0)


async def _key(server: NatsServer, tenant: str) -> str:
    store = await Store.connect(NatsBackendConfig(nats_url=server.url), name="test")
    try:
        return await new_key(store, tenant)
    finally:
        await store.close()


def _is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/ready").status_code == 200
    except httpx.TransportError:
        return False
