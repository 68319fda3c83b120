"""No room at the broker: new work is refused, repeated answers, cancels and erasing are not."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from pyoco_server.housekeeping.due_schedules import DueSchedules
from pyoco_server.jetstream.errors import NoStorage
from pyoco_server.operations.fleet.storage import StorageWatch
from pyoco_server.operations.idempotency.key_scope import IdempotencyKey
from pyoco_server.operations.idempotency.keyed_request import RecordedAnswer, Reservation
from pyoco_server.operations.runs.cancel import cancel_run
from pyoco_server.operations.runs.erase import erase_run
from pyoco_server.operations.runs.submit import Submission, submit
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.logs.writer import LogLine
from pyoco_server.store.storage_reserve import NoRoom
from pyoco_server.store.store import Store
from pyoco_server.worker.recording.run_log import RunLog
from tests.conftest import until
from tests.operations.idempotency.keyed import once

KEY = IdempotencyKey(tenant="acme", principal="ci", method="POST", path="/runs", key="order-4711")
LIMIT_BYTES = 400_000


@pytest.fixture
async def other_store(store: Store) -> AsyncIterator[Store]:
    opened = await Store.connect(store.config, name="other")
    yield opened
    await opened.close()


async def keyed_submit(store: Store) -> str:
    async def do(reservation: Reservation) -> RecordedAnswer:
        wanted = Submission(flow_name="noop", run_id=reservation.resource_id)
        stored = await submit(store, wanted, commit_id=reservation.command_id)
        return RecordedAnswer(status=200, body=stored.run.run_id.encode(), headers={}, event_ids=[])

    return (await once(store, KEY, b'{"flow_name":"noop"}', do, needs_room=True)).body.decode()


async def limit_events(store: Store, max_bytes: int) -> None:
    name = store.config.events_stream
    info = await store.jetstream.api(f"STREAM.INFO.{name}")
    limits = {"max_bytes": max_bytes, "discard": "new"}
    await store.jetstream.api(f"STREAM.UPDATE.{name}", info["config"] | limits)


async def test_without_room_new_work_is_refused_before_anything_is_written(store: Store) -> None:
    store.room.report(is_low=True)
    with pytest.raises(NoRoom):
        await submit(store, Submission(flow_name="noop"))
    with pytest.raises(NoRoom):
        await keyed_submit(store)
    assert [run_id async for run_id in store.runs.ids()] == []
    assert (await store.ledger.get(KEY.address)).record is None
    store.room.report(is_low=False)
    await submit(store, Submission(flow_name="noop"))


async def test_without_room_a_repetition_is_answered_and_runs_are_cancelled_and_erased(store: Store) -> None:
    run_id = await keyed_submit(store)
    store.room.report(is_low=True)
    assert await keyed_submit(store) == run_id
    await cancel_run(store, run_id)
    await erase_run(store, run_id, by=None, tenant_id=None)
    assert await store.runs.load(run_id, at_leader=True) is None


async def test_without_room_schedules_begin_nothing(store: Store, read_model: ReadModel) -> None:
    store.room.report(is_low=True)
    assert await DueSchedules(store, read_model).look() == 0


async def test_others_hear_of_it_and_lines_are_left_out_meanwhile(store: Store, other_store: Store) -> None:
    store.room.report(is_low=True)
    await until(lambda: other_store.room.is_low)
    run_log = RunLog(other_store, "run", 1)
    run_log.add(LogLine(1.0, "stdout", "too much"))
    store.room.report(is_low=False)
    await until(lambda: not other_store.room.is_low)
    run_log.add(LogLine(1.0, "stdout", "kept"))
    await run_log.close()
    first, second = await store.logs.entries("run")
    assert (first.message, second.message) == (
        "1 lines are left out here: the broker is running out of storage",
        "kept",
    )


async def test_a_stream_that_is_limited_keeps_a_reserve(store: Store) -> None:
    watch = StorageWatch(store, None)
    await limit_events(store, LIMIT_BYTES)
    await watch.start()
    assert watch.why_not() is None
    run_id = (
        await submit(store, Submission(flow_name="noop", params={"x": os.urandom(80_000).hex()}))
    ).run.run_id
    await submit(store, Submission(flow_name="noop", params={"x": os.urandom(80_000).hex()}))
    await watch.stop()

    watch = StorageWatch(store, None)
    await watch.start()
    assert "has 0 MiB left" in str(watch.why_not())
    with pytest.raises(NoRoom):
        await submit(store, Submission(flow_name="noop"))
    await cancel_run(store, run_id)
    await erase_run(store, run_id, by=None, tenant_id=None)
    await watch.stop()

    watch = StorageWatch(store, None)
    await watch.start()
    assert watch.why_not() is None
    await submit(store, Submission(flow_name="noop"))
    await watch.stop()


async def test_a_write_that_is_refused_for_lack_of_storage_counts_for_a_moment(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await limit_events(store, 100_000)
    subject = f"{store.config.events_subject_prefix}.large"
    with pytest.raises(NoStorage):
        await store.jetstream.publish(subject, os.urandom(150_000))
    with pytest.raises(NoRoom):
        await submit(store, Submission(flow_name="noop"))
    monkeypatch.setattr("pyoco_server.store.storage_reserve.REFUSED_FOR_SEC", 0.0)
    await submit(store, Submission(flow_name="noop"))
