"""Two gateways behind one broker share nothing else: what one accepts, the other knows."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from tests.conftest import until
from tests.promises.stack import processes


@pytest.mark.slow
async def test_submit_on_one_list_watch_and_cancel_on_the_other(
    config: NatsBackendConfig, tmp_path: Path
) -> None:
    with processes(config, tmp_path) as started:
        here, there = started.gateway(), started.gateway()
        started.worker("w", concurrency=1)
        await here.ready()
        await there.ready()
        async with (
            httpx.AsyncClient(base_url=here.url, timeout=60) as one,
            httpx.AsyncClient(base_url=there.url, timeout=60) as other,
        ):
            run_id = (await one.post("/runs", json={"flow_name": "five"})).json()["run_id"]
            assert [run["run_id"] for run in (await other.get("/runs")).json()] == [run_id]
            watched = asyncio.create_task(_statuses(other, run_id))
            await until(lambda: _is_running(one, run_id))
            assert (await other.post(f"/runs/{run_id}/cancel")).json()["status"] == "CANCELLING"
            ended = (await one.get(f"/runs/{run_id}", params={"wait": 30})).json()
            assert ended["status"] == "CANCELLED"
            statuses = await asyncio.wait_for(watched, 30)
    assert statuses[-1] == "CANCELLED"
    assert set(statuses) >= {"RUNNING", "CANCELLED"}


async def _statuses(client: httpx.AsyncClient, run_id: str) -> list[str]:
    """Of every snapshot that is pushed, until the stream ends by itself."""
    found = []
    async with client.stream("GET", f"/runs/{run_id}/watch") as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data: ") and "snapshot" in line:
                found.append(json.loads(line[6:])["snapshot"]["status"])
    return found


async def _is_running(client: httpx.AsyncClient, run_id: str) -> bool:
    return bool((await client.get(f"/runs/{run_id}")).json()["status"] == "RUNNING")
