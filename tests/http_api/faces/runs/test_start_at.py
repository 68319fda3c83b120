"""POST /runs with `start_at`: accepted now, started then."""

from __future__ import annotations

import time

import httpx
import pytest

from pyoco_server.store.store import Store
from tests.conftest import until
from tests.http_api.serving import expect_error, submit
from tests.worker.stage import jobs_queued, working


async def test_a_delayed_run_is_pending_and_says_until_when(client: httpx.AsyncClient, store: Store) -> None:
    start_at = time.time() + 3600
    run_id = await submit(client, start_at=start_at)
    shown = (await client.get(f"/runs/{run_id}")).json()
    assert (shown["status"], shown["start_at"]) == ("PENDING", start_at)
    assert await jobs_queued(store) == 0
    assert [run["run_id"] for run in (await client.get("/runs")).json()] == [run_id]
    await client.post(f"/runs/{run_id}/cancel")
    assert (await client.get(f"/runs/{run_id}")).json()["status"] == "CANCELLED"


async def test_the_gateway_starts_it_in_time(client: httpx.AsyncClient, store: Store) -> None:
    start_at = time.time() + 0.5
    run_id = await submit(client, start_at=start_at)

    async def is_queued() -> bool:
        return await jobs_queued(store) == 1

    await until(is_queued)
    assert time.time() >= start_at
    async with working(store.config) as worker:
        assert await worker.run_once(timeout=20.0) == run_id
    assert (await client.get(f"/runs/{run_id}")).json()["status"] == "COMPLETED"


@pytest.mark.parametrize("start_at", ["soon", True, [], 1e300, "2026-01-01T00:00:00Z"])
async def test_what_is_no_instant_is_refused(client: httpx.AsyncClient, start_at: object) -> None:
    answer = await client.post("/runs", json={"flow_name": "noop", "start_at": start_at})
    assert expect_error(answer, 422, "ERR-PYOCO-0002")["detail"][0]["loc"] == ["body", "start_at"]
