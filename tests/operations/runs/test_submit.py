"""Whoever was told that a run is accepted has a run and a job; whoever was not, knows what to look for."""

from __future__ import annotations

import asyncio
import logging

import pytest

from pyoco_server.errors import Conflict, Invalid, TooLarge, Unavailable
from pyoco_server.jetstream.api import StoredMessage
from pyoco_server.jetstream.errors import AnswerLost
from pyoco_server.lifecycle.commands import CancelRun, ClaimRun
from pyoco_server.lifecycle.events import RunDiscarded
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.submit import Submission, submit
from pyoco_server.store.queue.jobs import JobQueue, decode_job, submission_of
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.store.making import Mishap, config_on, stored_bytes

WANTED = Submission(flow_name="greet", params={"n": 1}, tag="gpu", run_id="run-1", correlation_id="c")
CLAIM = ClaimRun(worker_id="w1", instance_id="w1.aa", job_no=1)


async def jobs(store: Store) -> list[StoredMessage]:
    subject = f"{store.config.work_subject_prefix}.gpu"
    return await store.jetstream.after_at_leader(store.config.work_stream, subject, 0)


async def test_whoever_is_answered_has_a_run_a_snapshot_and_a_job(store: Store) -> None:
    stored = await submit(store, WANTED)
    assert (stored.run.status, stored.commits) == (RunStatus.PENDING, 1)
    assert await stored_bytes(store, "run-1") is not None
    (job,) = await jobs(store)
    assert job.header(b"Nats-Msg-Id") == "run-1.1"
    assert (job.header(b"Pyoco-Job"), job.header(b"Pyoco-Log-Seq")) == ("1", str(stored.log_seq))
    assert job.header(b"Pyoco-Snapshot-Revision") == str(stored.revision)
    assert submission_of(decode_job(job.data)) == await store.runs.submission("run-1")


async def test_a_run_without_an_id_gets_one_and_without_a_tag_the_default(store: Store) -> None:
    one, two = await submit(store, Submission(flow_name="f")), await submit(store, Submission(flow_name="f"))
    assert one.run.run_id != two.run.run_id
    assert (one.run.tag, one.run.tags) == ("default", ("default",))


async def test_an_id_that_is_taken_is_a_conflict_and_changes_nothing(store: Store) -> None:
    first = await submit(store, WANTED)
    with pytest.raises(Conflict, match="run-1 exists already"):
        await submit(store, WANTED)
    found = await store.runs.load("run-1")
    assert found is not None
    assert found.run == first.run
    assert len(await jobs(store)) == 1


async def test_of_many_who_submit_the_same_id_one_is_answered(store: Store, other_store: Store) -> None:
    ends = await asyncio.gather(
        *(submit((store, other_store)[n % 2], WANTED) for n in range(6)), return_exceptions=True
    )
    assert sorted(type(end).__name__ for end in ends) == ["Conflict"] * 5 + ["StoredRun"]
    assert len(await jobs(store)) == 1


@pytest.mark.parametrize(
    "wanted",
    [
        Submission(flow_name=" "),
        Submission(flow_name="f" * 257),
        Submission(flow_name="f", tag="a.b"),
        Submission(flow_name="f", tag=""),
        Submission(flow_name="f", run_id="a.b"),
        Submission(flow_name="f", run_id="a\r\nPUB x 0\r\n"),
        Submission(flow_name="f", run_id="*"),
        Submission(flow_name="f", tags=["x" * 65]),
        Submission(flow_name="f", tags=[""]),
        Submission(flow_name="f", tags=[str(n) for n in range(33)]),
        Submission(flow_name="f", params={"x": object()}),
    ],
)
async def test_what_cannot_be_accepted_is_refused_before_anything_is_written(
    store: Store, wanted: Submission
) -> None:
    with pytest.raises(Invalid):
        await submit(store, wanted)
    assert await store.jetstream.last_seq(store.config.events_stream) == 0


