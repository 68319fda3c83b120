"""Why a run of workers does not move: behind others, lost with its worker, about to be tried again."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.faces.executions.why_texts import explained
from pyoco_server.lifecycle.events import RunClaimed, TaskFailed, TasksPlanned
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.operations.fleet import workers as workers_module
from pyoco_server.operations.runs import why as why_module
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.fleet.leases import Lease
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.http_api.faces.executions.driving import Driver
from tests.worker.stage import Flows, a_submission, config_on, one_task, submitted, waiting, working


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    """Nobody takes anything over while it is looked at."""
    return config_on(nats_server, worker_lease_sec=600.0)


@pytest.fixture
def drive(client: httpx.AsyncClient) -> Driver:
    return Driver(client)


async def told(drive: Driver, run_id: str, language: str = "en") -> list[tuple[str, str]]:
    headers = {"Accept-Language": language}
    answer = (await drive.client.get(f"/executions/{run_id}/why", headers=headers)).json()
    return [(one["reason"], one["message"].partition(" since ")[0]) for one in answer["reasons"]]


async def test_how_many_are_ahead_of_it_in_the_queue_of_its_tag(
    drive: Driver, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"state": "IDLE", "last_seen_at": time.time(), "instance_id": "i", "tags": ["default"]}
    await store.registry.merge("w1", entry)
    await submitted(store, tag="other")
    first, second, third, fourth = [await submitted(store) for _ in range(4)]
    assert await told(drive, first) == [("QUEUED", "Next in line for a free worker of tag default. Queued")]
    assert await told(drive, second) == [
        ("QUEUED", "One run is ahead of it in the queue of tag default. Queued")
    ]
    assert await told(drive, third) == [
        ("QUEUED", "2 runs are ahead of it in the queue of tag default. Queued")
    ]
    assert "前に 3 件あります" in (await told(drive, fourth, "ja"))[0][1]
    monkeypatch.setattr("pyoco_server.http_api.faces.executions.why_texts.AHEAD_MAX", 2)
    monkeypatch.setattr(why_module, "AHEAD_MAX", 2)
    assert (await told(drive, fourth))[0][1].startswith("At least 2 runs are ahead of it")


async def test_a_worker_that_gives_no_sign_of_life_is_named_with_the_moment_of_the_takeover(
    drive: Driver, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, go_on = threading.Event(), threading.Event()
    run_id = await submitted(store, "slow")
    flows = Flows(slow=one_task(waiting(started, go_on)))
    async with working(store.config, flows, worker_id="w7") as worker:
        handling = asyncio.create_task(worker.run_once(timeout=20.0))
        await until(started.is_set)
        assert await told(drive, run_id) == [("AT_WORKER", "Worker w7 is executing it.")]
        monkeypatch.setattr(workers_module, "LEASE_OVERDUE", -1.0)  # as if its next sign were overdue already
        [(reason, sentence)] = await told(drive, run_id)
        assert (reason, sentence) == ("WORKER_LOST", "Worker w7 has sent no heartbeat")
        go_on.set()
        await handling


async def test_a_task_that_failed_and_is_tried_again_says_with_what(
    read_model: ReadModel, store: Store
) -> None:
    run = fold(
        None,
        [
            a_submission("buy"),
            RunClaimed(at=2.0, worker_id="w", instance_id="w.1", fence=1),
            TasksPlanned(at=3.0, tasks=["buy", "pack"]),
            TaskFailed(
                at=5.0, task="buy", attempt=1, started_at=4.0, error="the shop is closed", will_retry=True
            ),
        ],
    )
    assert run is not None
    reasons = await why_module.why(store, read_model, run)
    shown: Any = explained(reasons, [], "en")
    assert [one["message"] for one in shown["reasons"]] == [
        "Worker w is executing it.",
        "Node buy failed (the shop is closed); attempt 2 follows shortly.",
    ]


async def test_how_long_a_lease_is_silent_is_told_by_the_brokers_clock_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await store.leases.silent_sec("nobody") is None
    revision = await store.leases.write("somebody", Lease(holder="somebody"), revision=0)
    monkeypatch.setattr(time, "time", lambda: 0.0)  # ours may be off by any amount
    silent_sec = await store.leases.silent_sec("somebody")
    assert silent_sec is not None
    assert 0 <= silent_sec < 60
    await store.leases.release("somebody", revision=revision)
    assert await store.leases.silent_sec("somebody") is None
