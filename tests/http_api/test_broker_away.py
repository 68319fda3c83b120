"""With the broker away every route of every face says so, when to come back, and in one line of the log."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from tests.conftest import NatsServer, free_port, until
from tests.http_api.serving import is_ready, serving
from tests.worker.stage import config_on

ALIVE = frozenset({"/health", "/caller"})  # these need no broker
BODIES: dict[str, Any] = {"/runs": {"flow_name": "noop"}, "/jobs": {"parameters": {}}}


def routes() -> Iterator[tuple[str, str]]:
    app = create_app(NatsBackendConfig())
    for path, methods in app.openapi()["paths"].items():
        for method in methods:
            if path not in ALIVE and not path.endswith("/ws"):
                yield method.upper(), path


def asked(path: str) -> str:
    return re.sub(r"{\w+}", "0c5ff6b3-31a8-4a0c-9d2b-8a7d6d7b3c11", path)


@pytest.fixture
async def away(own_nats_server: NatsServer) -> AsyncIterator[httpx.AsyncClient]:
    """A gateway that was ready, and whose broker is gone."""
    async with serving(config_on(own_nats_server)) as client:
        own_nats_server.kill()

        async def noticed() -> bool:
            return not await is_ready(client)

        await until(noticed)
        yield client


@pytest.fixture
async def never_there() -> AsyncIterator[httpx.AsyncClient]:
    config = NatsBackendConfig(nats_url=f"nats://127.0.0.1:{free_port()}", start_wait_sec=0)
    async with serving(config, wait_ready=False) as client:
        yield client


@pytest.mark.parametrize("accept", ["application/json", "application/problem+json"])
async def test_every_route_says_when_to_come_back(
    away: httpx.AsyncClient, accept: str, caplog: pytest.LogCaptureFixture
) -> None:
    await _walk(away, accept, caplog)


async def test_before_the_broker_was_ever_there_it_is_the_same(
    never_there: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    await _walk(never_there, "application/json", caplog)


async def _walk(client: httpx.AsyncClient, accept: str, caplog: pytest.LogCaptureFixture) -> None:
    found = list(routes())
    assert len(found) > 60
    for method, path in found:
        caplog.clear()
        body = BODIES.get(path, {}) if method in ("POST", "PUT", "PATCH") else None
        answer = await client.request(method, asked(path), json=body, headers={"Accept": accept})
        said = f"{method} {path}: {answer.status_code} {answer.text}"
        assert answer.status_code == (502 if path.startswith(("/pdca", "/gui")) else 503), said
        assert int(answer.headers["retry-after"]) >= 1, said
        assert [record for record in caplog.records if record.exc_info] == [], said
        written = [one for one in caplog.records if one.getMessage() in ("request failed", "request broke")]
        assert len(written) <= 1, said
