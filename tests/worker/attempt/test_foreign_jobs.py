"""Another producer's job, without our number: the run begins with it."""

from __future__ import annotations

import time
import uuid

import msgspec

from pyoco_server.operations.runs.query import get_run
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.store import Store
from tests.worker.stage import (
    Flows,
    commits_of,
    ended_as,
    foreign_job,
    one_task,
    publish_job,
    queue_drained,
    submitted,
    working,
)


def double(number: int) -> int:
    return 2 * number


async def test_a_job_of_an_unknown_run_begins_it(store: Store, read_model: ReadModel) -> None:
    job = foreign_job(flow_name="double", params={"number": 21}, tags=["a", "b"])
    async with working(store.config, Flows(double=one_task(double))) as worker:
        await publish_job(store, job)
        assert await worker.run_once(timeout=20.0) == job["run_id"]
        await queue_drained(store)
    ended = await ended_as(store, job["run_id"], "COMPLETED")
    assert (ended.params, ended.tag, ended.tags) == ({"number": 21}, "default", ["a", "b"])
    assert ended.submitted_at == job["submitted_at"]
    assert ended.task_records["only"].output == 42
    assert (await commits_of(store, job["run_id"]))[0] == ["RunSubmitted", "RunClaimed"]
    await read_model.catch_up()
    assert read_model.runs.count() == 1
    assert (await get_run(store, job["run_id"])).run.status == "COMPLETED"


async def test_the_run_begins_also_where_its_producer_wrote_a_snapshot_of_its_own(store: Store) -> None:
    job = foreign_job()
    theirs = {
        "run_id": job["run_id"],
        "flow_name": "noop",
        "tag": "default",
        "tags": ["default"],
        "params": {},
        "status": "PENDING",
        "tasks": {},
        "heartbeat_at": time.time(),
        "updated_at": time.time(),
    }
    key = f"$KV.{store.config.runs_kv_bucket}.{job['run_id']}"
    await store.jetstream.publish(key, msgspec.json.encode(theirs))
    async with working(store.config) as worker:
        await publish_job(store, job)
        assert await worker.run_once(timeout=20.0) == job["run_id"]
        await queue_drained(store)
        await ended_as(store, job["run_id"], "COMPLETED")


async def test_a_foreign_job_stands_for_the_current_job_of_a_run_of_ours(store: Store) -> None:
    run_id = await submitted(store)
    flows = Flows()
    await store.jetstream.api(f"STREAM.PURGE.{store.config.work_stream}")
    async with working(store.config, flows) as worker:
        await publish_job(store, foreign_job(run_id))
        assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
        await ended_as(store, run_id, "COMPLETED")
        assert flows.asked == ["noop"]


async def test_a_run_id_that_is_no_uuid_is_as_good(store: Store) -> None:
    run_id = f"nightly_{uuid.uuid4().hex}"
    async with working(store.config) as worker:
        await publish_job(store, foreign_job(run_id))
        assert await worker.run_once(timeout=20.0) == run_id
        await ended_as(store, run_id, "COMPLETED")
