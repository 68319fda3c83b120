"""A worker that drains takes no new runs, finishes those it has, says so, and works again when told to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.operations.fleet import workers
from pyoco_server.operations.runs.cancel import cancel_run
from pyoco_server.operations.runs.submit import Submission, submit
from pyoco_server.store.store import Store
from pyoco_server.supervision import failures_by_loop
from pyoco_server.worker import PyocoNatsWorker
from pyoco_server.worker.attempt import attempt
from pyoco_server.worker.attempt.claim import claim
from tests.conftest import NatsServer, until
from tests.store.fleet.wheel_making import file_name, made
from tests.worker.slots import slot_stage
from tests.worker.stage import (
    Flows,
    config_on,
    ended_as,
    lawful,
    one_task,
    status_of,
    submitted,
    waiting,
    working,
)

Serving = Callable[[NatsBackendConfig], AbstractAsyncContextManager[PyocoNatsWorker]]


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server, worker_heartbeat_interval_sec=0.2, cancel_grace_period_sec=0.5)


@asynccontextmanager
async def in_threads(config: NatsBackendConfig, flows: Flows | None = None) -> AsyncIterator[PyocoNatsWorker]:
    async with working(config, flows, worker_id="w", concurrency=2) as worker:
        served = asyncio.ensure_future(worker.serve())
        yield worker
        worker.stop()
        await asyncio.wait_for(served, 20)


@asynccontextmanager
async def by_hand(config: NatsBackendConfig) -> AsyncIterator[PyocoNatsWorker]:
    """As a program does that has a worker inside it."""
    async with working(config, worker_id="w") as worker:
        is_over = False

        async def work() -> None:
            while not is_over:
                await worker.run_once(timeout=0.2)

        working_on = asyncio.ensure_future(work())
        yield worker
        is_over = True
        await working_on


def in_slots(config: NatsBackendConfig) -> AbstractAsyncContextManager[PyocoNatsWorker]:
    return slot_stage.serving(config, slots=2)


@pytest.mark.parametrize(
    ("serving", "flow"),
    [(in_threads, "noop"), (by_hand, "noop"), (in_slots, "pid")],
    ids=["threads", "run_once", "slots"],
)
async def test_no_run_begins_after_it_said_that_it_drains_and_all_do_when_it_says_otherwise(
    store: Store, tmp_path: Path, serving: Serving, flow: str
) -> None:
    async with serving(store.config) as worker:
        await until(lambda: _pulls_at_broker(store))
        await workers.patch(store, "w", draining=True)
        entry = await _entry_when(store, draining=True)
        assert (entry["state"], entry["instance_id"]) == ("IDLE", worker.instance_id)
        # No pull stands at the broker: whatever is submitted from now on, nobody is given it.
        assert not await _pulls_at_broker(store)
        params: dict[str, object] = {"marks": str(tmp_path / "marks")}
        run_ids = [
            (await submit(store, Submission(flow_name=flow, params=params))).run.run_id for _ in range(3)
        ]
        await _beaten(store)
        assert [await status_of(store, run_id) for run_id in run_ids] == ["PENDING"] * 3
        line = await store.queue.state("default")
        assert line is not None
        assert line.waiting == 3
        await workers.patch(store, "w", draining=False)
        assert (await _entry_when(store, draining=False))["drain_requested"] is False
        for run_id in run_ids:
            assert (await slot_stage.ended(store, run_id)).status == "COMPLETED"


async def test_what_it_has_goes_on_and_what_comes_waits(store: Store) -> None:
    started, go_on = threading.Event(), threading.Event()
    async with in_threads(store.config, Flows(slow=one_task(waiting(started, go_on)))):
        run_id = await submitted(store, "slow")
        await until(started.is_set)
        await workers.patch(store, "w", draining=True)
        entry = await _entry_when(store, draining=True)
        assert (entry["state"], entry["current_run_ids"]) == ("RUNNING", [run_id])
        later = await submitted(store)
        go_on.set()
        assert (await _entry_when(store, state="IDLE", last_run_id=run_id))["draining"] is True
        await ended_as(store, run_id, "COMPLETED")
        assert await status_of(store, later) == "PENDING"
        await workers.patch(store, "w", draining=False)
        await slot_stage.ended(store, later)


async def test_it_says_so_only_when_what_has_reached_it_is_told_as_running(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would look drained, and begin a run a moment later."""
    started, go_on = threading.Event(), threading.Event()
    arrived, may_claim = asyncio.Event(), asyncio.Event()

    async def slow_claim(*arguments: Any, **more: Any) -> Any:
        arrived.set()
        await may_claim.wait()
        return await claim(*arguments, **more)

    monkeypatch.setattr(attempt, "claim", slow_claim)
    async with in_threads(store.config, Flows(slow=one_task(waiting(started, go_on)))) as worker:
        run_id = await submitted(store, "slow")
        await arrived.wait()
        await workers.patch(store, "w", draining=True)
        assert worker._puller is not None
        puller = worker._puller
        await until(lambda: puller.is_paused and puller._sid is None)
        await _beaten(store)
        assert (await _entry(store))["draining"] is False
        may_claim.set()
        assert (await _entry_when(store, draining=True))["current_run_ids"] == [run_id]
        go_on.set()
        await _entry_when(store, state="IDLE", draining=True)


