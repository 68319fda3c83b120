"""What a worker says of itself: its registry entry by appendix F, and its lease."""

from __future__ import annotations

import asyncio
import os
import platform
import socket
import threading
import time
from importlib.metadata import version
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.store.fleet.leases import boot_id
from pyoco_server.store.store import Store
from pyoco_server.worker import PyocoNatsWorker
from pyoco_server.worker.attempt.claim import Claimant
from pyoco_server.worker.presence.heartbeat import Heartbeat
from tests.conftest import NatsServer, until
from tests.store.making import stand_still
from tests.worker.stage import Flows, config_on, one_task, submitted, waiting, working

REQUIRED = {"worker_id", "instance_id", "state", "hidden", "last_seen_at", "last_heartbeat_at", "tags"}
RECOMMENDED = {
    "current_run_id", "last_run_id", "last_run_status", "last_run_started_at", "last_run_finished_at",
    "stopped_at", "stop_reason",
}  # fmt: skip
OURS = {
    "slots", "free_slots", "current_run_ids", "last_fetch_at", "versions", "host", "pid", "started_at",
}  # fmt: skip


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server, worker_heartbeat_interval_sec=0.1, worker_lease_interval_sec=0.05)


async def test_a_worker_is_idle_then_running_then_idle_then_stopped(store: Store) -> None:
    started, go_on = threading.Event(), threading.Event()
    flows = Flows(slow=one_task(waiting(started, go_on)))
    before = time.time()
    async with working(store.config, flows, worker_id="w1", tags=["a", "b"]) as worker:
        idle = await _entry(store, "w1")
        assert set(idle) >= REQUIRED | RECOMMENDED | OURS
        assert (idle["worker_id"], idle["state"], idle["hidden"]) == ("w1", "IDLE", False)
        assert (idle["instance_id"], idle["tags"]) == (worker.instance_id, ["a", "b"])
        assert before <= idle["last_seen_at"] <= time.time()
        run_id = await submitted(store, "slow", tag="a")
        running = asyncio.create_task(worker.run_once(timeout=20.0))
        await until(started.is_set)
        busy = await _entry_when(store, "w1", state="RUNNING")
        assert (busy["current_run_id"], busy["current_run_ids"]) == (run_id, [run_id])
        assert [busy[name] for name in sorted(busy) if name.startswith("last_run_")] == [None] * 4
        assert busy["free_slots"] == busy["slots"] - 1
        go_on.set()
        await running
        done = await _entry_when(store, "w1", state="IDLE")
        assert (done["current_run_id"], done["last_run_id"], done["last_run_status"]) == (
            None,
            run_id,
            "COMPLETED",
        )
        assert before <= done["last_run_started_at"] <= busy["last_seen_at"] <= done["last_run_finished_at"]
    stopped = await _entry(store, "w1")
    assert set(stopped) >= REQUIRED | RECOMMENDED
    assert (stopped["state"], stopped["stop_reason"]) == ("STOPPED_GRACEFUL", "graceful_shutdown")
    assert stopped["stopped_at"] >= done["last_run_finished_at"]
    assert stopped["last_run_id"] == run_id


async def test_last_run_status_is_a_status_of_runs(store: Store) -> None:
    async with working(store.config, worker_id="w1") as worker:
        await submitted(store, "unheard_of")
        await worker.run_once(timeout=20.0)
        assert (await _entry_when(store, "w1", last_run_status="FAILED"))["state"] == "IDLE"


async def test_it_beats_while_it_is_idle(store: Store) -> None:
    async with working(store.config, worker_id="w1"):
        first = await _entry(store, "w1")

        async def has_beaten() -> bool:
            now = await _entry(store, "w1")
            return bool(
                now["last_heartbeat_at"] > first["last_heartbeat_at"]
                and now["last_seen_at"] > first["last_seen_at"]
            )

        await until(has_beaten)


async def test_what_an_operator_hid_stays_hidden(store: Store) -> None:
    async with working(store.config, worker_id="w1"):
        await store.registry.merge("w1", {"hidden": True})
    async with working(store.config, worker_id="w1"):
        again = await _entry(store, "w1")
        assert (again["state"], again["hidden"], again["stopped_at"]) == ("IDLE", True, None)
        assert again["stop_reason"] is None


