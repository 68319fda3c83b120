"""A gateway is killed while it accepts rechecks: each key is one request and one run, and all of them end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.ids import new_ulid
from tests.conftest import NatsServer, until
from tests.promises.stack import processes
from tests.recheck.faces import asked, post, recheck_config
from tests.recheck.stage import evaluating

REQUESTS = 60
KILLED_AFTER = 15
AT_ONCE = 8


@pytest.fixture
def config(nats_server: NatsServer, tmp_path: Path) -> NatsBackendConfig:
    return recheck_config(nats_server, tmp_path, recheck_per_min=10_000, recheck_reads_per_min=100_000)


@pytest.mark.slow
async def test_a_gateway_killed_while_it_accepts_loses_and_doubles_nothing(
    config: NatsBackendConfig, tmp_path: Path
) -> None:
    keys = [new_ulid() for _ in range(REQUESTS)]
    with processes(config, tmp_path) as started:
        here, there = started.gateway(), started.gateway()
        await here.ready()
        await there.ready()
        async with httpx.AsyncClient(base_url=here.url, timeout=30) as one:
            first = await _burst(one, keys, here.kill)
        assert 0 < len(first) < REQUESTS
        async with evaluating(config) as flow, httpx.AsyncClient(base_url=there.url, timeout=60) as other:
            again = dict(
                zip(keys, await asyncio.gather(*(_accepted(other, key) for key in keys)), strict=True)
            )
            assert all(again[key] == body for key, body in first.items())
            for body in again.values():
                await _until_over(other, body["request_id"])
            listed = (await other.get("/runs", params={"limit": 200})).json()
    run_ids = {body["dag"]["run_id"] for body in again.values()}
    assert len(run_ids) == REQUESTS
    assert {run["run_id"] for run in listed} == run_ids
    assert sorted(given["request_id"] for given in flow.given) == sorted(
        body["request_id"] for body in again.values()
    )


async def _burst(client: httpx.AsyncClient, keys: list[str], kill: Any) -> dict[str, dict[str, Any]]:
    """The answers that came before and while the gateway was killed."""
    answered: dict[str, dict[str, Any]] = {}
    # Not all at once: the answers to all of them could be on their way before one is read.
    turns = asyncio.Semaphore(AT_ONCE)

    async def ask(key: str) -> None:
        try:
            async with turns:
                answer = await post(client, asked(dry_run=False), key=key)
        except httpx.TransportError:
            return
        assert answer.status_code == 202, answer.text
        answered[key] = answer.json()
        if len(answered) == KILLED_AFTER:
            kill()

    await asyncio.gather(*map(ask, keys))
    return answered


async def _accepted(client: httpx.AsyncClient, key: str) -> dict[str, Any]:
    async def accepted() -> Any:
        answer = await post(client, asked(dry_run=False), key=key)
        assert answer.status_code in (202, 502), answer.text
        return answer.json() if answer.status_code == 202 else None

    found = await until(accepted, within_sec=60, every_sec=0.1)
    assert isinstance(found, dict)
    return found


async def _until_over(client: httpx.AsyncClient, request_id: str) -> None:
    async def is_over() -> bool:
        answer = await client.get(f"/pdca/recheck/{request_id}")
        return bool(answer.json()["status"] == "success")

    await until(is_over, within_sec=60, every_sec=0.05)
