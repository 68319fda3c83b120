"""REQ-0016 and REQ-0017: who gets in, with which answer, and whose runs they see."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx
import pytest
from starlette.routing import BaseRoute

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import ConfigError
from pyoco_server.http_api import create_app
from pyoco_server.http_api.middleware.addresses import PUBLIC
from pyoco_server.lifecycle.events import CancelRequested
from pyoco_server.operations.identity.api_keys import revoke_key
from pyoco_server.operations.identity.callers import BY_NAME
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.http_api.serving import expect_error, is_ready, serving
from tests.keyring import (
    id_of,
    new_key,
    put_upstreams_record,
    record_of,
    secret_of,
    upstreams_record,
    with_wrong_secret,
)
from tests.worker.stage import config_on, history

CHALLENGE = 'ApiKey realm="pyoco-server", header="X-API-Key", Bearer realm="pyoco-server"'
UPSTREAMS_KEY = "pyoco_0123456789abcdef01234567.ZpYk2n3v5y8zBDEGKMNPQSTVWXYZabcdefghijklmno"
UNKNOWN_KEY = "pyoco_fedcba987654321001234567.ZpYk2n3v5y8zBDEGKMNPQSTVWXYZabcdefghijklmno"


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server, http_auth_mode="api_key")


@pytest.fixture
async def client(config: NatsBackendConfig) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(config) as ready:
        yield ready


def by(key: str) -> dict[str, str]:
    return {"X-API-Key": key}


class Asked(NamedTuple):
    method: str
    path: str  # with {run_id} of a run of tenant acme
    scope: str
    others: int  # what another tenant's good key gets


RUN_ROUTES = [
    Asked("POST", "/runs", "runs:write", 200),
    Asked("GET", "/runs", "runs:read", 200),
    Asked("GET", "/runs?include=full", "runs:read", 200),
    Asked("GET", "/runs/{run_id}", "runs:read", 404),
    Asked("GET", "/runs/{run_id}?include=records", "runs:read", 404),
    Asked("GET", "/runs/{run_id}?wait=0.01", "runs:read", 404),
    Asked("GET", "/runs/{run_id}/tasks", "runs:read", 404),
    Asked("POST", "/runs/{run_id}/cancel", "runs:write", 404),
]
OTHER_DOORS = [
    ("GET", "/metrics", "ops:read"),
    ("GET", "/workers", "ops:read"),
    ("PATCH", "/workers/w1", "admin"),
    ("GET", "/wheels", "ops:read"),
    ("GET", "/wheels/history", "ops:read"),
    ("POST", "/wheels", "wheels:write"),
    ("DELETE", "/wheels/x.whl", "wheels:write"),
    ("GET", "/dlq", "runs:read"),
    ("POST", "/dlq/1/redrive", "runs:write"),
    ("GET", "/schedules", "runs:read"),
    ("POST", "/schedules/yaml", "runs:write"),
    ("GET", "/redoc", "admin"),
    ("GET", "/nothing/here", "admin"),
    ("GET", "/%2Fhealth", "admin"),
    ("GET", "/health/", "admin"),
    ("GET", "/runs/%2E%2E/health", "runs:read"),
]


class Keyring(NamedTuple):
    right: str
    others: str
    wrong: str
    revoked: str
    expired: str
    run_id: str


@pytest.fixture
async def keyring(store: Store, client: httpx.AsyncClient) -> Keyring:
    """Keys of every kind, known to the gateway, and a run of tenant acme."""
    revoked, expired = await new_key(store), await new_key(store, expires_at=time.time() - 1)
    await revoke_key(store, id_of(revoked))
    others, right = await new_key(store, "other"), await new_key(store)
    await until(lambda: _status(client, right, 200))
    answer = await client.post("/runs", json={"flow_name": "noop"}, headers=by(right))
    run_id: str = answer.json()["run_id"]
    return Keyring(right, others, with_wrong_secret(right), revoked, expired, run_id)


async def ask(client: httpx.AsyncClient, asked: Asked, run_id: str, key: str | None) -> httpx.Response:
    body = {"flow_name": "noop"} if asked.path == "/runs" and asked.method == "POST" else None
    headers = {} if key is None else by(key)
    return await client.request(asked.method, asked.path.format(run_id=run_id), json=body, headers=headers)


@pytest.mark.parametrize("asked", RUN_ROUTES, ids=lambda asked: f"{asked.method} {asked.path}")
async def test_every_route_answers_every_kind_of_key(
    client: httpx.AsyncClient, store: Store, keyring: Keyring, asked: Asked
) -> None:
    run_id = keyring.run_id
    for missing in (None, ""):
        refused = await ask(client, asked, run_id, missing)
        body = expect_error(refused, 401, "ERR-PYOCO-0014")
        assert "X-API-Key" in body["detail"]
        assert refused.headers["www-authenticate"] == CHALLENGE
    for invalid in ("hunter2", UNKNOWN_KEY, keyring.wrong, keyring.revoked, keyring.expired):
        expect_error(await ask(client, asked, run_id, invalid), 403, "ERR-PYOCO-0015")
    everything_else = {"runs:read", "runs:write", "ops:read", "wheels:write"} - {asked.scope}
    narrow = await new_key(store, scopes=tuple(sorted(everything_else)))
    await until(lambda: _is_known(client, narrow))
    assert asked.scope in expect_error(await ask(client, asked, run_id, narrow), 403, None)["detail"]
    foreign = await ask(client, asked, run_id, keyring.others)
    if asked.others == 404:
        expect_error(foreign, 404, "ERR-PYOCO-0005")
    elif asked.method == "GET":
        assert (foreign.status_code, foreign.json()) == (200, [])
    fitting = await new_key(store, scopes=(asked.scope,))
    await until(lambda: _is_known(client, fitting))
    for good in (keyring.right, fitting):
        answer = await ask(client, asked, run_id, good)
        assert answer.status_code == 200, answer.text
        assert run_id in answer.text or asked.path == "/runs"


async def _is_known(client: httpx.AsyncClient, key: str) -> bool:
    """By a door that needs nothing but a key: unknown ones and those without the scope are told apart."""
    return "not known" not in (await client.get("/nothing/here", headers=by(key))).text


async def test_a_foreign_run_and_one_that_never_was_are_told_apart_by_nobody(
    client: httpx.AsyncClient, keyring: Keyring
) -> None:
    nobodys = "00000000-0000-4000-8000-000000000000"
    for asked in RUN_ROUTES[3:]:
        foreign = await ask(client, asked, keyring.run_id, keyring.others)
        missing = await ask(client, asked, nobodys, keyring.others)
        assert foreign.status_code == missing.status_code == 404
        assert foreign.text.replace(keyring.run_id, nobodys) == missing.text


async def test_every_route_of_a_run_hides_it_from_other_tenants(
    client: httpx.AsyncClient, config: NatsBackendConfig, keyring: Keyring
) -> None:
    """Also those that are not in the table above, and whatever is added later."""
    of_runs = [route for route in create_app(config).routes if "{run_id}" in getattr(route, "path", "")]
    assert len(of_runs) >= 3
    for method, path in (each for route in of_runs for each in _calls(route, keyring.run_id)):
        answer = await client.request(method, path, headers=by(keyring.others))
        if method == "HEAD":
            assert answer.status_code == 404
        else:
            expect_error(answer, 404, "ERR-PYOCO-0005")


@pytest.mark.parametrize(("method", "path", "scope"), OTHER_DOORS)
async def test_doors_of_others_are_closed_too(
    client: httpx.AsyncClient, store: Store, keyring: Keyring, method: str, path: str, scope: str
) -> None:
    """Whether there is a room behind them or not."""
    expect_error(await client.request(method, path), 401, "ERR-PYOCO-0014")
    for invalid in (UNKNOWN_KEY, keyring.wrong, keyring.revoked, keyring.expired):
        answer = await client.request(method, path, headers=by(invalid))
        expect_error(answer, 403, "ERR-PYOCO-0015")
    narrow = await new_key(store, scopes=tuple({"runs:read", "runs:write", "ops:read"} - {scope}))
    await until(lambda: _is_known(client, narrow))
    answer = await client.request(method, path, headers=by(narrow))
    assert f"scope {scope}," in expect_error(answer, 403, None)["detail"]
    reaches_beyond = scope in BY_NAME and path in ("/workers/w1", "/wheels", "/wheels/x.whl")
    answer = await client.request(method, path, headers=by(keyring.right))
    assert (answer.status_code == 403) is reaches_beyond, answer.text
    named = await new_key(store, scopes=(scope,))
    await until(lambda: _is_known(client, named))
    assert (await client.request(method, path, headers=by(named))).status_code not in (401, 403)


# An address that is its own proof is refused when it is none.
SIGNED = {("GET", "/gui/artifacts/artifact_id/content")}


async def test_no_route_that_is_served_was_forgotten(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    routes = [route for route in create_app(config).routes if getattr(route, "path", None)]
    assert len(routes) > len(PUBLIC)
    for method, path in (each for route in routes for each in _calls(route)):
        answer = await client.request(method, path)
        is_public = path in PUBLIC or path.startswith("/static/")
        refused = 403 if (method, path) in SIGNED else 401
        assert (answer.status_code == refused) is not is_public, (method, path)


def _calls(route: BaseRoute, run_id: str = "run_id") -> list[tuple[str, str]]:
    path = str(getattr(route, "path", "")).replace("{run_id}", run_id)
    path = path.replace("{", "").replace("}", "").replace(":path", "")
    return [(method, path) for method in sorted(getattr(route, "methods", None) or {"GET"})]


@pytest.mark.parametrize("path", ["/health", "/ready", "/openapi.json"])
async def test_what_is_public_needs_no_key_and_does_not_mind_a_wrong_one(
    client: httpx.AsyncClient, path: str
) -> None:
    assert (await client.get(path)).status_code == 200
    assert (await client.get(path, headers=by("hunter2"))).status_code == 200


async def test_the_dashboard_and_its_files_need_no_key(client: httpx.AsyncClient) -> None:
    for path in ("/", "/docs", "/static/app.js"):
        assert (await client.get(path)).status_code in (200, 404)


async def test_authentication_comes_before_validation_and_after_the_size(client: httpx.AsyncClient) -> None:
    expect_error(await client.post("/runs", content=b"{"), 401, "ERR-PYOCO-0014")
    expect_error(await client.get("/runs?limit=none"), 401, "ERR-PYOCO-0014")
    expect_error(await client.get("/runs/no.such.id"), 401, "ERR-PYOCO-0014")
    huge = {"Content-Length": "9" * 12}
    expect_error(await client.post("/runs", content=b"{}", headers=huge), 413, "ERR-PYOCO-0002")


async def test_a_run_says_whose_it_is_and_who_cancelled_it(
    client: httpx.AsyncClient, store: Store, keyring: Keyring
) -> None:
    second = await new_key(store)
    await until(lambda: _is_known(client, second))
    run = (await client.get(f"/runs/{keyring.run_id}", headers=by(second))).json()
    assert (run["tenant_id"], run["api_key_id"]) == ("acme", id_of(keyring.right))
    (listed,) = (await client.get("/runs", headers=by(second))).json()
    assert (listed["tenant_id"], listed["api_key_id"]) == ("acme", id_of(keyring.right))
    cancelled = await client.post(f"/runs/{keyring.run_id}/cancel", headers=by(second))
    assert cancelled.json()["api_key_id"] == id_of(keyring.right)
    asked = [event for event in await history(store, keyring.run_id) if isinstance(event, CancelRequested)]
    assert [event.by for event in asked] == [f"api_key:{id_of(second)}"]
    shown = (await client.get(f"/runs/{keyring.run_id}", headers=by(second))).json()
    assert shown["cancel_requested_by"] == f"api_key:{id_of(second)}"


async def test_nobody_cancels_another_tenants_run(
    client: httpx.AsyncClient, store: Store, keyring: Keyring
) -> None:
    answer = await client.post(f"/runs/{keyring.run_id}/cancel", headers=by(keyring.others))
    expect_error(answer, 404, "ERR-PYOCO-0005")
    run = (await client.get(f"/runs/{keyring.run_id}", headers=by(keyring.right))).json()
    assert run["status"] == "PENDING"
    assert [type(event).__name__ for event in await history(store, keyring.run_id)] == ["RunSubmitted"]


async def test_the_body_cannot_say_whose_run_it_is(client: httpx.AsyncClient, keyring: Keyring) -> None:
    body = {"flow_name": "noop", "tenant_id": "other", "api_key_id": "somebody"}
    answer = await client.post("/runs", json=body, headers=by(keyring.right))
    run = (await client.get(f"/runs/{answer.json()['run_id']}", headers=by(keyring.right))).json()
    assert (run["tenant_id"], run["api_key_id"]) == ("acme", id_of(keyring.right))


async def test_lists_are_of_one_tenant_whatever_they_are_filtered_by(
    client: httpx.AsyncClient, keyring: Keyring
) -> None:
    answer = await client.post("/runs", json={"flow_name": "noop"}, headers=by(keyring.others))
    theirs = answer.json()["run_id"]
    for query in (
        "",
        "?status=PENDING",
        "?flow=noop",
        "?tag=default",
        "?include=full",
        "?status=PENDING&flow=noop",
    ):
        for key, run_id in ((keyring.right, keyring.run_id), (keyring.others, theirs)):
            listed = (await client.get(f"/runs{query}", headers=by(key))).json()
            assert [run["run_id"] for run in listed] == [run_id], query


async def test_a_revocation_counts_on_every_gateway_at_once(store: Store, config: NatsBackendConfig) -> None:
    async with serving(config) as one, serving(config) as two:
        key = await new_key(store)
        await until(lambda: _status(one, key, 200), within_sec=10)
        await until(lambda: _status(two, key, 200), within_sec=10)
        await revoke_key(store, id_of(key))
        await until(lambda: _status(one, key, 403), within_sec=10)
        await until(lambda: _status(two, key, 403), within_sec=10)


async def _status(client: httpx.AsyncClient, key: str, status: int) -> bool:
    return (await client.get("/runs", headers=by(key))).status_code == status


async def test_a_key_of_upstream_opens_and_gets_a_fast_hash(client: httpx.AsyncClient, store: Store) -> None:
    await put_upstreams_record(store, UPSTREAMS_KEY, upstreams_record(UPSTREAMS_KEY, tenant_id="old"))
    await until(lambda: _status(client, UPSTREAMS_KEY, 200))
    assert (await record_of(store, UPSTREAMS_KEY)).kdf == "hmac_sha256"
    answer = await client.post("/runs", json={"flow_name": "noop"}, headers=by(UPSTREAMS_KEY))
    run = (await client.get(f"/runs/{answer.json()['run_id']}", headers=by(UPSTREAMS_KEY))).json()
    assert (run["tenant_id"], run["api_key_id"]) == ("old", id_of(UPSTREAMS_KEY))
    expect_error(
        await client.get("/runs", headers=by(with_wrong_secret(UPSTREAMS_KEY))), 403, "ERR-PYOCO-0015"
    )


async def test_another_pepper_ends_every_key(nats_server: NatsServer, config: NatsBackendConfig) -> None:
    peppered = NatsBackendConfig(**_members(config) | {"auth_pepper": "one"})
    store = await Store.connect(peppered, name="test")
    key = await new_key(store)
    await put_upstreams_record(
        store, UPSTREAMS_KEY, upstreams_record(UPSTREAMS_KEY, pepper="one", iterations=9)
    )
    for pepper, status in (("two", 403), (None, 403), ("one", 200)):
        async with serving(NatsBackendConfig(**_members(config) | {"auth_pepper": pepper})) as client:
            for presented in (key, UPSTREAMS_KEY):
                assert (await client.get("/runs", headers=by(presented))).status_code == status
    await store.close()


def _members(config: NatsBackendConfig) -> dict[str, Any]:
    return dict(vars(config))


async def test_the_header_can_have_another_name(nats_server: NatsServer) -> None:
    config = config_on(nats_server, http_auth_mode="api_key", http_api_key_header="X-Team-Key")
    store = await Store.connect(config, name="test")
    key = await new_key(store)
    async with serving(config) as client:
        assert (await client.get("/runs", headers={"x-team-key": key})).status_code == 200
        refused = await client.get("/runs", headers=by(key))
        assert "X-Team-Key" in expect_error(refused, 401, "ERR-PYOCO-0014")["detail"]
        schemes = (await client.get("/openapi.json")).json()["components"]["securitySchemes"]
        assert schemes["api_key"]["name"] == "X-Team-Key"
    await store.close()


async def test_nothing_secret_is_logged_or_answered(
    client: httpx.AsyncClient, keyring: Keyring, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    answers = []
    for key in (*keyring[:5], UNKNOWN_KEY, "hunter2-is-no-key"):
        for asked in RUN_ROUTES:
            answers.append((await ask(client, asked, keyring.run_id, key)).text)
    said = "\n".join([*answers, *(str(vars(record)) for record in caplog.records)])
    assert "caller refused" in said
    for key in (*keyring[:5], UNKNOWN_KEY):
        assert secret_of(key) not in said
    assert "hunter2" not in said


async def test_a_refusal_is_logged_with_its_id_and_the_key_that_ended(
    client: httpx.AsyncClient, keyring: Keyring, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await client.get("/runs", headers=by(keyring.revoked))
    (line,) = [vars(record) for record in caplog.records if record.message == "caller refused"]
    assert (line["err_id"], line["api_key_id"]) == ("ERR-PYOCO-0015", id_of(keyring.revoked))


async def test_with_the_broker_away_nobody_gets_in(own_nats_server: NatsServer) -> None:
    config = config_on(own_nats_server, http_auth_mode="api_key", broker_timeout_sec=1.0)
    store = await Store.connect(config, name="test")
    key = await new_key(store)
    async with serving(config) as client:
        assert await _status(client, key, 200)
        own_nats_server.kill()
        await until(lambda: _status(client, key, 503))
        expect_error(await client.get("/runs", headers=by(key)), 503, "ERR-PYOCO-0003")
        expect_error(await client.get("/runs", headers=by(with_wrong_secret(key))), 503, "ERR-PYOCO-0003")
        expect_error(await client.get("/runs"), 401, "ERR-PYOCO-0014")
        assert (await client.get("/health")).status_code == 200
        own_nats_server.start()
        await until(lambda: _status(client, key, 200))
        await until(lambda: store.why_not_ready is None)
        await revoke_key(store, id_of(key))
        await until(lambda: _status(client, key, 403))
    await store.close()


async def test_before_the_keys_are_loaded_nobody_gets_in(nats_server: NatsServer) -> None:
    config = config_on(nats_server, http_auth_mode="api_key", start_wait_sec=0)
    store = await Store.connect(config, name="test")
    key = await new_key(store)
    await store.close()
    async with serving(config, wait_ready=False) as client:
        first = await client.get("/runs", headers=by(key))
        expect_error(first, 503, "ERR-PYOCO-0003")
        ready = await client.get("/ready")
        assert (ready.status_code, ready.json()["ready"]) == (503, False)
        await until(lambda: is_ready(client))
        assert await _status(client, key, 200)


async def test_with_keys_host_and_origin_are_not_looked_at(
    client: httpx.AsyncClient, keyring: Keyring
) -> None:
    """No browser sends a key by itself, so no page can use one that it was not given."""
    headers = by(keyring.right) | {"Host": "pyoco.example", "Origin": "https://elsewhere.example"}
    answer = await client.post("/runs", json={"flow_name": "noop"}, headers=headers)
    assert answer.status_code == 200


@pytest.mark.parametrize("mode", ["jwt", "api_key,jwt"])
def test_tokens_are_refused_at_start_without_keys_to_check_them(nats_server: NatsServer, mode: str) -> None:
    with pytest.raises(ConfigError, match=r"PYOCO_HTTP_AUTH_MODE names jwt.*set PYOCO_JWT_JWKS"):
        create_app(config_on(nats_server, http_auth_mode=mode))
