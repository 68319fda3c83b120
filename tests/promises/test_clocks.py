"""Machines whose clocks are wrong by an hour: every wait takes its time, and nothing is erased too early."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest

from tests.conftest import NatsServer, config_for, until
from tests.promises.stack import processes

WRONG_BY_SEC = {"an hour ahead": 3600.0, "an hour behind": -3600.0}
NAP_SEC = 1.5
KEPT_SEC = 3.0
# Of instants that a process stamps with the broker's time, and of ours.
APART_SEC = 30.0

wrong_clock = pytest.mark.parametrize("ahead_sec", WRONG_BY_SEC.values(), ids=WRONG_BY_SEC)


@wrong_clock
async def test_a_wait_ends_in_time_where_the_clock_of_the_worker_is_wrong(
    nats_server: NatsServer, tmp_path: Path, ahead_sec: float
) -> None:
    with processes(config_for(nats_server), tmp_path) as started:
        gateway = started.gateway()
        started.worker("w1", clock_ahead_sec=ahead_sec)
        await gateway.ready()
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            await until(lambda: _is_listed(client, "w1"))
            asked_at = time.time()
            run_id = (await client.post("/runs", json={"flow_name": "nap"})).json()["run_id"]
            run = (await client.get(f"/runs/{run_id}", params={"wait": 30})).json()
            ended_at = time.time()
            tasks = (await client.get(f"/runs/{run_id}/tasks")).json()["task_records"]
            [worker] = (await client.get("/workers")).json()
    assert run["status"] == "COMPLETED"
    assert ended_at - asked_at >= NAP_SEC
    instants = [one[name] for one in tasks.values() for name in ("started_at", "ended_at")]
    assert all(asked_at - APART_SEC < at < ended_at + APART_SEC for at in instants), instants
    assert worker["state"] in ("RUNNING", "IDLE")


@wrong_clock
async def test_a_run_is_kept_as_long_as_it_is_to_where_the_clock_of_the_gateway_is_wrong(
    nats_server: NatsServer, tmp_path: Path, ahead_sec: float
) -> None:
    with processes(config_for(nats_server, run_history_sec=KEPT_SEC), tmp_path) as started:
        gateway = started.gateway(clock_ahead_sec=ahead_sec)
        started.worker("w1")
        await gateway.ready()
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            run_id = (await client.post("/runs", json={"flow_name": "steps"})).json()["run_id"]
            run = (await client.get(f"/runs/{run_id}", params={"wait": 30})).json()
            assert run["status"] == "COMPLETED"
            await until(lambda: _is_gone(client, run_id))
    assert time.time() - run["updated_at"] >= KEPT_SEC


async def _is_listed(client: httpx.AsyncClient, worker_id: str) -> bool:
    listed = (await client.get("/workers", params={"scope": "all"})).json()
    return any(one["worker_id"] == worker_id for one in listed)


async def _is_gone(client: httpx.AsyncClient, run_id: str) -> bool:
    return (await client.get(f"/runs/{run_id}")).status_code == 404
