"""Without authentication: only names we know, only pages of our own."""

from __future__ import annotations

import logging

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from tests.conftest import NatsServer
from tests.http_api.serving import expect_error, serving, submit
from tests.worker.stage import config_on

SUBMISSION = {"flow_name": "noop"}


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8000", "localhost", "LOCALHOST:80", "[::1]", "[::1]:8000", "127.1.2.3"]
)
async def test_loopback_names_are_ours(client: httpx.AsyncClient, host: str) -> None:
    assert (await client.get("/health", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "evil@localhost.example", "10.0.0.1",
     "0.0.0.0", "", "[", "[::1", "[::ffff:10.0.0.1]", "localhost, evil.example", "evil.example#localhost",
     "evil.example\\@localhost", "evil@localhost", "localhost:abc"],
)  # fmt: skip
async def test_another_host_name_is_refused(client: httpx.AsyncClient, host: str) -> None:
    """DNS rebinding: a page of theirs whose name suddenly means our address."""
    for path in ("/health", "/runs", "/openapi.json"):
        refused = expect_error(await client.get(path, headers={"Host": host}), 403, None)
        assert "PYOCO_ALLOWED_HOSTS" in refused["detail"]


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "https://127.0.0.1.evil.example", "null", "", "http://localhost",
     "http://127.0.0.1:3000", "file://", "chrome-extension://abc"],
)  # fmt: skip
async def test_pages_of_other_sites_cannot_submit_or_cancel(client: httpx.AsyncClient, origin: str) -> None:
    run_id = await submit(client)
    headers = {"Origin": origin}
    expect_error(await client.post("/runs", json=SUBMISSION, headers=headers), 403, None)
    expect_error(await client.post(f"/runs/{run_id}/cancel", headers=headers), 403, None)
    assert (await client.get(f"/runs/{run_id}")).json()["status"] == "PENDING"
    assert len((await client.get("/runs")).json()) == 1


async def test_pages_of_our_own_may_submit(client: httpx.AsyncClient) -> None:
    headers = {"Origin": "http://127.0.0.1"}
    assert (await client.post("/runs", json=SUBMISSION, headers=headers)).status_code == 200
    headers = {"Origin": "http://localhost:8000", "Host": "localhost:8000"}
    assert (await client.post("/runs", json=SUBMISSION, headers=headers)).status_code == 200


async def test_reading_is_left_to_the_browsers_own_rules(client: httpx.AsyncClient) -> None:
    answer = await client.get("/health", headers={"Origin": "http://evil.example"})
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers


async def test_allowed_hosts_are_served_and_their_pages_too(nats_server: NatsServer) -> None:
    async with serving(config_on(nats_server, allowed_hosts="pyoco.example, Other.Example")) as client:
        for host in ("pyoco.example", "PYOCO.example:443", "other.example"):
            assert (await client.get("/health", headers={"Host": host})).status_code == 200
        headers = {"Host": "pyoco.example", "Origin": "https://pyoco.example"}
        assert (await client.post("/runs", json=SUBMISSION, headers=headers)).status_code == 200
        expect_error(await client.get("/health", headers={"Host": "third.example"}), 403, None)


async def test_the_bind_address_is_a_name_of_ours(nats_server: NatsServer) -> None:
    async with serving(config_on(nats_server, http_host="192.0.2.7")) as client:
        assert (await client.get("/health", headers={"Host": "192.0.2.7:8000"})).status_code == 200


@pytest.mark.parametrize("length", ["9" * 18, "9" * 5000])
async def test_a_length_beyond_all_bounds_is_too_large(client: httpx.AsyncClient, length: str) -> None:
    answer = await client.post("/runs", content=b"{}", headers={"Content-Length": length})
    expect_error(answer, 413, "ERR-PYOCO-0002")


def reached_at(address: str, config: NatsBackendConfig) -> httpx.AsyncClient:
    """A client whose connection came in at this address of the machine. Nothing behind it is started."""
    transport = httpx.ASGITransport(app=create_app(config), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url=f"http://{address}:8000")


