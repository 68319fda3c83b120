"""Jobs that are early, late, doubled or somebody else's: what happens to the message and to the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from pyoco_server.lifecycle.commands import ClaimRun, RequeueRun
from pyoco_server.lifecycle.events import CancelRequested
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.cancel import cancel_run
from pyoco_server.store.queue.jobs import encode_job
from pyoco_server.store.runs.log import new_commit_id
from pyoco_server.store.store import Store
from pyoco_server.worker import PyocoNatsWorker
from tests.engine.building import raising
from tests.worker.stage import (
    Flows,
    a_submission,
    count_of,
    ended_as,
    expect_alive,
    jobs_queued,
    lawful,
    letters,
    not_yet_stored,
    one_task,
    publish_job,
    queue_drained,
    status_of,
    submitted,
    working,
)


@pytest.mark.parametrize("log_seq", [0, 7], ids=["that never had one", "that names a place in it"])
async def test_a_job_without_a_log_is_put_off_three_times_and_then_a_letter(
    store: Store, log_seq: int
) -> None:
    submission = a_submission()
    flows = Flows()
    async with working(store.config, flows) as worker:
        await store.queue.publish(submission, not_yet_stored(submission, log_seq=log_seq))
        for _ in range(3):
            assert await worker.run_once(timeout=20.0) == submission.run_id
            assert await jobs_queued(store) == 1
        assert await worker.run_once(timeout=20.0) == submission.run_id
        await queue_drained(store)
        assert await store.runs.load(submission.run_id, at_leader=True) is None
        [letter] = await letters(store)
        assert (letter["reason"], letter["run_id"]) == ("never_began", submission.run_id)
        assert submission.flow_name in letter["payload"]
        assert flows.asked == []
        await expect_alive(store, worker)


async def test_a_job_that_overtook_its_log_is_executed_once_the_log_is_there(store: Store) -> None:
    submission = a_submission()
    async with working(store.config) as worker:
        await store.queue.publish(submission, not_yet_stored(submission))
        assert await worker.run_once(timeout=20.0) == submission.run_id
        await store.runs.create(submission, new_commit_id())
        assert await worker.run_once(timeout=20.0) == submission.run_id
        await queue_drained(store)
        await ended_as(store, submission.run_id, "COMPLETED")


async def test_a_doubled_job_is_executed_once(store: Store) -> None:
    submission = a_submission()
    flows = Flows()
    async with working(store.config, flows) as worker:
        stored = await store.runs.create(submission, new_commit_id())
        for copy in ("a", "b"):
            job = encode_job(submission, submission.tags)
            await publish_job(store, job, Nats_Msg_Id=copy, Pyoco_Job=1, Pyoco_Log_Seq=stored.log_seq)
        for _ in range(2):
            assert await worker.run_once(timeout=20.0) == submission.run_id
        await queue_drained(store)
        await ended_as(store, submission.run_id, "COMPLETED")
        assert await count_of(store, submission.run_id, "RunClaimed") == 1
        assert (flows.asked, await letters(store)) == (["noop"], [])


async def test_a_job_with_another_number_is_acknowledged_unexecuted(store: Store) -> None:
    run_id = await submitted(store)
    flows = Flows()
    async with working(store.config, flows) as worker:
        await apply(store, run_id, RequeueRun(job_no=1, reason="test"))
        assert await jobs_queued(store) == 2
        assert await worker.run_once(timeout=20.0) == run_id
        assert (await status_of(store, run_id), flows.asked) == ("PENDING", [])
        assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
        await ended_as(store, run_id, "COMPLETED")
        assert flows.asked == ["noop"]


async def completed(store: Store, worker: PyocoNatsWorker) -> str:
    run_id = await submitted(store)
    assert await worker.run_once(timeout=20.0) == run_id
    return run_id


async def failed(store: Store, worker: PyocoNatsWorker) -> str:
    run_id = await submitted(store, "fails")
    assert await worker.run_once(timeout=20.0) == run_id
    return run_id


async def cancelled(store: Store, _: PyocoNatsWorker) -> str:
    run_id = await submitted(store)
    await cancel_run(store, run_id)
    return run_id


@pytest.mark.parametrize(
    ("end", "status"), [(completed, "COMPLETED"), (failed, "FAILED"), (cancelled, "CANCELLED")]
)
async def test_a_job_of_a_run_that_is_over_is_acknowledged_unexecuted(
    store: Store, end: Callable[..., Any], status: str
) -> None:
    flows = Flows(fails=one_task(raising(ValueError("no"))))
    async with working(store.config, flows) as worker:
        run_id = await end(store, worker)
        if status != "CANCELLED":  # whose job still stands in the queue
            await queue_drained(store)
        before, executed = await ended_as(store, run_id, status), len(flows.asked)
        submission = await store.runs.submission(run_id)
        assert submission is not None
        job = encode_job(submission, submission.tags)
        await publish_job(store, job, Nats_Msg_Id="late", Pyoco_Job=1)
        await publish_job(store, job)  # and as another producer would repeat it
        for _ in range(await jobs_queued(store)):
            assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
        assert await ended_as(store, run_id, status) == before
        assert len(flows.asked) == executed
        assert len(await letters(store)) == (status == "FAILED")
        await expect_alive(store, worker)


async def test_a_run_held_by_another_instance_is_left_to_it(store: Store) -> None:
    run_id = await submitted(store)
    flows = Flows()
    await apply(store, run_id, ClaimRun(worker_id="other", instance_id="other.1", job_no=1))
    async with working(store.config, flows) as worker:
        assert await worker.run_once(timeout=20.0) == run_id
        assert (await jobs_queued(store), flows.asked) == (1, [])
        held = await lawful(store, run_id)
        assert (held.status, held.worker_id) == ("RUNNING", "other")
        # It is not ours to acknowledge: it comes again, after two seconds.
        assert await worker.run_once(timeout=0.5) is None
        assert await worker.run_once(timeout=20.0) == run_id
        assert flows.asked == []


async def test_a_run_cancelled_before_the_claim_is_never_executed(store: Store) -> None:
    run_id = await submitted(store)
    flows = Flows()
    await cancel_run(store, run_id)
    async with working(store.config, flows) as worker:
        assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
        await ended_as(store, run_id, "CANCELLED")
        assert (flows.asked, await count_of(store, run_id, "RunClaimed")) == ([], 0)
        await expect_alive(store, worker)


async def test_a_cancel_nobody_concluded_is_concluded_by_the_worker_that_gets_the_job(store: Store) -> None:
    run_id = await submitted(store)
    stored = await store.runs.load(run_id)
    assert stored is not None
    asked = CancelRequested(at=stored.run.updated_at + 1.0)
    await store.runs.append(replace(stored), (asked,), new_commit_id())
    flows = Flows()
    async with working(store.config, flows) as worker:
        assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
        await ended_as(store, run_id, "CANCELLED")
        assert flows.asked == []
