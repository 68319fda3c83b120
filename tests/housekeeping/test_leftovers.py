"""Erased runs leave nothing in any stream or bucket, whatever happened in between."""

from __future__ import annotations

import time
from typing import Any

import pytest
from msgspec.structs import replace

from pyoco_server.config import NatsBackendConfig
from pyoco_server.housekeeping.leftovers import LeftOvers
from pyoco_server.jetstream.errors import BrokerAway
from pyoco_server.lifecycle.commands import ClaimRun, CompleteRun, DiscardRun, ReportLoss
from pyoco_server.lifecycle.status import LossCause
from pyoco_server.operations import schedules
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.runs import erase as erase_module
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.erase import erase_run
from pyoco_server.operations.runs.retry import RetryRequest, retry
from pyoco_server.operations.runs.submit import Submission
from pyoco_server.schedules.timing import ScheduleKind, Timing
from pyoco_server.store.runs.codec import ERASED_MARK_TTL
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.runs.refusals import Refusal
from pyoco_server.store.runs.results import Recorded
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.log_writing import Writer
from tests.worker.stage import (
    Flows,
    a_submission,
    config_on,
    one_task,
    submitted,
    the_run,
    until_handled,
    working,
)

RUNS = 8
LARGE = "x" * 300_000
CALLER = Caller()


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server)


@pytest.fixture
def keeper(store: Store) -> LeftOvers:
    return LeftOvers(store, settled_sec=0.0, half_made_sec=0.0, not_begun_sec=0.0)


async def contents(store: Store) -> dict[str, set[str]]:
    """Every subject that has a message, in every stream and bucket, but for the signs of life of workers."""
    of_workers = (f"$KV.{store.config.workers_kv_bucket}.", f"$KV.{store.config.leases_kv_bucket}.worker")
    found = {}
    for stream in await store.streams():
        info = await store.jetstream.api(f"STREAM.INFO.{stream}", {"subjects_filter": ">"})
        subjects = info["state"].get("subjects") or {}
        found[stream] = {name for name in subjects if not name.startswith(of_workers)}
    return {stream: subjects for stream, subjects in found.items() if subjects}


async def completed(store: Store, config: NatsBackendConfig, count: int) -> list[str]:
    """Runs with a large result, with lines in their logs, and with a refusal."""
    run_ids = [await submitted(store, "large") for _ in range(count)]
    async with working(config, Flows(large=one_task(lambda: LARGE))) as worker:
        for run_id in run_ids:
            await until_handled(worker, run_id)
    for run_id in run_ids:
        await store.refusals.note(run_id, Refusal(at=time.time(), command="x", reason="y"))
    return run_ids


async def test_of_erased_runs_nothing_is_left_but_marks_that_vanish(
    store: Store, config: NatsBackendConfig, keeper: LeftOvers
) -> None:
    before = await contents(store)
    run_ids = await completed(store, config, RUNS)
    filled = await contents(store)
    assert len(filled[f"OBJ_{config.results_object_bucket}"]) == 2 * RUNS
    for run_id in run_ids:
        await erase_run(store, run_id, by=None, tenant_id=None)
    assert await keeper.look() == RUNS
    left = await contents(store)
    marks = left.pop(config.events_stream)
    assert marks == {f"{config.events_subject_prefix}.{run_id}" for run_id in run_ids}
    for subject in marks:
        [mark] = await store.jetstream.after(config.events_stream, subject, 0)
        assert mark.header(b"Nats-TTL") == ERASED_MARK_TTL
    assert left == before


async def test_what_an_erasing_that_was_interrupted_has_left_is_removed_later(
    store: Store, config: NatsBackendConfig, keeper: LeftOvers, monkeypatch: pytest.MonkeyPatch
) -> None:
    [run_id] = await completed(store, config, 1)

    async def broken(*_: object) -> None:
        raise BrokerAway

    with monkeypatch.context() as patch:
        patch.setattr(erase_module, "clear", broken)
        await erase_run(store, run_id, by=None, tenant_id=None)
    assert any(run_id in name for names in (await contents(store)).values() for name in names)
    assert await keeper.look() == 1
    left = await contents(store)
    assert {stream for stream, names in left.items() if any(run_id in name for name in names)} == {
        config.events_stream
    }


async def test_an_erasing_that_did_not_come_to_its_commit_leaves_the_run_as_it_was(
    store: Store, config: NatsBackendConfig, keeper: LeftOvers
) -> None:
    [run_id] = await completed(store, config, 1)
    before = await contents(store)
    await store.leftovers.note(run_id)
    assert await keeper.look() == 1
    assert await contents(store) == before


async def test_what_is_written_after_a_run_was_erased_is_removed_too(
    store: Store, config: NatsBackendConfig, keeper: LeftOvers
) -> None:
    """By a worker that was cut off, or a reader who heals a snapshot that it has found missing."""
    [run_id] = await completed(store, config, 1)
    stored = await store.runs.load(run_id)
    assert stored is not None
    await erase_run(store, run_id, by=None, tenant_id=None)
    await Writer(store, run_id).write("late")
    await store.results.put(run_id, 7, "late", 1, LARGE.encode())
    await store.runs.snapshots.overwrite(replace(stored, revision=0))
    assert await keeper.look() == 1
    left = await contents(store)
    assert {stream for stream, names in left.items() if any(run_id in name for name in names)} == {
        config.events_stream
    }