OPEN = NatsBackendConfig(http_auth_mode="none")


@pytest.mark.parametrize("address", ["10.1.2.3", "192.168.0.7", "[2001:db8::7]", "[::ffff:10.1.2.3]"])
async def test_without_authentication_other_addresses_of_the_machine_serve_nobody(address: str) -> None:
    """The Host header is the caller's word; the address that the connection came in at is not."""
    async with reached_at(address, OPEN) as client:
        for host in ("localhost", address):
            for path in ("/health", "/runs", "/openapi.json"):
                refused = expect_error(await client.get(path, headers={"Host": host}), 403, None)
                assert "PYOCO_HTTP_AUTH_MODE" in refused["detail"]
                assert "PYOCO_ALLOW_UNAUTHENTICATED" in refused["detail"]


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "[::1]", "[::ffff:127.0.0.1]"])
async def test_without_authentication_loopback_serves(address: str) -> None:
    async with reached_at(address, OPEN) as client:
        assert (await client.get("/health", headers={"Host": "localhost"})).status_code == 200


async def test_other_addresses_serve_when_that_is_allowed_and_the_log_warns(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with reached_at("10.1.2.3", NatsBackendConfig(allow_unauthenticated=True)) as client:
        warned = [one for one in caplog.records if one.levelno == logging.WARNING]
        assert ["authentication is off" in one.getMessage() for one in warned] == [True]
        assert (await client.get("/health")).status_code == 200
        # A name is still a matter of PYOCO_ALLOWED_HOSTS; an address that is ours is not.
        expect_error(await client.get("/health", headers={"Host": "evil.example"}), 403, None)
        expect_error(await client.get("/health", headers={"Host": "10.1.2.4"}), 403, None)


async def test_with_authentication_other_addresses_serve() -> None:
    async with reached_at("10.1.2.3", NatsBackendConfig(http_auth_mode="api_key")) as client:
        assert (await client.get("/health")).status_code == 200


@pytest.mark.parametrize("config", [OPEN, NatsBackendConfig(http_auth_mode="api_key")], ids=["open", "keys"])
@pytest.mark.parametrize("name", ["Host", "Origin", "Sec-Fetch-Site", "Content-Length"])
async def test_a_header_that_decides_may_come_only_once(name: str, config: NatsBackendConfig) -> None:
    async with reached_at("127.0.0.1", config) as client:
        request = client.build_request("GET", "/health")
        request.headers = httpx.Headers(
            [*request.headers.multi_items(), (name, "127.0.0.1"), (name, "127.0.0.1")]
        )
        refused = expect_error(await client.send(request), 400, None)
        assert name.lower() in refused["detail"].lower()


@pytest.mark.parametrize("site", ["cross-site", "same-site", "CROSS-SITE", "nonsense"])
async def test_a_browser_that_says_it_comes_from_elsewhere_cannot_submit(
    client: httpx.AsyncClient, site: str
) -> None:
    headers = {"Sec-Fetch-Site": site}
    expect_error(await client.post("/runs", json=SUBMISSION, headers=headers), 403, None)
    assert (await client.get("/runs", headers=headers)).json() == []


@pytest.mark.parametrize("site", ["same-origin", "none"])
async def test_a_browser_on_a_page_of_ours_may_submit(client: httpx.AsyncClient, site: str) -> None:
    headers = {"Sec-Fetch-Site": site, "Origin": "http://127.0.0.1"}
    assert (await client.post("/runs", json=SUBMISSION, headers=headers)).status_code == 200


async def test_pages_of_allowed_hosts_may_submit_from_another_site(nats_server: NatsServer) -> None:
    async with serving(config_on(nats_server, allowed_hosts="app.example")) as client:
        headers = {"Sec-Fetch-Site": "cross-site", "Origin": "https://app.example"}
        assert (await client.post("/runs", json=SUBMISSION, headers=headers)).status_code == 200