async def test_a_cancel_wins_on_a_worker_that_drains(store: Store) -> None:
    started, go_on = threading.Event(), threading.Event()
    async with in_threads(store.config, Flows(slow=one_task(waiting(started, go_on)))):
        run_id = await submitted(store, "slow")
        await until(started.is_set)
        await workers.patch(store, "w", draining=True)
        await _entry_when(store, draining=True)
        await cancel_run(store, run_id)
        assert (await slot_stage.ended(store, run_id)).status == "CANCELLED"
        await _entry_when(store, state="IDLE", draining=True)
        go_on.set()
    assert (await lawful(store, run_id)).status == "CANCELLED"


async def test_a_worker_that_is_started_anew_does_not_drain(store: Store) -> None:
    async with in_threads(store.config):
        await workers.patch(store, "w", draining=True)
        await _entry_when(store, draining=True)
    stopped = await _entry(store)
    assert (stopped["state"], stopped["draining"]) == ("STOPPED_GRACEFUL", False)
    async with in_threads(store.config):
        run_id = await submitted(store)
        await slot_stage.ended(store, run_id)
        entry = await _entry(store)
        assert (entry["draining"], entry["drain_requested"]) == (False, False)


async def test_request_body_twice_and_taken_back_at_once_it_does_what_was_asked_last(store: Store) -> None:
    async with in_threads(store.config):
        for draining in (True, True, False, True, False, False):
            await workers.patch(store, "w", draining=draining)
        await slot_stage.ended(store, await submitted(store))
        for draining in (False, True, False, True):
            await workers.patch(store, "w", draining=draining)
        await _entry_when(store, draining=True)
        assert not await _pulls_at_broker(store)


async def test_while_its_entry_says_that_it_drains_nothing_can_be_given_to_it(store: Store) -> None:
    """Also while it is asked this and that: who reads `draining` need not know since when it is true."""
    async with in_threads(store.config) as worker:
        puller = worker._puller
        assert puller is not None
        resume, said = puller.resume, []

        async def looked_at() -> None:
            said.append((await _entry(store))["draining"])
            await resume()

        puller.resume = looked_at  # type: ignore[method-assign]
        for _ in range(3):
            await workers.patch(store, "w", draining=True)
            await _entry_when(store, draining=True)
            await workers.patch(store, "w", draining=False)
            await until(lambda: not puller.is_paused)
        assert said == [False] * 3


