"""Requests that are dear to read are read beside the event loop, or refused before they are read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from tests.http_api.holding import HOLD_SEC_MAX, held
from tests.http_api.live import Live, live

MANY = 2_000_000
KEY = {"X-Idempotency-Key": "k", "Idempotency-Key": "00000000-0000-4000-8000-000000000000"}
# Normalised by insertion these take seconds in 32 KB, and hours in a megabyte.
COMBINING = "a" + "\u0301\u0316" * 12_000


@pytest.fixture
async def gateway(config: NatsBackendConfig) -> AsyncIterator[Live]:
    async with live(config) as one:
        yield one


def listed(unit: str) -> str:
    return f"[{','.join([unit] * (MANY // len(unit)))}]"


@pytest.mark.parametrize("unit", ["[]", '{"a":1}', "1.5"])
@pytest.mark.parametrize(
    ("path", "before", "after", "status"),
    [
        ("/runs", '{"flow_name":"x","params":{"a":', "}}", 413),
        ("/jobs", '{"parameters":{"a":', "}}", 413),
        ("/schedules", '{"flow_name":"x","cron":"* * * * *","params":{"a":', "}}", 413),
        ("/tickets", '{"path":"/runs","a":', "}", 413),
    ],
)
async def test_a_body_of_very_many_values_is_refused_unread(
    gateway: Live, path: str, before: str, after: str, status: int, unit: str
) -> None:
    body = (before + listed(unit) + after).encode()
    with held() as holds:
        answer = await gateway.client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert holds.worst_sec < HOLD_SEC_MAX


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/runs", {"flow_name": "x", "params": {"a": COMBINING}}, 422),
        ("/jobs", {"parameters": {"a": COMBINING}}, 400),
        ("/jobs", {"parameters": {}, "tags": [COMBINING]}, 400),
        ("/executions", {"graphId": "g", "input": {"a": COMBINING}}, 422),
        ("/pdca/recheck", {"strategies": ["a"], "reason": COMBINING}, 400),
    ],
)
async def test_combining_characters_without_end_are_refused_at_once(
    gateway: Live, path: str, body: dict[str, Any], status: int
) -> None:
    raw = json.dumps(body, ensure_ascii=False).encode()
    with held() as holds:
        answer = await gateway.client.post(
            path, content=raw, headers={"Content-Type": "application/json", **KEY}
        )
    assert answer.status_code == status, answer.text
    assert "30 combining characters in a row" in answer.text
    assert holds.worst_sec < HOLD_SEC_MAX


async def test_the_largest_parameters_do_not_hold_it_up(gateway: Live) -> None:
    body = ('{"parameters":{"a":[' + ",".join(["[]"] * 65_000) + "]}}").encode()
    with held() as holds:
        answer = await gateway.client.post(
            "/jobs", content=body, headers={"Content-Type": "application/json"}
        )
    assert answer.status_code == 201, answer.text
    assert holds.worst_sec < HOLD_SEC_MAX
