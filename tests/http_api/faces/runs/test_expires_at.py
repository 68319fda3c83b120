"""POST /runs with `expires_at`: a run that has not started by then is cancelled, also without a gateway."""

from __future__ import annotations

import time

import httpx
import pytest

from pyoco_server.store.store import Store
from tests.conftest import until
from tests.http_api.serving import expect_error, submit
from tests.worker.stage import Flows, ended_as, jobs_queued, lawful, queue_drained, submitted, working


async def test_a_run_that_no_worker_starts_is_cancelled_in_time(
    client: httpx.AsyncClient, store: Store
) -> None:
    expires_at = time.time() + 0.5
    run_id = await submit(client, expires_at=expires_at)
    waiting = (await client.get(f"/runs/{run_id}")).json()
    assert (waiting["status"], waiting["expires_at"]) == ("PENDING", expires_at)
    why = (await client.get(f"/executions/{run_id}/why")).json()
    assert [one["reason"] for one in why["reasons"]] == ["NO_WORKER", "EXPIRES"]

    shown = (await client.get(f"/runs/{run_id}", params={"wait": 20})).json()
    assert (shown["status"], shown["cancel_reason"]) == ("CANCELLED", "expired")
    assert shown["end_time"] >= expires_at
    assert (await client.get(f"/executions/{run_id}/why")).json()["reasons"][0]["reason"] == "EXPIRED"
    await lawful(store, run_id)

    async def is_logged() -> bool:
        lines = (await client.get(f"/runs/{run_id}/logs")).json()
        return "expired; no worker has started the run" in str(lines)

    await until(is_logged)


async def test_a_run_that_starts_in_time_goes_on(client: httpx.AsyncClient, store: Store) -> None:
    run_id = await submit(client, expires_at=time.time() + 3600)
    async with working(store.config) as worker:
        assert await worker.run_once(timeout=20.0) == run_id
    shown = (await client.get(f"/runs/{run_id}")).json()
    assert shown["status"] == "COMPLETED"


async def test_a_worker_cancels_an_expired_run_without_a_gateway(store: Store) -> None:
    run_id = await submitted(store, expires_at=time.time() - 1)
    assert await jobs_queued(store) == 1
    flows = Flows()
    async with working(store.config, flows) as worker:
        await worker.run_once(timeout=20.0)
    await ended_as(store, run_id, "CANCELLED")
    await queue_drained(store)
    assert flows.asked == []
    await lawful(store, run_id)


async def test_a_run_may_start_later_and_expire_after_that(client: httpx.AsyncClient) -> None:
    start_at = time.time() + 3600
    run_id = await submit(client, start_at=start_at, expires_at=start_at + 60)
    shown = (await client.get(f"/runs/{run_id}")).json()
    assert (shown["start_at"], shown["expires_at"]) == (start_at, start_at + 60)
    for expires_at in (start_at, start_at - 1):
        body = {"flow_name": "noop", "start_at": start_at, "expires_at": expires_at}
        answer = await client.post("/runs", json=body)
        assert expect_error(answer, 422, "ERR-PYOCO-0002")["detail"][0]["loc"] == ["body", "expires_at"]


async def test_a_retry_of_an_expired_run_does_not_expire(client: httpx.AsyncClient) -> None:
    run_id = await submit(client, expires_at=time.time() - 1)
    await client.get(f"/runs/{run_id}", params={"wait": 20})
    again = (await client.post(f"/runs/{run_id}/retry")).json()
    shown = (await client.get(f"/runs/{again['run_id']}")).json()
    assert shown["status"] == "PENDING"
    assert "expires_at" not in shown


@pytest.mark.parametrize("expires_at", ["soon", True, [], 1e300, -1, "2026-01-01T00:00:00Z"])
async def test_what_is_no_instant_is_refused(client: httpx.AsyncClient, expires_at: object) -> None:
    answer = await client.post("/runs", json={"flow_name": "noop", "expires_at": expires_at})
    assert expect_error(answer, 422, "ERR-PYOCO-0002")["detail"][0]["loc"] == ["body", "expires_at"]
