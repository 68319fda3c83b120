"""Callers of both kinds have names of their own: a token whose `sub` is a key's id is not that key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from starlette.requests import HTTPConnection

from pyoco_server.http_api.middleware.callers import limit_key_of, note_caller
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.store.store import Store
from tests import issuer
from tests.conftest import NatsServer, until
from tests.http_api.serving import expect_error, serving
from tests.keyring import id_of, new_key
from tests.worker.stage import config_on

IDEMPOTENT = {"Idempotency-Key": "order-4711"}
BODY = {"flow_name": "greet"}
SCOPES = "runs:read runs:write pdca:read"


class Both(NamedTuple):
    client: httpx.AsyncClient
    store: Store
    key_id: str
    key: dict[str, str]
    token: dict[str, str]


@pytest.fixture
async def both(nats_server: NatsServer, tmp_path: Path) -> AsyncIterator[Both]:
    """A key, and a token of the same tenant whose sub is the key's id."""
    jwks = issuer.write_jwks(tmp_path / "jwks.json", "k1")
    config = config_on(nats_server, http_auth_mode="api_key,jwt", jwt_jwks=str(jwks), recheck_reads_per_min=3)
    async with serving(config) as client:
        store = await Store.connect(config, name="test")
        key = await new_key(store, "acme")
        token = issuer.token(sub=id_of(key), tenant_id="acme", aud="pdca.gui", scope=SCOPES)
        headers = {"X-API-Key": key}
        await until(partial(_is_known, client, headers))
        yield Both(client, store, id_of(key), headers, issuer.bearer(token))
        await store.close()


async def _is_known(client: httpx.AsyncClient, headers: dict[str, str]) -> bool:
    return (await client.get("/caller", headers=headers)).status_code == 200


async def test_a_token_with_a_keys_id_does_not_read_the_keys_idempotency_records(both: Both) -> None:
    await both.client.post("/runs", json=BODY, headers=both.key | IDEMPOTENT)
    assert (await both.client.get("/idempotency/order-4711", headers=both.key)).status_code == 200
    expect_error(await both.client.get("/idempotency/order-4711", headers=both.token), 404, None)


async def test_a_token_with_a_keys_id_makes_a_run_of_its_own_with_the_same_key(both: Both) -> None:
    by_key = await both.client.post("/runs", json=BODY, headers=both.key | IDEMPOTENT)
    by_token = await both.client.post("/runs", json=BODY, headers=both.token | IDEMPOTENT)
    assert by_token.status_code == 200
    assert "idempotency-replayed" not in by_token.headers
    assert by_token.json()["run_id"] != by_key.json()["run_id"]


async def test_runs_and_cancels_say_which_kind_of_caller_it_was(both: Both) -> None:
    principal = f"jwt:noctria.auth:{both.key_id}"
    expected = {"key": (both.key_id, f"api_key:{both.key_id}"), "token": (principal, principal)}
    for kind, headers in (("key", both.key), ("token", both.token)):
        run_id = (await both.client.post("/runs", json=BODY, headers=headers)).json()["run_id"]
        await both.client.post(f"/runs/{run_id}/cancel", headers=headers)
        run = (await both.client.get(f"/runs/{run_id}", headers=headers)).json()
        assert (run["api_key_id"], run["cancel_requested_by"]) == expected[kind]
        events = (await both.client.get(f"/executions/{run_id}/events", headers=headers)).json()
        listed = events["events"] if isinstance(events, dict) else events
        assert listed[0]["actor"] == {"kind": "user", "id": expected[kind][1]}
        told = (await both.client.get("/caller", headers=headers)).json()
        assert (told["id"], told["principal"]) == (both.key_id, expected[kind][1])


async def test_a_token_with_a_keys_id_does_not_use_up_the_keys_limit(both: Both) -> None:
    for _ in range(3):
        assert (await both.client.get("/gui/strategies", headers=both.token)).status_code == 200
    assert (await both.client.get("/gui/strategies", headers=both.token)).status_code == 429
    assert (await both.client.get("/gui/strategies", headers=both.key)).status_code == 200


def test_a_token_with_a_keys_id_does_not_use_up_the_keys_streams() -> None:
    """Nor its waits and log searches: all of them are counted by this name."""
    by_key = Caller(tenant_id="acme", id="k1")
    by_token = Caller(tenant_id="acme", id="k1", issuer="noctria.auth", audiences=frozenset({"pdca.gui"}))
    counted = set()
    for caller in (by_key, by_token):
        request = HTTPConnection({"type": "http", "client": ("127.0.0.1", 1)})
        note_caller(request.scope, caller)
        counted.add(limit_key_of(request))
    assert len(counted) == 2


async def test_a_ticket_keeps_the_kind_of_its_caller(both: Both) -> None:
    await both.client.post("/runs", json=BODY, headers=both.key | IDEMPOTENT)
    path = "/caller"
    made = await both.client.post("/tickets", json={"path": path}, headers=both.token)
    told = (await both.client.get(f"{path}?ticket={made.json()['ticket']}")).json()
    assert told["principal"] == f"jwt:noctria.auth:{both.key_id}"


def test_an_issuer_with_colons_cannot_be_confused_with_a_subject() -> None:
    audiences = frozenset({"pdca"})
    one = Caller(tenant_id="t", id="b", issuer="https://x:a", audiences=audiences)
    other = Caller(tenant_id="t", id="a:b", issuer="https://x", audiences=audiences)
    assert one.principal == "jwt:https%3A//x%3Aa:b"
    assert other.principal == "jwt:https%3A//x:a:b"
