"""Where JSON is asked for, a body that says it is something else is refused on every face."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from tests.http_api.serving import expect_error

KEYS = {"Idempotency-Key": "a-key-of-ours", "X-Idempotency-Key": "a-key-of-ours"}
FOREIGN = [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "json",
    "a/+json",
]
OURS = ["application/json", "application/json; charset=utf-8", "Application/JSON", "application/vnd.x+json"]


def json_routes() -> Iterator[tuple[str, str]]:
    for path, methods in create_app(NatsBackendConfig()).openapi()["paths"].items():
        for method, described in methods.items():
            if "application/json" in described.get("requestBody", {}).get("content", {}):
                yield method.upper(), path
    yield "POST", "/runs/{run_id}/cancel"  # its body is optional, and not described


def asked(path: str) -> str:
    return re.sub(r"{\w+}", "0c5ff6b3-31a8-4a0c-9d2b-8a7d6d7b3c11", path)


@pytest.mark.parametrize("kind", FOREIGN)
async def test_a_body_that_is_not_declared_as_json_is_refused(client: httpx.AsyncClient, kind: str) -> None:
    routes = list(json_routes())
    assert len(routes) > 15
    for method, path in routes:
        headers = KEYS | {"Content-Type": kind}
        answer = await client.request(method, asked(path), content=b"{}", headers=headers)
        wanted = 400 if path.startswith(("/pdca", "/gui")) else 415
        assert answer.status_code == wanted, f"{method} {path}: {answer.status_code} {answer.text}"
        assert "application/json" in answer.text


@pytest.mark.parametrize("kind", [*OURS, None])
async def test_json_may_be_declared_in_more_than_one_way_or_not_at_all(
    client: httpx.AsyncClient, kind: str | None
) -> None:
    for method, path in json_routes():
        headers = KEYS | ({} if kind is None else {"Content-Type": kind})
        answer = await client.request(method, asked(path), content=b"{}", headers=headers)
        assert "application/json" not in answer.text, f"{method} {path}: {answer.status_code} {answer.text}"


async def test_a_request_without_a_body_needs_no_type(client: httpx.AsyncClient) -> None:
    run_id = (await client.post("/runs", json={"flow_name": "noop"})).json()["run_id"]
    form = {"Content-Type": "application/x-www-form-urlencoded"}  # as `curl -X POST -d ''` says
    assert (await client.post(f"/runs/{run_id}/cancel", headers=form)).status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/runs", b'{"flow_name": "a", "flow_name": "b"}'),
        ("/runs", b'{"flow_name": "a", "params": {"x": 1, "x": 2}}'),
        ("/schedules", b'{"flow_name": "a", "cron": "* * * * *", "cron": "1 * * * *"}'),
        ("/tickets", b'{"path": "/runs", "path": "/stream"}'),
        ("/runs/{run_id}/retry", b'{"from": "start", "from": "failed"}'),
        ("/runs/{run_id}/cancel", b'{"reason": "a", "reason": "b"}'),
        ("/dlq/1/redrive", b'{"again": true, "again": false}'),
    ],
)
async def test_a_member_that_occurs_twice_is_refused(
    client: httpx.AsyncClient, path: str, body: bytes
) -> None:
    headers = {"Content-Type": "application/json"}
    refused = expect_error(
        await client.post(asked(path), content=body, headers=headers), 422, "ERR-PYOCO-0002"
    )
    assert "occurs twice" in json.dumps(refused["detail"])
    problem: dict[str, Any] = refused["detail"][0]
    assert problem["loc"] == ["body"]
