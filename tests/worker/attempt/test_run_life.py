"""A run as it is seen while it is executed and afterwards: appendix F, heartbeats, in_progress."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from typing import Any

import msgspec
import pytest

from pyoco_server import clock
from pyoco_server.config import NatsBackendConfig
from pyoco_server.lifecycle.retry import results
from pyoco_server.lifecycle.snapshot import RunSnapshot, run_of
from pyoco_server.store.queue.job_puller import Delivery
from pyoco_server.store.runs.stored_run import StoredRun
from pyoco_server.store.store import Store
from pyoco_server.worker.attempt.monitor import AttemptMonitor
from pyoco_server.worker.recording.batcher import CommitBatcher
from pyoco_server.worker.recording.recorder import Recorder
from tests.conftest import NatsServer, until
from tests.engine.building import await_signal, flow_of, make_task
from tests.worker.stage import (
    Flows,
    chain,
    config_on,
    count_of,
    ended_as,
    lawful,
    one_task,
    queue_drained,
    status_of,
    submitted,
    waiting,
    working,
)

REQUIRED = {"run_id", "flow_name", "status", "params", "tasks", "heartbeat_at", "updated_at"}
RECOMMENDED = {
    "tag", "tags", "worker_id", "task_records", "task_records_truncated", "start_time", "end_time",
    "error", "cancel_requested_at", "cancel_requested_by",
}  # fmt: skip
PYOCO_RECORD = {
    "state", "started_at", "ended_at", "duration_ms", "error", "traceback", "inputs", "output", "artifacts",
}  # fmt: skip


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    """Beats fast, and would be delivered again soon."""
    return config_on(
        nats_server,
        run_heartbeat_interval_sec=0.05,
        consumer_ack_wait_sec=2.0,
        ack_progress_interval_sec=0.5,
    )


def double(number: int) -> int:
    return 2 * number


def describe(t1: int) -> str:
    return f"it is {t1}"


async def test_the_stored_snapshot_has_the_members_of_appendix_f(store: Store) -> None:
    flows = Flows(steps=chain(double, describe))
    before = time.time()
    async with working(store.config, flows, worker_id="w1") as worker:
        run_id = await submitted(store, "steps", params={"number": 21}, tags=["a", "b"])
        await worker.run_once(timeout=20.0)
    await ended_as(store, run_id, "COMPLETED")
    stored = await _raw_snapshot(store, run_id)
    assert set(stored) >= REQUIRED | RECOMMENDED
    assert (stored["run_id"], stored["flow_name"], stored["params"]) == (run_id, "steps", {"number": 21})
    assert (stored["tag"], stored["tags"], stored["worker_id"]) == ("default", ["a", "b"], "w1")
    assert stored["tasks"] == {"t1": "SUCCEEDED", "t2": "SUCCEEDED"}
    assert (stored["error"], stored["cancel_requested_at"], stored["task_records_truncated"]) == (
        None,
        None,
        False,
    )
    times = [before, stored["start_time"], stored["end_time"], stored["updated_at"], time.time()]
    assert times == sorted(times)
    assert stored["heartbeat_at"] >= stored["updated_at"]


async def test_task_records_are_as_pyoco_writes_them(store: Store) -> None:
    async with working(store.config, Flows(steps=chain(double, describe))) as worker:
        run_id = await submitted(store, "steps", params={"number": 21})
        await worker.run_once(timeout=20.0)
    records = (await _raw_snapshot(store, run_id))["task_records"]
    assert list(records) == ["t1", "t2"]
    for record in records.values():
        assert set(record) >= PYOCO_RECORD
        assert (record["state"], record["error"], record["traceback"]) == ("SUCCEEDED", None, None)
        assert record["started_at"] <= record["ended_at"]
        assert record["duration_ms"] == pytest.approx((record["ended_at"] - record["started_at"]) * 1000)
        assert record["artifacts"] == {}
    assert (records["t1"]["inputs"], records["t1"]["output"]) == ({"number": 21}, 42)
    assert (records["t2"]["inputs"], records["t2"]["output"]) == ({"t1": 42}, "it is 42")


async def test_an_attempt_leaves_nothing_to_the_garbage_collector(store: Store) -> None:
    async with working(store.config, Flows(steps=chain(double, describe))) as worker:
        run_id = await submitted(store, "steps", params={"number": 21})
        gc.collect()
        gc.disable()
        try:
            before = _living()  # of other tests
            assert await worker.run_once(timeout=20.0) == run_id
            assert _living().keys() - before.keys() == set()
        finally:
            gc.enable()


async def test_the_submitted_flow_name_is_kept_where_the_flow_has_another(store: Store) -> None:
    async with working(store.config, Flows(nightly=one_task(lambda: 1))) as worker:
        run_id = await submitted(store, "nightly")
        await worker.run_once(timeout=20.0)
        assert (await ended_as(store, run_id, "COMPLETED")).flow_name == "nightly"


async def test_a_running_run_reads_running_and_beats_without_being_updated(store: Store) -> None:
    started, go_on = threading.Event(), threading.Event()

    def slow() -> str:
        started.set()
        await_signal(go_on)
        return "done"

    async with working(store.config, Flows(slow=chain(lambda: 1, slow)), worker_id="w1") as worker:
        run_id = await submitted(store, "slow")
        running = asyncio.create_task(worker.run_once(timeout=20.0))
        await until(started.is_set)
        await until(lambda: _shows_second_task(store, run_id))
        first = await lawful(store, run_id)
        assert (first.status, first.worker_id) == ("RUNNING", "w1")
        await until(lambda: _has_beaten(store, run_id, first.heartbeat_at))
        second = await lawful(store, run_id)
        await until(lambda: _has_beaten(store, run_id, second.heartbeat_at))
        third = await lawful(store, run_id)
        assert {one.status for one in (first, second, third)} == {"RUNNING"}
        assert first.updated_at == second.updated_at == third.updated_at
        go_on.set()
        assert await running == run_id
        await ended_as(store, run_id, "COMPLETED")


async def test_a_run_longer_than_the_ack_wait_is_not_delivered_again(store: Store) -> None:
    started, go_on = threading.Event(), threading.Event()
    flows = Flows(slow=one_task(waiting(started, go_on)))
    async with working(store.config, flows) as worker, working(store.config, flows) as other:
        run_id = await submitted(store, "slow")
        running = asyncio.create_task(worker.run_once(timeout=20.0))
        await until(started.is_set)
        # Longer than the ack wait: another worker asks for jobs all the time, and gets none.
        assert await other.run_once(timeout=2.75) is None
        go_on.set()
        assert await running == run_id
        await queue_drained(store)
        await ended_as(store, run_id, "COMPLETED")
        assert (flows.asked, await count_of(store, run_id, "RunClaimed")) == (["slow"], 1)


async def test_a_delivery_is_kept_also_after_a_defect_while_that_was_said(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, go_on = threading.Event(), threading.Event()
    in_progress, said = Delivery.in_progress, 0

    def fail_once(delivery: Delivery) -> bool:
        nonlocal said
        said += 1
        if said == 1:
            raise RuntimeError("a defect")
        return in_progress(delivery)

    monkeypatch.setattr(Delivery, "in_progress", fail_once)
    async with working(store.config, Flows(slow=one_task(waiting(started, go_on)))) as worker:
        run_id = await submitted(store, "slow")
        running = asyncio.create_task(worker.run_once(timeout=20.0))
        await until(lambda: said >= 3)
        go_on.set()
        assert await running == run_id


async def test_async_tasks_are_awaited(store: Store) -> None:
    async def later(number: int) -> int:
        await asyncio.sleep(0.01)
        return number + 1

    async with working(store.config, Flows(later=one_task(later))) as worker:
        run_id = await submitted(store, "later", params={"number": 1})
        await worker.run_once(timeout=20.0)
        assert (await ended_as(store, run_id, "COMPLETED")).task_records["only"].output == 2


async def test_a_task_finds_fence_and_run_in_its_context(store: Store) -> None:
    seen: dict[str, Any] = {}

    def look(ctx: Any) -> None:
        seen.update(ctx.run_context.metadata, run_id=ctx.run_context.run_id)

    async with working(store.config, Flows(look=one_task(look))) as worker:
        run_id = await submitted(store, "look", tags=["x"], correlation_id="c-1")
        await worker.run_once(timeout=20.0)
        await ended_as(store, run_id, "COMPLETED")
    assert (seen["run_id"], seen["fence"], seen["tag"], seen["tags"]) == (run_id, 1, "default", ["x"])
    assert seen["correlation_id"] == "c-1"


async def test_a_flow_that_stops_itself_does_not_stay_running(store: Store) -> None:
    def stop(ctx: Any) -> None:
        ctx.run_context.status = type(ctx.run_context.status).CANCELLED

    flow = lambda: flow_of(first := make_task("first", stop), make_task("second", double, [first]))  # noqa: E731
    async with working(store.config, Flows(stops=flow)) as worker:
        run_id = await submitted(store, "stops", params={"number": 1})
        assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
        assert "stopped from inside" in ((await ended_as(store, run_id, "FAILED")).error or "")


def _living() -> dict[int, object]:
    kinds = AttemptMonitor, Recorder, CommitBatcher, StoredRun
    return {id(one): one for one in gc.get_objects() if type(one) in kinds}


async def _raw_snapshot(store: Store, run_id: str) -> dict[str, Any]:
    bucket = store.config.runs_kv_bucket
    message = await store.jetstream.last(f"KV_{bucket}", f"$KV.{bucket}.{run_id}")
    assert message is not None
    snapshot: dict[str, Any] = msgspec.json.decode(message.data)
    return snapshot


async def _shows_second_task(store: Store, run_id: str) -> bool:
    snapshot = await store.runs.snapshots.get(run_id)
    return snapshot is not None and snapshot.tasks.get("t2") == "RUNNING"


async def _has_beaten(store: Store, run_id: str, since: float) -> bool:
    snapshot: RunSnapshot | None = await store.runs.snapshots.get(run_id)
    return snapshot is not None and snapshot.heartbeat_at > since


async def test_a_run_reads_pending_until_it_is_claimed(store: Store) -> None:
    run_id = await submitted(store)
    assert await status_of(store, run_id) == "PENDING"
    assert (await lawful(store, run_id)).worker_id is None


async def test_a_clock_that_is_set_back_between_two_tasks_does_not_change_the_result(
    config: NatsBackendConfig, store: Store
) -> None:
    def set_back() -> str:
        clock.adopt((clock.offset() or 0.0) - 3600)
        return "last"

    known = clock.offset()
    try:
        async with working(config, Flows(both=chain(lambda: "first", set_back))) as worker:
            run_id = await submitted(store, "both")
            assert await worker.run_once()
            run = run_of(await ended_as(store, run_id, "COMPLETED"))
    finally:
        clock.adopt(known)
    ended = [run.tasks[name].ended_at or 0.0 for name in ("t1", "t2")]
    assert ended[1] < ended[0]
    assert {name: record.output for name, record in results(run).items()} == {"t2": "last"}
