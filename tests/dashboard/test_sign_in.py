"""With authentication on, the page asks who you are, keeps that for the session, and shows the tenant."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.store import Store
from tests.cli.programs import Programs, wait_for
from tests.conftest import NatsServer, free_port
from tests.dashboard.browser import Visit, visit
from tests.issuer import bearer, token, write_jwks
from tests.keyring import new_key


@pytest.fixture
def url(nats_server: NatsServer, programs: Programs) -> str:
    return started(nats_server, programs, PYOCO_HTTP_AUTH_MODE="api_key")


@pytest.fixture(params=["en", "ja"])
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shown(browser: Browser, url: str, language: str) -> Iterator[Visit]:
    with asked_who(browser, url, language) as opened:
        yield opened


def started(nats_server: NatsServer, programs: Programs, **settings: str) -> str:
    port = free_port()
    programs.start("pyoco-server", "--nats-url", nats_server.url, "--port", port, **settings)
    wait_for(lambda: _is_ready(port), "the gateway")
    return f"http://127.0.0.1:{port}"


def asked_who(browser: Browser, url: str, language: str) -> AbstractContextManager[Visit]:
    refusals = ("status of 401", "status of 403")
    return visit(browser, url, language, forgives=lambda said: any(one in said for one in refusals))


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
    # Another tab of the same browser takes the key over, and loses it with this one.
    second = shown.page.context.new_page()
    second.goto(f"{url}/#/runs")
    expect(second.locator(".rows .row", has_text="ours").first).to_be_visible()
    shown.button("who.out").click()
    expect(field).to_be_visible()
    expect(shown.page.get_by_text("ours")).to_have_count(0)
    expect(second.get_by_label(shown.word("who.key"))).to_be_visible()
    expect(second.get_by_text("ours")).to_have_count(0)


def test_a_refused_key_leaves_nothing_to_sign_out_of(shown: Visit) -> None:
    shown.open("/runs")
    shown.page.get_by_label(shown.word("who.key")).fill("pk_wrong_key")
    shown.button("who.in").click()
    expect(shown.page.get_by_role("alert")).to_be_visible()
    expect(shown.button("who.out")).to_have_count(0)


def test_a_token_is_entered_where_both_are_taken_and_never_left_behind(
    browser: Browser, nats_server: NatsServer, programs: Programs, language: str, tmp_path: Path
) -> None:
    keys = write_jwks(tmp_path / "jwks.json", "k1")
    url = started(nats_server, programs, PYOCO_HTTP_AUTH_MODE="api_key,jwt", PYOCO_JWT_JWKS=str(keys))
    mine, other = f"mine-{language}", f"other-{language}"
    tokens = {
        tenant: token(aud="pyoco-server", scope="runs:read runs:write ops:read", tenant_id=tenant)
        for tenant in (mine, other)
    }
    for tenant, one in tokens.items():
        made = httpx.post(f"{url}/runs", json={"flow_name": f"of-{tenant}"}, headers=bearer(one))
        assert made.status_code == 200
    with asked_who(browser, url, language) as shown:
        shown.open("/runs")
        enter_token(shown, "not.a.token")
        expect(shown.page.get_by_role("alert")).to_be_visible()
        enter_token(shown, tokens[mine])
        expect(shown.page.locator(".rows .row", has_text=f"of-{mine}")).to_be_visible()
        shown.sees(shown.word("who.tenant", tenant=mine))
        kept = shown.page.evaluate("JSON.stringify(localStorage) + location.href + document.cookie")
        assert tokens[mine] not in kept
        # Who comes next sees nothing that was read before.
        shown.button("who.out").click()
        enter_token(shown, tokens[other])
        expect(shown.page.locator(".rows .row", has_text=f"of-{other}")).to_be_visible()
        expect(shown.page.get_by_text(f"of-{mine}")).to_have_count(0)
        shown.sees(shown.word("who.tenant", tenant=other))


def test_what_a_token_is_not_for_says_so_and_the_rest_works(
    browser: Browser, nats_server: NatsServer, programs: Programs, tmp_path: Path
) -> None:
    keys = write_jwks(tmp_path / "jwks.json", "k1")
    url = started(nats_server, programs, PYOCO_HTTP_AUTH_MODE="jwt", PYOCO_JWT_JWKS=str(keys))
    with asked_who(browser, url, "en") as shown:
        shown.open("/runs")
        shown.page.locator("input[type=password]").fill(token(aud="pyoco-server", scope="runs:read"))
        shown.button("who.in").click()
        expect(shown.page.locator(".live.good")).to_be_visible()
        shown.open("/workers")
        expect(shown.page.get_by_role("alert")).to_contain_text("ops:read")
        shown.open("/runs")
        expect(shown.page.locator(".counts")).to_be_visible()


def enter_token(shown: Visit, text: str) -> None:
    shown.page.get_by_role("radio", name=shown.word("who.jwt")).check()
    shown.page.locator("input[type=password]").fill(text)
    shown.button("who.in").click()


def test_strategies_ask_for_a_token_of_their_own(
    browser: Browser, nats_server: NatsServer, programs: Programs, tmp_path: Path
) -> None:
    """With tokens for the recheck face only, everything else is open."""
    keys = write_jwks(tmp_path / "jwks.json", "k1")
    catalogue = tmp_path / "strategies.yaml"
    catalogue.write_text("strategies:\n  - {id: one.fast, title: One, tags: [daily]}\n")
    url = started(nats_server, programs, PYOCO_JWT_JWKS=str(keys), PYOCO_STRATEGIES_FILE=str(catalogue))
    with asked_who(browser, url, "en") as shown:
        shown.open("/runs")
        expect(shown.page.locator(".live.good")).to_be_visible()
        shown.open("/strategies")
        field = shown.page.locator("input[type=password]")
        field.fill(token(aud="pdca.gui", scope="pdca:read", tenant_id="default"))
        shown.button("who.in").click()
        expect(shown.page.locator("tr[data-strategy='one.fast']")).to_be_visible()


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
