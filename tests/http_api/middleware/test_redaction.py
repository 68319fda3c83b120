"""At the most talkative level, with the server's own lines: no key, token or ticket is in any of them."""

from __future__ import annotations

import logging
import pkgutil
from functools import partial
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

import pyoco_server
from pyoco_server.http_api.middleware.redaction import without_secrets
from pyoco_server.store.store import Store
from tests import issuer
from tests.conftest import NatsServer, until
from tests.http_api.live import live
from tests.http_api.middleware.test_failed_attempts import _status
from tests.keyring import new_key, secret_of, with_wrong_secret
from tests.worker.stage import config_on


async def test_no_secret_is_logged_at_debug_whatever_way_it_was_sent(
    nats_server: NatsServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    jwks = str(issuer.write_jwks(tmp_path / "jwks.json", "k1"))
    config = config_on(nats_server, http_auth_mode="api_key,jwt", jwt_jwks=jwks)
    store = await Store.connect(config, name="test")
    key, token = await new_key(store), issuer.token(scope="runs:read")
    wrong = with_wrong_secret(key)
    async with live(config) as gateway:
        client = gateway.client
        await until(partial(_status, client, key, 200))
        caplog.set_level(logging.DEBUG)
        for proof in ({"X-API-Key": key}, issuer.bearer(key), issuer.bearer(token), {"X-API-Key": wrong}):
            await client.get("/runs", headers=proof)
            await client.get("/gui/strategies", headers=proof)
        for secret in (key, token, wrong):
            await client.get("/runs", params={"api_key": secret})
            await client.get(f"/runs/{secret}")
        headers = {"X-API-Key": key}
        job_id = (await client.post("/jobs", json={"parameters": {}}, headers=headers)).json()["id"]
        path = f"/jobs/{job_id}/ws"
        ticket = (await client.post("/tickets", json={"path": path}, headers=headers)).json()["ticket"]
        address = f"ws://127.0.0.1:{gateway.port}{path}"
        for proof in ({"X-API-Key": key}, issuer.bearer(key), issuer.bearer(token)):
            async with connect(address, additional_headers=proof):
                pass
        async with connect(f"{address}?ticket={ticket}"):
            pass
        with pytest.raises(InvalidStatus):
            await connect(address, additional_headers={"X-API-Key": wrong})
    # The clients are in the same process, and log what they send.
    servers = [one for one in caplog.records if not one.name.startswith(("httpx", "httpcore", "websockets"))]
    lines = [f"{one.name}: {one.getMessage()} {vars(one)}" for one in servers]
    assert any(line.startswith("uvicorn.access") for line in lines)
    secrets = (secret_of(key), secret_of(wrong), token.rpartition(".")[2], ticket)
    assert [line for line in lines if any(secret in line for secret in secrets)] == []
    await store.close()


def test_the_names_of_our_modules_are_no_keys() -> None:
    names = [f"pyoco_server.{one.name}.Gone: no" for one in pkgutil.iter_modules(pyoco_server.__path__)]
    assert names
    assert [without_secrets(name) for name in names] == names


@pytest.mark.parametrize("key_id", ["a", "27b05839d7015fe7f4167acf"])
def test_a_key_is_hidden_even_where_half_of_it_is_missing(key_id: str) -> None:
    secret = "AnZ9wzHO_uuJv_-kMJtlNhbR8-j2h3K8h_Fb9ziUIqg"
    for part in (secret, secret[:16], secret + secret):
        assert without_secrets(f"no run pyoco_{key_id}.{part}!") == f"no run pyoco_{key_id}.hidden!"
