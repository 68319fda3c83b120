"""Gateways for tests, and what every answer of theirs has."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from tests.conftest import until

ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


@asynccontextmanager
async def serving(config: NatsBackendConfig, *, wait_ready: bool = True) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(config)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=30) as client,
    ):
        if wait_ready:
            # Not asked over HTTP: what every test waits for should cost next to nothing.
            await until(lambda: app.state.gateway.ready()["ready"])
        yield client


async def is_ready(client: httpx.AsyncClient) -> bool:
    return (await client.get("/ready")).status_code == 200


async def submit(client: httpx.AsyncClient, flow_name: str = "noop", **members: Any) -> str:
    answer = await client.post("/runs", json={"flow_name": flow_name} | members)
    assert answer.status_code == 200, answer.text
    run_id: str = answer.json()["run_id"]
    return run_id


def expect_error(answer: httpx.Response, status: int, err_id: str | None) -> dict[str, Any]:
    """The body of an error, after checking what all of them have."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert ULID.fullmatch(answer.headers["x-request-id"])
    body: dict[str, Any] = answer.json()
    if err_id is None:
        assert set(body) == {"detail", "message"}
    else:
        assert set(body) == {"detail", "err_id", "msg_id", "message"}
        assert body["err_id"] == err_id
        assert body["msg_id"] == err_id.replace("ERR", "MSG")
    assert body["message"]
    assert body["detail"]
    return body
