"""A run waits for somebody: nothing has to stay alive meanwhile, and nothing that was done is done again."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.lifecycle.events import CancelRequested, RunClaimed, RunLost, RunParked, TaskResumed
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.promises.flows import footprints
from tests.promises.stack import Processes, processes
from tests.worker.stage import config_on, history, lawful
from tests.worker.wait_stage import until_parked


async def submitted(client: httpx.AsyncClient, flow_name: str) -> str:
    answer = await client.post("/runs", json={"flow_name": flow_name})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["run_id"])


async def end_of(client: httpx.AsyncClient, run_id: str) -> dict[str, Any]:
    ended: dict[str, Any] = (
        await client.get(f"/runs/{run_id}", params={"wait": 50, "include": "records"})
    ).json()
    return ended


async def asked(client: httpx.AsyncClient) -> list[tuple[str, str, Any]]:
    answer = await client.get("/approvals")
    return [(item["run_id"], item["task"], item["prompt"]) for item in answer.json().get("items", [])]


async def answered(client: httpx.AsyncClient, run_id: str, **answer: Any) -> httpx.Response:
    return await client.post(
        f"/executions/{run_id}/nodes/release/resume",
        json={"resumeKey": "release"} | answer,
        headers={"X-Idempotency-Key": str(uuid.uuid4())},
    )


def executed(started: Processes, run_id: str) -> Counter[str]:
    lines = (line.split() for line in footprints(started.footprints))
    return Counter(task for run, task in lines if run == run_id)


@pytest.mark.slow
async def test_a_run_that_waits_outlives_its_worker_the_gateway_and_the_broker(
    own_nats_server: NatsServer, tmp_path: Path
) -> None:
    config = config_on(own_nats_server)
    with processes(config, tmp_path) as started:
        gateway, worker = started.gateway(), started.worker("w1", concurrency=1)
        await gateway.ready()
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            run_id = await submitted(client, "release")
            waits = [(run_id, "release", {"version": "v1"})]
            await until(lambda: _equals(client, waits), within_sec=30)
            assert (await end_of(client, await submitted(client, "quick")))["status"] == "COMPLETED"
        worker.kill()
        worker.wait()
        gateway.kill()
        own_nats_server.kill()
        own_nats_server.start()
        gateway.start()
        await gateway.ready()
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            assert await asked(client) == waits
            assert (await answered(client, run_id, payload={"by": "ann"})).status_code == 202
            assert await asked(client) == []
            started.worker("w2", concurrency=1)
            ended = await end_of(client, run_id)
        assert (ended["status"], ended["worker_id"]) == ("COMPLETED", "w2")
        assert ended["task_records"]["deploy"]["output"] == {"build": "v1", "release": {"by": "ann"}}
        assert executed(started, run_id) == {"build": 1, "deploy": 1}
        store = await Store.connect(config, name="test")
        events = Counter(type(event) for event in await history(store, run_id))
        await store.close()
        assert [events[kind] for kind in (RunClaimed, RunParked, RunLost)] == [2, 1, 0]


async def _equals(client: httpx.AsyncClient, expected: list[tuple[str, str, Any]]) -> bool:
    return await asked(client) == expected


@pytest.mark.slow
async def test_time_ends_waits_and_sleeps_with_nobody_answering(
    config: NatsBackendConfig, store: Store, tmp_path: Path
) -> None:
    with processes(config, tmp_path) as started:
        gateway = started.gateway()
        started.worker("w1", concurrency=1)
        await gateway.ready()
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            nap, expires, goes_on = [await submitted(client, name) for name in ("nap", "expires", "goes_on")]
            await until(lambda: _was_parked(store, nap), within_sec=30)
            gateway.kill()  # it slept in nobody's memory: whoever is there then wakes it
            gateway.start()
            await gateway.ready()
            ends = {name: await end_of(client, run_id) for name, run_id in _named(nap, expires, goes_on)}
    assert {name: ended["status"] for name, ended in ends.items()} == {
        "nap": "COMPLETED",
        "expires": "FAILED",
        "goes_on": "COMPLETED",
    }
    assert ends["nap"]["task_records"]["deploy"]["output"] == {"build": "v1", "nap": None}
    assert ends["goes_on"]["task_records"]["deploy"]["output"] == {"build": "v1", "release": None}
    assert (ends["expires"]["tasks"]["release"], ends["expires"]["tasks"]["deploy"]) == (
        "FAILED",
        "CANCELLED",
    )
    for run_id in (nap, goes_on):
        assert executed(started, run_id) == {"build": 1, "deploy": 1}
    assert executed(started, expires) == {"build": 1}


async def _was_parked(store: Store, run_id: str) -> bool:
    """On a busy machine it may be awake again before somebody looks."""
    return any(isinstance(event, RunParked) for event in await history(store, run_id))


def _named(nap: str, expires: str, goes_on: str) -> list[tuple[str, str]]:
    return [("nap", nap), ("expires", expires), ("goes_on", goes_on)]


@pytest.mark.slow
async def test_a_run_that_waits_is_cancelled_without_any_worker(
    config: NatsBackendConfig, store: Store, tmp_path: Path
) -> None:
    with processes(config, tmp_path) as started:
        gateway, worker = started.gateway(), started.worker("w1", concurrency=1)
        await gateway.ready()
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            run_id = await submitted(client, "release")
            await until_parked(store, run_id)
            worker.kill()
            worker.wait()
            assert (await client.post(f"/runs/{run_id}/cancel")).status_code == 200
            ended = await end_of(client, run_id)
            assert await asked(client) == []
            refused = await answered(client, run_id)
    assert refused.status_code == 409
    assert refused.json()["error"]["details"]["reason"] == "EXECUTION_TERMINAL"
    assert (ended["status"], ended["tasks"]) == (
        "CANCELLED",
        {"build": "SUCCEEDED", "release": "CANCELLED", "deploy": "CANCELLED"},
    )


RACES = 60


@pytest.mark.slow
async def test_of_an_approval_a_rejection_and_a_cancel_at_once_the_cancel_wins_and_one_answer_counts(
    config: NatsBackendConfig, store: Store, tmp_path: Path
) -> None:
    with processes(config, tmp_path) as started:
        one, other = started.gateway(), started.gateway()
        started.worker("w1", concurrency=2)
        await one.ready()
        await other.ready()
        async with (
            httpx.AsyncClient(base_url=one.url, timeout=60) as client,
            httpx.AsyncClient(base_url=other.url, timeout=60) as another,
        ):
            ends = await asyncio.gather(*(_race(client, another, store, number) for number in range(RACES)))
    # More than one way of ending must have occurred, or nothing was raced.
    assert "CANCELLED" in ends
    assert len(set(ends)) > 1


async def _race(client: httpx.AsyncClient, another: httpx.AsyncClient, store: Store, number: int) -> str:
    """Each third without a cancel, so that answers can win over each other too."""
    run_id = await submitted(client, "release")
    await until_parked(store, run_id)
    asks = [answered(client, run_id, payload=1), answered(another, run_id, decision="reject")]
    if number % 3 == 0:
        asks.append(another.post(f"/runs/{run_id}/cancel"))
    first = number // 3 % len(asks)
    answers = await asyncio.gather(*asks[first:], *asks[:first])
    assert sum(answer.status_code == 202 for answer in answers) <= 1
    ended = await end_of(client, run_id)
    events = await history(store, run_id)
    assert sum(isinstance(event, TaskResumed) for event in events) <= 1
    if any(isinstance(event, CancelRequested) for event in events):
        assert ended["status"] == "CANCELLED"
    await lawful(store, run_id)
    return str(ended["status"])
