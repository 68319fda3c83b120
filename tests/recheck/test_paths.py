"""Which requests the recheck face answers, and the exact answer where no operation serves the path."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from pyoco_server.http_api.app import GatewayApp
from pyoco_server.operations.rechecks import query
from tests import issuer
from tests.conftest import NatsServer, until
from tests.recheck.faces import jwt_headers, recheck_config

NOTHING = (
    '{"error":"NOT_FOUND","message":"There is nothing at this address. The routes are described at /docs."}'
)
TOKEN_NEEDED = (
    '{"error":"UNAUTHORIZED","message":"A token is needed. Send it as Authorization: Bearer <JWT> '
    'or an API key in the header X-API-Key, or as the bearer token."}'
)
READER = {"aud": "pdca.gui", "scope": "pdca:read", "tenant_id": None}


@pytest.fixture
def config(nats_server: NatsServer, tmp_path: Path) -> NatsBackendConfig:
    keys = issuer.write_jwks(tmp_path / "jwks.json", "k1")
    return recheck_config(nats_server, tmp_path, jwt_jwks=str(keys))


@pytest.fixture
async def app(config: NatsBackendConfig) -> AsyncIterator[GatewayApp]:
    app = create_app(config)
    async with app.router.lifespan_context(app):
        await until(lambda: app.state.gateway.ready()["ready"])
        yield app


def client_of(app: GatewayApp, root_path: str = "") -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False, root_path=root_path)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=jwt_headers(**READER))


def refused_method(method: str, allowed: str) -> str:
    message = f"{method} is not possible here; {allowed} is."
    return json.dumps({"error": "BAD_REQUEST", "message": message}, separators=(",", ":"))


UNKNOWN = (
    "/pdca", "/gui", "/pdca/", "/gui/", "/gui/nothing", "/gui/strategies/", "/gui/strategies//results",
    "/pdca/recheck/a/b", "/gui/strategies%0A", "/pdca/recheck_all%0A", "/gui/a%0Ab", "/gui/%E3%81%82",
)  # fmt: skip


@pytest.mark.parametrize("method", ["GET", "DELETE", "BREW"])
async def test_an_unknown_path_is_404_after_the_caller_was_checked(app: GatewayApp, method: str) -> None:
    async with client_of(app) as client:
        for path in UNKNOWN:
            known = await client.request(method, path)
            assert (known.status_code, known.text) == (404, NOTHING), path
            assert known.headers["ratelimit-policy"].startswith('"reads"')
            unknown = await client.request(method, path, headers={"Authorization": "Basic YTpi"})
            assert (unknown.status_code, unknown.text) == (401, TOKEN_NEEDED), path
            assert unknown.headers["www-authenticate"].startswith("Bearer realm=")
            assert "ratelimit-policy" not in unknown.headers


METHODS = [
    ("OPTIONS", "/pdca/recheck", "POST"),
    ("GET", "/pdca/recheck_all", "POST"),
    ("POST", "/gui/strategies/strat.a", "GET or PUT or DELETE"),
    ("get", "/gui/requests/x", "GET"),
]


async def test_an_unknown_method_is_400_and_names_the_possible_ones(app: GatewayApp) -> None:
    async with client_of(app) as client:
        for method, path, allowed in METHODS:
            request = client.build_request(method, path)
            request.method = method  # httpx writes it in capitals
            answer = await client.send(request)
            assert (answer.status_code, answer.text) == (400, refused_method(method, allowed))
        assert (await client.head("/gui/strategies")).status_code == 400


async def test_the_face_is_served_below_the_path_of_a_proxy(app: GatewayApp) -> None:
    async with client_of(app, root_path="/sub") as client:
        assert (await client.get("/sub/gui/strategies")).json()["total"] == 4
        answer = await client.get("/sub/gui/nothing")
        assert (answer.status_code, answer.text) == (404, NOTHING)


async def test_requests_of_other_faces_are_neither_limited_nor_counted_here(app: GatewayApp) -> None:
    async with client_of(app) as client:
        for path in ("/runs", "/jobs/x", "/executions/x", "/nothing", "/guix", "/health"):
            assert "ratelimit-policy" not in (await client.get(path)).headers
    assert not app.state.gateway.rechecks.counters.requests


async def test_an_unexpected_error_keeps_the_limit_headers_and_is_counted(
    app: GatewayApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(query, "page", fail)
    async with client_of(app) as client:
        answer = await client.get("/gui/strategies")
    message = "Something went wrong on our side. It was logged."
    assert (answer.status_code, answer.json()) == (500, {"error": "INTERNAL_ERROR", "message": message})
    assert answer.headers["ratelimit-policy"]
    assert app.state.gateway.rechecks.counters.requests == {("/gui/strategies", "INTERNAL_ERROR"): 1}


async def test_without_a_broker_callers_are_checked_first(config: NatsBackendConfig) -> None:
    app = create_app(config)
    async with client_of(app) as client:
        for path in ("/gui/strategies", "/gui/nothing"):
            answer = await client.get(path, headers={"Authorization": "Basic YTpi"})
            assert (answer.status_code, answer.text) == (401, TOKEN_NEEDED)
