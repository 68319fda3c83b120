"""An API key as `Authorization: Bearer`: on every face, beside tokens, and never two proofs that differ."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.store import Store
from tests import issuer
from tests.conftest import NatsServer, until
from tests.http_api.live import live
from tests.http_api.serving import expect_error, serving
from tests.keyring import id_of, new_key, with_wrong_secret
from tests.worker.stage import config_on

FACES = ["/runs", "/executions", "/jobs", "/workers", "/idempotency/unknown", "/gui/strategies"]


class Served(NamedTuple):
    client: httpx.AsyncClient
    store: Store
    key: str


@pytest.fixture(params=["api_key", "api_key,jwt"])
def config(request: pytest.FixtureRequest, nats_server: NatsServer, tmp_path: Path) -> NatsBackendConfig:
    jwks = str(issuer.write_jwks(tmp_path / "jwks.json", "k1")) if "jwt" in request.param else ""
    return config_on(nats_server, http_auth_mode=request.param, jwt_jwks=jwks)


@pytest.fixture
async def served(config: NatsBackendConfig) -> AsyncIterator[Served]:
    async with serving(config) as client:
        store = await Store.connect(config, name="test")
        key = await new_key(store, "acme")
        await until(partial(_status, client, key, 200))
        yield Served(client, store, key)
        await store.close()


async def _status(client: httpx.AsyncClient, key: str, status: int) -> bool:
    return (await client.get("/caller", headers={"X-API-Key": key})).status_code == status


@pytest.mark.parametrize("path", FACES)
async def test_a_key_is_taken_as_a_bearer_token_on_every_face(served: Served, path: str) -> None:
    expected = 404 if "unknown" in path else 200
    for scheme in ("Bearer", "bearer", "BEARER"):
        answer = await served.client.get(path, headers={"Authorization": f"{scheme} {served.key}"})
        assert answer.status_code == expected, answer.text
    by_both = issuer.bearer(served.key) | {"X-API-Key": served.key}
    assert (await served.client.get(path, headers=by_both)).status_code == expected


@pytest.mark.parametrize("path", FACES)
async def test_a_wrong_one_is_refused_as_in_its_own_header(served: Served, path: str) -> None:
    refused = 401 if path.startswith("/gui") else 403
    unknown = f"pyoco_{'f' * 24}.{'x' * 43}"
    for wrong in (with_wrong_secret(served.key), unknown, "pyoco_nobody"):
        for headers in (issuer.bearer(wrong), {"X-API-Key": wrong}):
            answer = await served.client.get(path, headers=headers)
            assert answer.status_code == refused, answer.text
            assert wrong not in answer.text
    for nothing in ({}, {"Authorization": "Bearer "}, {"Authorization": "Basic YTpi"}):
        assert (await served.client.get(path, headers=nothing)).status_code == 401


@pytest.mark.parametrize("path", FACES)
async def test_two_proofs_that_differ_are_refused_and_none_of_them_counts(served: Served, path: str) -> None:
    other = await new_key(served.store, "globex")
    await until(partial(_status, served.client, other, 200))
    refused = 401 if path.startswith("/gui") else 403
    for first, second in ((served.key, other), (with_wrong_secret(served.key), served.key)):
        answer = await served.client.get(path, headers=issuer.bearer(first) | {"X-API-Key": second})
        assert answer.status_code == refused
        assert "Send one of them" in answer.text
    twice = [("X-API-Key", served.key), ("X-API-Key", other)]
    assert (await served.client.get(path, headers=twice)).status_code == refused


async def test_a_token_beside_another_callers_key_is_refused(nats_server: NatsServer, tmp_path: Path) -> None:
    jwks = issuer.write_jwks(tmp_path / "jwks.json", "k1")
    config = config_on(nats_server, http_auth_mode="api_key,jwt", jwt_jwks=str(jwks))
    async with serving(config) as client:
        store = await Store.connect(config, name="test")
        key = await new_key(store)
        await until(partial(_status, client, key, 200))
        token = issuer.bearer(issuer.token(scope="runs:read"))
        assert (await client.get("/runs", headers=token)).status_code == 200
        answer = await client.get("/runs", headers=token | {"X-API-Key": key})
        expect_error(answer, 403, "ERR-PYOCO-0015")
        await store.close()


async def test_a_proxys_own_token_beside_a_key_does_not_matter(nats_server: NatsServer) -> None:
    """Where tokens are not accepted at all, one that passes through is not ours to look at."""
    config = config_on(nats_server, http_auth_mode="api_key")
    async with serving(config) as client:
        store = await Store.connect(config, name="test")
        key = await new_key(store)
        await until(partial(_status, client, key, 200))
        headers = {"Authorization": "Bearer eyJhbGciOi.of.a-proxy", "X-API-Key": key}
        assert (await client.get("/runs", headers=headers)).status_code == 200
        await store.close()


async def test_a_socket_and_a_ticket_take_it_too(config: NatsBackendConfig) -> None:
    store = await Store.connect(config, name="test")
    key = await new_key(store)
    async with live(config) as gateway:
        client, bearer = gateway.client, issuer.bearer(key)
        await until(partial(_status, client, key, 200))
        job_id = (await client.post("/jobs", json={"parameters": {}}, headers=bearer)).json()["id"]
        address = f"ws://127.0.0.1:{gateway.port}/jobs/{job_id}/ws"
        async with connect(address, additional_headers=bearer):
            pass
        with pytest.raises(InvalidStatus) as refused:
            await connect(address, additional_headers=issuer.bearer(with_wrong_secret(key)))
        assert refused.value.response.status_code == 403
        made = await client.post("/tickets", json={"path": "/caller"}, headers=bearer)
        told = (await client.get(f"/caller?ticket={made.json()['ticket']}")).json()
        assert told["principal"] == f"api_key:{id_of(key)}"
    await store.close()