async def test_params_over_the_limit_are_too_large_and_at_the_limit_are_not(store: Store) -> None:
    room = store.config.params_max_bytes - len('{"x":""}')
    with pytest.raises(TooLarge, match="at most"):
        await submit(store, Submission(flow_name="f", params={"x": "y" * (room + 1)}))
    assert await store.jetstream.last_seq(store.config.events_stream) == 0
    assert await submit(store, Submission(flow_name="f", params={"x": "y" * room}))


@pytest.mark.parametrize("what", ["events_subject_prefix", "work_subject_prefix"])
async def test_one_lost_answer_is_not_noticed(
    store: Store, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    Mishap(monkeypatch, store, getattr(store.config, what))
    assert (await submit(store, WANTED)).commits == 1
    assert len(await jobs(store)) == 1
    assert len(await store.runs.events("run-1")) == 1


async def test_a_run_whose_job_cannot_be_published_is_discarded(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        Mishap(patch, store, store.config.work_subject_prefix, times=99, sent=False)
        with pytest.raises(AnswerLost):
            await submit(store, WANTED)
    assert await stored_bytes(store, "run-1") is None
    assert await store.runs.load("run-1") is None
    [(_, events)] = await store.runs.events("run-1")
    assert isinstance(events[0], RunDiscarded)
    assert await jobs(store) == []


async def test_a_job_that_was_published_after_all_finds_its_run_gone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All answers lost: the job is on the queue, the caller was told 503, and nobody will execute it."""
    with monkeypatch.context() as patch:
        Mishap(patch, store, store.config.work_subject_prefix, times=99)
        with pytest.raises(AnswerLost):
            await submit(store, WANTED)
    assert len(await jobs(store)) == 1
    applied = await apply(store, "run-1", CLAIM)
    assert applied.refused is not None


async def test_a_snapshot_that_cannot_be_written_ends_the_submission_too(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No job without a snapshot: others read the bucket."""
    with monkeypatch.context() as patch:
        Mishap(patch, store, "$KV.", times=1, sent=False)
        with pytest.raises(AnswerLost):
            await submit(store, WANTED)
    assert await store.runs.was_discarded("run-1")
    assert await jobs(store) == []


async def test_a_discard_that_loses_to_a_claim_leaves_the_run_and_answers_it(
    store: Store, other_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job was published, its answers were lost, and a worker has it already."""
    publish = JobQueue.publish

    async def taken_at_once(self: JobQueue, *args: object) -> None:
        await publish(self, *args)  # type: ignore[arg-type]
        await apply(other_store, "run-1", CLAIM)
        raise AnswerLost("work")

    monkeypatch.setattr(JobQueue, "publish", taken_at_once)
    stored = await submit(store, WANTED)
    assert stored.run.status is RunStatus.RUNNING
    assert not stored.run.gone
    assert await stored_bytes(store, "run-1") is not None


async def test_a_discard_that_loses_to_a_cancel_answers_the_cancelled_run(
    store: Store, other_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cancelled_meanwhile(*_: object) -> None:
        await apply(other_store, "run-1", CancelRun())
        raise AnswerLost("work")

    monkeypatch.setattr(JobQueue, "publish", cancelled_meanwhile)
    assert (await submit(store, WANTED)).run.status is RunStatus.CANCELLED


async def test_a_run_that_may_have_been_left_behind_is_named(
    own_nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = await Store.connect(config_on(own_nats_server), name="test")

    async def dies(*_: object) -> None:
        own_nats_server.kill()
        await until(lambda: not store.is_connected)
        raise AnswerLost("work")

    monkeypatch.setattr(JobQueue, "publish", dies)
    with caplog.at_level(logging.ERROR), pytest.raises(Unavailable, match="run run-1 may or may not") as said:
        await submit(store, WANTED)
    assert said.value.details == {"run_id": "run-1"}
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert (record.__dict__["err_id"], record.__dict__["run_id"]) == ("ERR-PYOCO-0004", "run-1")
    await store.close()


async def test_a_broker_that_is_away_from_the_start_is_said_with_the_id_too(
    own_nats_server: NatsServer,
) -> None:
    store = await Store.connect(config_on(own_nats_server), name="test")
    own_nats_server.kill()
    await until(lambda: not store.is_connected)
    with pytest.raises(Unavailable, match="run-1"):
        await submit(store, WANTED)
    await store.close()
