"""A gateway with strategies, callers of its recheck face, and what every answer of that face must be."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs

from pyoco_server.config import NatsBackendConfig
from pyoco_server.ids import new_ulid
from tests import issuer
from tests.conftest import NatsServer, until
from tests.http_api.serving import ULID, serving
from tests.worker.stage import config_on

CATALOGUE = """
strategies:
  - {id: strat.a, title: Mean reversion, instrument: USDJPY, tags: [daily, fx]}
  - {id: strat.b, title: Breakout, instrument: EURUSD, tags: [daily]}
  - {id: strat.c, title: "100% carry_trade", instrument: USDJPY, tags: [weekly]}
  - {id: strat.off, title: Retired, instrument: USDJPY, enabled: false, tags: [daily]}
"""


def recheck_config(server: NatsServer, folder: Path, **changes: Any) -> NatsBackendConfig:
    catalogue = folder / "strategies.yaml"
    if not catalogue.exists():
        catalogue.write_text(CATALOGUE, encoding="utf-8")
    return config_on(server, **({"strategies_file": str(catalogue)} | changes))


@asynccontextmanager
async def recheck_face(config: NatsBackendConfig, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client whose every answer is held against the description of the API."""
    async with serving(config) as client:
        described = (await client.get("/openapi.json")).json()
        client.headers.update(headers)
        client.event_hooks["response"].append(_Described(described).check)
        yield client


class _Described:
    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema

    async def check(self, answer: httpx.Response) -> None:
        path, method = answer.request.url.path, answer.request.method.lower()
        if not path.startswith(("/pdca/", "/gui/")):
            return
        await answer.aread()
        assert ULID.fullmatch(answer.headers["x-request-id"])
        if answer.headers.get("content-type") == "application/problem+json":
            return
        operation = self._operation(path, method)
        if operation is None:
            schema: Any = {"$ref": "#/components/schemas/RecheckError"}
        else:
            content = operation["responses"][str(answer.status_code)].get("content", {})
            schema = content.get("application/json", {}).get("schema")
        if schema is not None and answer.headers.get("content-type") == "application/json":
            whole = schema | {"components": self._schema["components"]}
            jsonschema_rs.validate(whole, answer.json())
        if answer.status_code not in (401, 403, 502):
            assert answer.headers["ratelimit-policy"]
            assert int(answer.headers["x-ratelimit-remaining"]) >= 0

    def _operation(self, path: str, method: str) -> Any:
        for template, methods in self._schema["paths"].items():
            wanted, steps = template.split("/"), path.split("/")
            if len(wanted) == len(steps) and all(
                one == step or (one.startswith("{") and step) for one, step in zip(wanted, steps, strict=True)
            ):
                return methods.get(method)
        return None


def asked(*strategies: str, **changes: Any) -> dict[str, Any]:
    return {"strategies": list(strategies or ["strat.a"]), "reason": "manual"} | changes


async def post(
    client: httpx.AsyncClient,
    body: Any,
    *,
    key: str | None = None,
    path: str = "/pdca/recheck",
    **headers: str,
) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", "Idempotency-Key": key or new_ulid()} | headers
    return await client.post(path, content=content, headers=sent)


def expect_flat(answer: httpx.Response, status: int, error: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    body: dict[str, Any] = answer.json()
    assert body["error"] == error
    assert set(body) == ({"error", "message", "retry_after"} if status == 429 else {"error", "message"})
    return body


async def until_over(client: httpx.AsyncClient, request_id: str) -> dict[str, Any]:
    async def over() -> Any:
        answer = await client.get(f"/pdca/recheck/{request_id}")
        assert answer.status_code == 200, answer.text
        return answer.json() if answer.json()["status"] != "running" else None

    found = await until(over, within_sec=40, every_sec=0.05)
    assert isinstance(found, dict)
    return found


def jwt_headers(**changes: Any) -> dict[str, str]:
    return issuer.bearer(issuer.token(**changes))