async def test_its_lease_moves_while_it_lives_and_is_released_at_close(store: Store) -> None:
    async with working(store.config, worker_id="w1", tags=["a"], concurrency=3) as worker:
        lease, revision = await store.leases.read(worker.instance_id)
        assert lease is not None
        assert (lease.holder, lease.worker_id, lease.tags) == (worker.instance_id, "w1", ["a"])
        assert (lease.host, lease.pid, lease.boot_id) == (socket.gethostname(), os.getpid(), boot_id())
        assert lease.free_slots == 3
        await until(lambda: _lease_moved(store, worker, revision))
    assert (await store.leases.read(worker.instance_id))[0] is None


@pytest.mark.parametrize("error", [Unavailable("away"), WrongSequence()], ids=["away", "overtaken"])
async def test_a_renewal_that_fails_is_not_the_last(
    store: Store, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async with working(store.config) as worker:
        leases = worker._store.leases
        renew, failed = leases.renew, asyncio.Event()

        async def fails_once(*arguments: Any, **more: Any) -> int:
            if not failed.is_set():
                failed.set()
                raise error
            return await renew(*arguments, **more)

        monkeypatch.setattr(leases, "renew", fails_once)
        await asyncio.wait_for(failed.wait(), 20.0)
        _, revision = await store.leases.read(worker.instance_id)
        await until(lambda: _lease_moved(store, worker, revision))


async def test_what_could_not_be_said_of_a_run_is_said_later(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working(store.config, worker_id="w1") as worker:
        registry = worker._store.registry
        merge, refused = registry.merge, asyncio.Event()

        async def fails_once(worker_id: str, changes: dict[str, Any]) -> None:
            if "last_run_id" in changes and not refused.is_set():
                refused.set()
                raise Unavailable("away")
            await merge(worker_id, changes)

        monkeypatch.setattr(registry, "merge", fails_once)
        run_id = await submitted(store)
        assert await worker.run_once(timeout=20.0) == run_id
        await asyncio.wait_for(refused.wait(), 20.0)
        assert (await _entry_when(store, "w1", last_run_id=run_id))["last_run_status"] == "COMPLETED"


async def test_it_says_who_and_where_it_is(store: Store) -> None:
    before = time.time()
    async with working(store.config, worker_id="w1", concurrency=3):
        entry = await _entry(store, "w1")
    assert (entry["host"], entry["pid"]) == (socket.gethostname(), os.getpid())
    assert (entry["slots"], entry["free_slots"]) == (3, 3)
    assert before <= entry["started_at"] <= entry["last_seen_at"]
    assert entry["versions"] == {
        "pyoco_server": version("pyoco-server"),
        "pyoco": version("pyoco"),
        "python": platform.python_version(),
    }


async def test_an_entry_that_was_deleted_is_whole_again_at_the_next_beat(store: Store) -> None:
    async with working(store.config, worker_id="w1") as worker:
        await _until_answered(store, worker, 0.0)
        await store.jetstream.publish(f"$KV.{store.config.workers_kv_bucket}.w1", b"")
        await until(lambda: store.registry.get("w1"))
        again = await _entry(store, "w1")
        assert set(again) >= REQUIRED | RECOMMENDED | OURS
        assert again["last_fetch_at"] is not None


async def test_an_idle_worker_says_when_the_queue_last_answered(store: Store) -> None:
    async with working(store.config, worker_id="w1") as worker:
        assert (await _entry(store, "w1"))["last_fetch_at"] is None
        for _ in range(2):
            await _until_answered(store, worker, time.time())


async def test_a_queue_that_is_silent_has_not_answered(own_nats_server: NatsServer) -> None:
    config = config_on(own_nats_server, worker_heartbeat_interval_sec=0.1, broker_timeout_sec=1.0)
    store = await Store.connect(config, name="test")
    async with working(config, worker_id="w1") as worker:
        await _until_answered(store, worker, 0.0)
        answered_at = (await _entry(store, "w1"))["last_fetch_at"]
        await stand_still(own_nats_server)
        assert await worker.run_once(timeout=0.1) is None
        own_nats_server.resume()
        resumed_at = time.time()

        async def has_beaten() -> bool:
            return bool((await _entry(store, "w1"))["last_seen_at"] > resumed_at)

        await until(has_beaten)
        assert (await _entry(store, "w1"))["last_fetch_at"] == answered_at
    await store.close()


async def test_others_add_members_of_their_own_and_replace_none_of_ours(store: Store) -> None:
    said = {"wheel_sync": {"last_result": "idle"}, "state": "NONSENSE"}
    life = Heartbeat(store, Claimant("w1", "w1.a"), ["a"], 2, [], extra=lambda: said)
    await life.start()
    entry = await _entry(store, "w1")
    assert (entry["wheel_sync"], entry["state"]) == ({"last_result": "idle"}, "IDLE")
    said["wheel_sync"] = {"last_result": "ok"}
    life.publish_soon()
    await _entry_when(store, "w1", wheel_sync={"last_result": "ok"})
    await life.stop("because")
    assert (await _entry(store, "w1"))["wheel_sync"] == {"last_result": "ok"}


async def test_the_lease_lists_the_runs_that_the_worker_has_with_their_fences(store: Store) -> None:
    started, go_on = threading.Event(), threading.Event()
    flows = Flows(slow=one_task(waiting(started, go_on)))
    async with working(store.config, flows, worker_id="w1") as worker:
        await until(lambda: _holds(store, worker, {}))
        run_id = await submitted(store, "slow")
        running = asyncio.create_task(worker.run_once(timeout=20.0))
        await until(started.is_set)
        await until(lambda: _holds(store, worker, {run_id: 1}))
        go_on.set()
        await running
        await until(lambda: _holds(store, worker, {}))


async def test_the_lease_is_renewed_after_an_unexpected_error(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working(store.config, worker_id="w1") as worker:
        renew, errors = store.leases.__class__.renew, [AssertionError("a defect")] * 3

        async def fail_at_first(*args: Any, **kwargs: Any) -> int:
            if errors:
                raise errors.pop()
            return await renew(*args, **kwargs)

        monkeypatch.setattr(store.leases.__class__, "renew", fail_at_first)
        await until(lambda: not errors)
        revision = (await store.leases.read(worker.instance_id))[1]

        async def moves() -> bool:
            return (await store.leases.read(worker.instance_id))[1] > revision

        await until(moves)


async def _holds(store: Store, worker: PyocoNatsWorker, runs: dict[str, int]) -> bool:
    lease, _ = await store.leases.read(worker.instance_id)
    return lease is not None and lease.holds == runs


async def test_closing_twice_is_as_good_as_once(store: Store) -> None:
    async with working(store.config, worker_id="w1") as worker:
        await worker.close("because")
    assert (await _entry(store, "w1"))["stop_reason"] == "because"


async def _entry(store: Store, worker_id: str) -> dict[str, Any]:
    entry = await store.registry.get(worker_id)
    assert entry is not None
    return entry


async def _entry_when(store: Store, worker_id: str, **members: Any) -> dict[str, Any]:
    async def matching() -> dict[str, Any] | None:
        entry = await _entry(store, worker_id)
        return entry if entry | members == entry else None

    found = await until(matching)
    assert isinstance(found, dict)
    return found


async def _until_answered(store: Store, worker: PyocoNatsWorker, since: float) -> None:
    """Asks until the queue has answered: on a busy machine its word may come later than one asking waits."""

    puller = worker._puller
    assert puller is not None

    async def has_answered() -> bool:
        assert await worker.run_once(timeout=0.1) is None
        return puller.answered_at is not None and puller.answered_at >= since

    await until(has_answered)
    await until(lambda: _fetched_since(store, since))


async def _fetched_since(store: Store, at: float) -> bool:
    fetched_at = (await _entry(store, "w1"))["last_fetch_at"]
    return fetched_at is not None and fetched_at >= at


async def _lease_moved(store: Store, worker: PyocoNatsWorker, revision: int) -> bool:
    return (await store.leases.read(worker.instance_id))[1] > revision