async def test_of_discarded_runs_nothing_is_left_but_marks(store: Store, keeper: LeftOvers) -> None:
    before = await contents(store)
    submissions = [a_submission() for _ in range(RUNS)]
    for begun in submissions:
        await store.runs.create(begun, f"c{begun.run_id}")
        await apply(store, begun.run_id, DiscardRun(reason="no job"))
    left = await contents(store)
    assert left.pop(store.config.events_stream) == {
        f"{store.config.events_subject_prefix}.{begun.run_id}" for begun in submissions
    }
    assert left == before
    [mark] = await store.jetstream.after(
        store.config.events_stream, f"{store.config.events_subject_prefix}.{submissions[0].run_id}", 0
    )
    assert mark.header(b"Nats-TTL") == ERASED_MARK_TTL


async def test_objects_of_a_claim_that_was_lost_are_removed_after_the_run_has_ended(
    store: Store, keeper: LeftOvers
) -> None:
    run_id = await submitted(store)
    await apply(store, run_id, ClaimRun(worker_id="w", instance_id="w.1", job_no=1))
    await store.results.put(run_id, 1, "t", 1, LARGE.encode())
    loss = ReportLoss(fence=1, cause=LossCause.WORKER_LOST, losses_max=9, crashes_max=9, detail="")
    await apply(store, run_id, loss)
    run = await the_run(store, run_id)
    await apply(store, run_id, ClaimRun(worker_id="v", instance_id="v.1", job_no=run.job_no))
    await keeper.look()
    assert len(await store.results.objects.list()) == 1
    await apply(store, run_id, CompleteRun(fence=2))

    async def is_noted() -> bool:
        return bool(await store.leftovers.oldest(1))

    await until(is_noted)
    assert await LeftOvers(store, settled_sec=0.0).look() == 1
    assert await store.results.objects.list() == []
    assert await store.leftovers.oldest(1) == []


async def test_what_was_copied_for_a_retry_that_never_began_is_removed(
    store: Store, config: NatsBackendConfig, keeper: LeftOvers, monkeypatch: pytest.MonkeyPatch
) -> None:
    [run_id] = await completed(store, config, 1)

    async def broken(*_: object) -> None:
        raise BrokerAway

    with monkeypatch.context() as patch:
        patch.setattr(store.runs, "create", broken)
        with pytest.raises(BrokerAway):
            await retry(store, run_id, RetryRequest(), CALLER)
    assert len(await store.results.objects.list()) == 2
    assert await keeper.look() == 1
    [kept] = await store.results.objects.list()
    assert kept.name.startswith(run_id)


async def test_what_a_retry_copies_is_not_removed_while_it_has_not_begun(
    store: Store, config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have much to copy, or be paused between the copies and the commit that refers to them."""
    [run_id] = await completed(store, config, 1)
    create = store.runs.create

    async def create_late(*asked: Any) -> StoredRun:
        await LeftOvers(store, settled_sec=0.0).look()
        return await create(*asked)

    monkeypatch.setattr(store.runs, "create", create_late)
    begun = (await retry(store, run_id, RetryRequest(), CALLER)).run
    for task, record in begun.tasks.items():
        assert len(await store.results.get(Recorded(begun.run_id, task, record.output))) > len(LARGE)
    assert begun.tasks


async def test_a_run_that_lives_stays_noted(store: Store, keeper: LeftOvers) -> None:
    run_id = await submitted(store)
    await store.leftovers.note(run_id)
    assert await keeper.look() == 0
    assert [noted.run_id for noted in await store.leftovers.oldest(9)] == [run_id]


async def test_a_note_is_left_alone_while_somebody_may_still_write(store: Store) -> None:
    await store.leftovers.note("run-1")
    assert await LeftOvers(store, settled_sec=60.0).look() == 0
    assert len(await store.leftovers.oldest(9)) == 1


async def test_of_a_schedule_that_was_never_finished_nothing_is_left(store: Store, keeper: LeftOvers) -> None:
    bucket = store.config.schedules_kv_bucket
    await store.jetstream.publish(f"$KV.{bucket}.half.run", b"what its runs begin with")
    fresh = LeftOvers(store, half_made_sec=600.0)
    await fresh.look()
    assert f"KV_{bucket}" in await contents(store)
    await keeper.look()
    assert f"KV_{bucket}" not in await contents(store)


async def test_a_schedule_that_the_broker_does_not_name_is_left_alone(
    store: Store, keeper: LeftOvers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a stream with more than a hundred thousand subjects only so many are told."""
    now = time.time()
    hourly = Timing(kind=ScheduleKind.INTERVAL, interval_seconds=3600.0, start_at=now)
    schedule = await schedules.create(store, Submission(flow_name="f"), hourly, None, now=now)
    ids = store.schedules._ids

    async def ids_of_others(keys: str) -> set[str]:
        return set() if keys == "*" else await ids(keys)

    monkeypatch.setattr(store.schedules, "_ids", ids_of_others)
    await keeper.look()
    assert await store.schedules.begins_with(schedule.schedule_id) is not None