async def test_a_resume_that_cannot_be_said_is_put_off(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async with in_threads(store.config) as worker:
        await workers.patch(store, "w", draining=True)
        await _entry_when(store, draining=True)
        registry = worker._store.registry
        merge, failed = registry.merge, asyncio.Event()

        async def fails_once(worker_id: str, changes: dict[str, Any]) -> None:
            if changes.get("draining") is False and not failed.is_set():
                failed.set()
                raise Unavailable("away")
            await merge(worker_id, changes)

        monkeypatch.setattr(registry, "merge", fails_once)
        run_id = await submitted(store)
        await workers.patch(store, "w", draining=False)
        await asyncio.wait_for(failed.wait(), 10)
        await slot_stage.ended(store, run_id)


async def test_a_wish_that_could_not_be_read_is_heard_at_the_next_beat(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with in_threads(store.config) as worker:
        registry = worker._store.registry
        get, failed = registry.get, asyncio.Event()

        async def fails_once(*arguments: Any, **more: Any) -> Any:
            if not failed.is_set():
                failed.set()
                raise Unavailable("away")
            return await get(*arguments, **more)

        monkeypatch.setattr(registry, "get", fails_once)
        await workers.patch(store, "w", draining=True)
        await asyncio.wait_for(failed.wait(), 10)
        await _entry_when(store, draining=True)


async def test_a_resume_that_fails_in_an_unexpected_way_is_tried_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it fails: when the entry is to say so, or when jobs are to be pulled again."""
    async with in_threads(store.config) as worker:
        assert worker._puller is not None
        for owner, name in ((worker._draining, "_publish"), (worker._puller, "resume")):
            await workers.patch(store, "w", draining=True)
            await _entry_when(store, draining=True)
            run_id = await submitted(store)
            failed = _fail_once(monkeypatch, owner, name)
            await workers.patch(store, "w", draining=False)
            await asyncio.wait_for(failed.wait(), 10)
            await slot_stage.ended(store, run_id)
    assert failures_by_loop()["draining"] >= 2


async def test_a_wish_that_is_pushed_before_it_is_stored_is_looked_for_again(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a beat that would bring it by once more."""
    config = config_on(nats_server, worker_heartbeat_interval_sec=3600.0)
    store = await Store.connect(config, name="test")
    async with in_threads(config) as worker:
        registry = worker._store.registry
        get, before = registry.get, await store.registry.get("w")
        stale = 3

        async def lags(*arguments: Any, **more: Any) -> Any:
            nonlocal stale
            stale -= 1
            return before if stale >= 0 else await get(*arguments, **more)

        monkeypatch.setattr(registry, "get", lags)
        await workers.patch(store, "w", draining=True)
        await _entry_when(store, draining=True)
    await store.close()


def _fail_once(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> asyncio.Event:
    act, failed = getattr(owner, name), asyncio.Event()

    async def fails_once() -> None:
        if not failed.is_set():
            failed.set()
            raise RuntimeError("a defect")
        await act()

    monkeypatch.setattr(owner, name, fails_once)
    return failed


async def test_a_write_that_was_refused_is_no_wish(store: Store) -> None:
    """It is pushed like any other: the broker passes on before it decides."""
    async with in_threads(store.config) as worker:
        entry = await store.registry.get("w")
        assert entry is not None
        wrong = entry | {"drain_instance_id": worker.instance_id}
        heard = asyncio.Event()
        await store.registry.follow_one("w", lambda record: heard.set() if record == wrong else None)
        with pytest.raises(WrongSequence):
            await store.registry._bucket.put("w", msgspec.json.encode(wrong), revision=999_999)
        await asyncio.wait_for(heard.wait(), 10)
        await _beaten(store)
        assert (await _entry(store))["draining"] is False
        await slot_stage.ended(store, await submitted(store))


async def test_it_drains_on_when_its_entry_is_lost(store: Store) -> None:
    async with in_threads(store.config):
        await workers.patch(store, "w", draining=True)
        await _entry_when(store, draining=True)
        await store.jetstream.publish(f"$KV.{store.config.workers_kv_bucket}.w", b"")
        await until(store.registry.list)
        await _entry_when(store, draining=True, drain_requested=True)
        await workers.patch(store, "w", draining=False)
        await slot_stage.ended(store, await submitted(store))


async def test_it_drains_on_when_the_broker_comes_back(own_nats_server: NatsServer) -> None:
    config = config_on(own_nats_server, worker_heartbeat_interval_sec=0.2)
    store = await Store.connect(config, name="test")
    async with in_threads(config) as worker:
        await workers.patch(store, "w", draining=True)
        await _entry_when(store, draining=True)
        own_nats_server.kill()
        await until(lambda: not worker._store.is_connected and not store.is_connected)
        own_nats_server.start()
        await until(lambda: worker._store.reconnects == 1 and store.reconnects == 1)
        await until(lambda: store.why_not_ready is None)
        await _beaten(store)
        run_id = await submitted(store)
        assert not await _pulls_at_broker(store)
        assert (await _entry(store))["draining"] is True
        await workers.patch(store, "w", draining=False)
        await slot_stage.ended(store, run_id)
    await store.close()


async def test_wheels_reach_a_worker_that_drains(nats_server: NatsServer, tmp_path: Path) -> None:
    config = config_on(
        nats_server,
        worker_heartbeat_interval_sec=0.2,
        wheel_sync_enabled=True,
        wheel_sync_dir=str(tmp_path / "sync"),
        wheel_sync_interval_sec=0.05,
    )
    store = await Store.connect(config, name="test")
    async with in_threads(config):
        await workers.patch(store, "w", draining=True)
        await _entry_when(store, draining=True)
        name = file_name("drained", "1.0")
        await store.wheels.put(name, made(tmp_path, "drained", "1.0"))

        async def has_it() -> bool:
            sync = (await _entry(store))["wheel_sync"]
            return [one["wheel_name"] for one in sync["installed_wheels"]] == [name]

        await until(has_it)
        assert (await _entry(store))["draining"] is True
    await store.close()


async def _entry(store: Store) -> dict[str, Any]:
    """As whoever asks is shown it."""
    [entry] = workers._as_read(store, await store.registry.list())
    return entry


async def _entry_when(store: Store, **members: Any) -> dict[str, Any]:
    async def matching() -> dict[str, Any] | None:
        entry = await _entry(store)
        return entry if entry | members == entry else None

    found = await until(matching)
    assert isinstance(found, dict)
    return found


async def _beaten(store: Store) -> None:
    """The worker has written its entry once more, begun after this."""
    for _ in range(2):
        before = (await _entry(store))["last_seen_at"]

        async def again(since: float = before) -> bool:
            return bool((await _entry(store))["last_seen_at"] > since)

        await until(again)


async def _pulls_at_broker(store: Store, tag: str = "default") -> int:
    name = f"{store.config.consumer_prefix}_{tag}"
    info = await store.jetstream.api(f"CONSUMER.INFO.{store.config.work_stream}.{name}")
    return int(info["num_waiting"])
