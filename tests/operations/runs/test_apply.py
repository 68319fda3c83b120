"""The one door: refusals are true, nothing is lost in a crowd, repeats are harmless, jobs are counted."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.api import StoredMessage
from pyoco_server.lifecycle.commands import (
    AddTag,
    CancelRun,
    ClaimRun,
    Command,
    CompleteRun,
    ConfirmCancelled,
    DiscardRun,
    EraseRun,
    FailTask,
    ParkRun,
    PlanTasks,
    PutTaskWaiting,
    RemoveTag,
    ReportLoss,
    RequeueRun,
    ResumeTask,
    StartTask,
    SubmitRun,
    SucceedTask,
)
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.snapshot import snapshot_of
from pyoco_server.lifecycle.status import LossCause, RunStatus
from pyoco_server.operations.runs.apply import Applied, Attribution, Reading, apply
from pyoco_server.store.queue.jobs import decode_job, submission_of
from pyoco_server.store.runs.codec import ERASED_MARK_TTL, encode_snapshot
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store
from tests.store.making import (
    START,
    Mishap,
    begun,
    heartbeat_put_aside,
    purge_log,
    stored_bytes,
    submission,
    tags_of,
)

CLAIM = ClaimRun(worker_id="w1", instance_id="w1.aa", job_no=1)


def tag(name: str) -> AddTag:
    return AddTag(tag=name, tags_max=1_000)


def loss(fence: int = 1, cause: LossCause = LossCause.WORKER_LOST, losses_max: int = 20) -> ReportLoss:
    return ReportLoss(fence=fence, cause=cause, losses_max=losses_max, crashes_max=3)


def done(task: str, fence: int = 1) -> tuple[Command, Command]:
    started = StartTask(fence=fence, task=task, attempt=1, started_at=START)
    ended = SucceedTask(
        fence=fence, task=task, attempt=1, started_at=START, ended_at=START + 1, output=[task]
    )
    return started, ended


async def running(store: Store) -> StoredRun:
    born = await begun(store)
    return state_after(await apply(store, born.run.run_id, CLAIM, at=START + 1))


def state_after(applied: Applied) -> StoredRun:
    assert applied.refused is None
    assert applied.after is not None
    return applied.after


async def jobs(store: Store, name: str = "default") -> list[StoredMessage]:
    """Everything on the queue of a tag; the stream serves no direct reads."""
    subject = f"{store.config.work_subject_prefix}.{name}"
    return await store.jetstream.after_at_leader(store.config.work_stream, subject, 0)


def counting_leader_reads(store: Store, patch: pytest.MonkeyPatch) -> list[str]:
    reads: list[str] = []
    ask = store.jetstream.last_at_leader

    async def counted(stream: str, subject: str) -> StoredMessage | None:
        reads.append(subject)
        return await ask(stream, subject)

    patch.setattr(store.jetstream, "last_at_leader", counted)
    return reads


async def test_a_decision_is_committed_and_shown(store: Store) -> None:
    born = await begun(store)
    applied = await apply(store, born.run.run_id, CLAIM, at=START + 1)
    after = state_after(applied)
    assert applied.before is not None
    assert (applied.before.run, len(applied.events)) == (born.run, 1)
    assert (after.run.status, after.commits) == (RunStatus.RUNNING, 2)
    snapshot = await store.runs.snapshots.get(born.run.run_id)
    assert snapshot is not None
    assert (snapshot.status, snapshot.pyoco.log_seq) == (RunStatus.RUNNING, after.log_seq)


async def test_several_commands_are_one_commit_or_none(store: Store) -> None:
    at = await running(store)
    run_id = at.run.run_id
    after = state_after(await apply(store, run_id, *done("a"), *done("b"), CompleteRun(fence=1)))
    assert (after.commits, after.run.status) == (3, RunStatus.COMPLETED)
    refused = await apply(store, run_id, tag("x"), CompleteRun(fence=1))
    assert refused.refused is not None
    assert tags_of(await store.runs.load(run_id)) == ("default",)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (ClaimRun(worker_id="w2", instance_id="w2.bb", job_no=1), Reason.CLAIMED),
        (CompleteRun(fence=2), Reason.FENCED),
        (EraseRun(), Reason.NOT_TERMINAL),
        (ConfirmCancelled(fence=1), Reason.NO_CANCEL_REQUESTED),
        (tag("default"), None),
        (RemoveTag(tag="never"), None),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, Reason) else "",
)
async def test_a_refusal_or_nothing_to_do_is_only_said_after_a_look_at_the_leader(
    store: Store, monkeypatch: pytest.MonkeyPatch, command: Command, reason: Reason | None
) -> None:
    at = await running(store)
    for held in (None, at):
        with monkeypatch.context() as patch:
            reads = counting_leader_reads(store, patch)
            applied = await apply(store, at.run.run_id, command, reading=Reading(held=held))
        assert (applied.refused.reason if applied.refused else None) == reason
        assert not applied.events
        assert len(reads) == 2  # the snapshot and the last commit
    assert len(await store.runs.events(at.run.run_id)) == 2


async def test_an_unknown_run_is_only_unknown_after_a_look_at_the_leader(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = counting_leader_reads(store, monkeypatch)
    applied = await apply(store, submission().run_id, CancelRun())
    assert applied.refused is not None
    assert applied.refused.reason is Reason.UNKNOWN
    assert len(reads) == 2


async def test_a_decision_that_goes_through_needs_no_look_at_the_leader(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await running(store)
    reads = counting_leader_reads(store, monkeypatch)
    state_after(await apply(store, at.run.run_id, tag("x"), reading=Reading(held=at)))
    state_after(await apply(store, at.run.run_id, tag("y")))
    assert reads == []


async def test_a_refusal_on_an_old_state_is_thought_over(store: Store) -> None:
    """Held: claimed by the first. Meanwhile it was lost, and the second may have it."""
    old = await running(store)
    await apply(store, old.run.run_id, loss())
    second = ClaimRun(worker_id="w2", instance_id="w2.bb", job_no=2)
    assert state_after(await apply(store, old.run.run_id, second, reading=Reading(held=old))).run.fence == 2


async def test_a_worker_on_an_old_state_meets_a_cancel_that_came_first(store: Store) -> None:
    held = await running(store)
    state_after(await apply(store, held.run.run_id, CancelRun(by="me")))
    applied = await apply(store, held.run.run_id, CompleteRun(fence=1), reading=Reading(held=held))
    assert applied.refused is not None
    assert applied.refused.reason is Reason.CANCEL_REQUESTED
    assert applied.after is not None
    assert applied.after.run.status is RunStatus.CANCELLING


async def test_everything_that_is_asked_at_once_stays(store: Store, other_store: Store) -> None:
    """Twenty tags from two gateways while a worker records its tasks."""
    at = await running(store)
    run_id = at.run.run_id

    async def work() -> None:
        held = at
        for number in range(10):
            held = state_after(
                await apply(store, run_id, *done(f"task-{number}"), reading=Reading(held=held))
            )

    tagging = [apply((store, other_store)[n % 2], run_id, tag(f"t{n}")) for n in range(20)]
    async with asyncio.timeout(30):
        await asyncio.gather(work(), *tagging)
    found = await store.runs.load(run_id, at_leader=True)
    assert found is not None
    assert set(found.run.tags) == {"default", *(f"t{n}" for n in range(20))}
    assert {name: record.output for name, record in found.run.tasks.items()} == {
        f"task-{n}": [f"task-{n}"] for n in range(10)
    }
    assert found.commits == len(await store.runs.events(run_id)) == 2 + 10 + 20
    assert await stored_bytes(store, run_id) == await expected_bytes(store, run_id)


async def test_one_tag_asked_for_by_many_is_added_once(store: Store, other_store: Store) -> None:
    at = await running(store)
    ends = await asyncio.gather(
        *(apply((store, other_store)[n % 2], at.run.run_id, tag("same")) for n in range(10))
    )
    assert sorted(len(end.events) for end in ends) == [0] * 9 + [1]
    assert tags_of(await store.runs.load(at.run.run_id)) == ("default", "same")


async def test_one_of_many_workers_gets_the_claim(store: Store, other_store: Store) -> None:
    born = await begun(store)
    claims = [
        apply(
            (store, other_store)[n % 2],
            born.run.run_id,
            ClaimRun(worker_id=f"w{n}", instance_id=f"w{n}.x", job_no=1),
            reading=Reading(held=born),
        )
        for n in range(10)
    ]
    ends = await asyncio.gather(*claims)
    assert [end.refused.reason for end in ends if end.refused] == [Reason.CLAIMED] * 9


async def test_a_repeat_with_the_same_commit_id_happens_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a worker does it while the broker is in trouble: from the state it holds."""
    at = await running(store)
    with monkeypatch.context() as patch:
        Mishap(patch, store, store.config.events_subject_prefix, times=99)
        for _ in range(5):
            with pytest.raises(Unavailable):
                await apply(
                    store,
                    at.run.run_id,
                    *done("a"),
                    reading=Reading(held=at),
                    attribution=Attribution(commit_id="mine"),
                )
        found = await store.runs.load(at.run.run_id)
    await apply(store, at.run.run_id, tag("theirs"))
    again = state_after(
        await apply(
            store,
            at.run.run_id,
            *done("a"),
            reading=Reading(held=at),
            attribution=Attribution(commit_id="mine"),
        )
    )
    assert found is not None
    assert (found.commits, again.commits) == (3, 4)
    assert (again.run.tags, again.run.tasks["a"].output) == (("default", "theirs"), ["a"])
    assert len(await store.runs.events(at.run.run_id)) == 4


async def test_a_commit_decided_anew_whose_answers_were_lost_is_found_again_too(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Overtaken first, then committed and unheard; the next try begins at the old place once more."""
    at = await running(store)
    state_after(await apply(store, at.run.run_id, tag("theirs")))
    append = store.runs.append

    async def unheard(*args: Any, **_: Any) -> StoredRun:
        await append(*args)
        raise Unavailable("The broker did not answer.")

    with monkeypatch.context() as patch:
        patch.setattr(store.runs, "append", unheard)
        with pytest.raises(Unavailable):
            await apply(
                store,
                at.run.run_id,
                *done("a"),
                reading=Reading(held=at),
                attribution=Attribution(commit_id="mine"),
            )
    again = state_after(
        await apply(
            store,
            at.run.run_id,
            *done("a"),
            reading=Reading(held=at),
            attribution=Attribution(commit_id="mine"),
        )
    )
    assert (again.commits, again.run.tags) == (4, ("default", "theirs"))
    after = state_after(await apply(store, at.run.run_id, CompleteRun(fence=1), reading=Reading(held=again)))
    found = await store.runs.load(at.run.run_id)
    assert found is not None
    assert (found.run, found.commits) == (after.run, 5)


@pytest.mark.parametrize("cause", [LossCause.WORKER_LOST, LossCause.SLOT_CRASHED, LossCause.HANDED_BACK])
async def test_a_loss_publishes_one_new_job_with_the_next_number(store: Store, cause: LossCause) -> None:
    event = submission(tags=["default", "nightly"])
    born = await store.runs.create(event, "c1")
    await store.queue.publish(event, born)
    await apply(store, event.run_id, CLAIM)
    lost = state_after(await apply(store, event.run_id, loss(cause=cause)))
    first, second = await jobs(store)
    assert (first.header(b"Pyoco-Job"), second.header(b"Pyoco-Job")) == ("1", "2")
    assert second.header(b"Nats-Msg-Id") == f"{event.run_id}.2"
    assert second.header(b"Pyoco-Log-Seq") == str(lost.log_seq)
    assert second.header(b"Pyoco-Snapshot-Revision") == str(lost.revision)
    assert submission_of(decode_job(second.data)) == event


async def test_a_loss_told_by_many_is_one_loss_and_one_job(store: Store, other_store: Store) -> None:
    at = await running(store)
    ends = await asyncio.gather(
        *(apply((store, other_store)[n % 2], at.run.run_id, loss()) for n in range(8))
    )
    assert [end.refused.reason for end in ends if end.refused] == [Reason.FENCED] * 7
    assert [job.header(b"Pyoco-Job") for job in await jobs(store)] == ["2"]
    found = await store.runs.load(at.run.run_id)
    assert found is not None
    assert (found.run.losses, found.run.job_no) == (1, 2)


async def test_a_requeue_told_twice_is_one_job(store: Store) -> None:
    born = await begun(store)
    state_after(await apply(store, born.run.run_id, RequeueRun(job_no=1, reason="lost")))
    again = await apply(store, born.run.run_id, RequeueRun(job_no=1, reason="lost"))
    assert again.refused is not None
    assert again.refused.reason is Reason.OTHER_JOB
    assert [job.header(b"Pyoco-Job") for job in await jobs(store)] == ["2"]


async def test_a_requeue_whose_answer_was_lost_is_one_job(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    born = await begun(store)
    Mishap(monkeypatch, store, store.config.events_subject_prefix)
    state_after(await apply(store, born.run.run_id, RequeueRun(job_no=1, reason="lost")))
    assert [job.header(b"Pyoco-Job") for job in await jobs(store)] == ["2"]


async def test_a_run_that_ends_or_is_claimed_gets_no_job(store: Store) -> None:
    at = await running(store)
    await apply(store, at.run.run_id, tag("x"))
    await apply(store, at.run.run_id, CancelRun())
    await apply(store, at.run.run_id, loss())
    found = await store.runs.load(at.run.run_id)
    assert found is not None
    assert found.run.status is RunStatus.CANCELLED
    assert await jobs(store) == []


async def test_a_change_that_makes_nothing_runnable_publishes_no_job(store: Store) -> None:
    """Its job is on the queue, or housekeeping's matter: the same number again would be a double one day."""
    born = await begun(store)
    state_after(await apply(store, born.run.run_id, tag("x")))
    assert await jobs(store) == []


async def test_a_run_that_lost_its_last_worker_gets_no_job(store: Store) -> None:
    at = await running(store)
    failed = state_after(await apply(store, at.run.run_id, loss(losses_max=1)))
    assert (failed.run.status, failed.run.reason) == (RunStatus.FAILED, "max_deliver")
    assert await jobs(store) == []


async def test_a_resume_publishes_a_job_only_when_the_run_is_parked(store: Store) -> None:
    at = await running(store)
    run_id = at.run.run_id
    wait = PutTaskWaiting(fence=1, task="ask", attempt=1, wait_key="k")
    resume = ResumeTask(task="ask", wait_key="k", payload={"ok": True})
    state_after(await apply(store, run_id, StartTask(fence=1, task="ask", attempt=1), wait))
    state_after(await apply(store, run_id, resume))
    assert await jobs(store) == []
    state_after(await apply(store, run_id, StartTask(fence=1, task="ask2", attempt=1)))
    second = await running(store)
    state_after(
        await apply(
            store,
            second.run.run_id,
            StartTask(fence=1, task="ask", attempt=1),
            wait,
            ParkRun(fence=1, waiting=["ask"]),
        )
    )
    assert await jobs(store) == []
    resumed = state_after(await apply(store, second.run.run_id, resume))
    (job,) = await jobs(store)
    assert job.header(b"Nats-Msg-Id") == f"{second.run.run_id}.2"
    assert not resumed.run.parked


async def test_a_job_that_cannot_be_published_leaves_the_commit_and_the_debt(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await running(store)
    with monkeypatch.context() as patch:
        Mishap(patch, store, store.config.work_subject_prefix, times=99, sent=False)
        lost = state_after(await apply(store, at.run.run_id, loss(), at=START + 9))
    assert await jobs(store) == []
    assert lost.run.job_owed_since == START + 9
    state_after(await apply(store, at.run.run_id, RequeueRun(job_no=2, reason="owed")))
    assert [job.header(b"Pyoco-Job") for job in await jobs(store)] == ["3"]


async def test_a_snapshot_that_cannot_be_written_is_not_the_callers_trouble(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await running(store)
    with monkeypatch.context() as patch:
        Mishap(patch, store, "$KV.", times=99, sent=False)
        after = state_after(await apply(store, at.run.run_id, tag("x")))
    assert after.commits == 3
    assert tags_of(await store.runs.load(at.run.run_id)) == ("default", "x")


async def test_whoever_projects_for_himself_is_left_to_it(store: Store) -> None:
    at = await running(store)
    after = state_after(await apply(store, at.run.run_id, tag("x"), project=False, reading=Reading(held=at)))
    snapshot = await store.runs.snapshots.get(at.run.run_id)
    assert snapshot is not None
    assert (snapshot.pyoco.commits, after.revision) == (2, at.revision)
    assert tags_of(await store.runs.load(at.run.run_id)) == ("default", "x")


async def test_a_run_that_changes_all_the_time_is_given_up_in_words(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyoco_server.store.runs.log import Overtaken

    at = await running(store)

    async def always_late(*_: Any, **__: Any) -> StoredRun:
        raise Overtaken(at)

    monkeypatch.setattr(store.runs, "append", always_late)
    with pytest.raises(Unavailable, match=f"Run {at.run.run_id} changes too fast"):
        await apply(store, at.run.run_id, tag("x"))


async def test_nothing_begins_where_an_erased_run_has_left_its_mark(store: Store) -> None:
    at = await running(store)
    run_id = at.run.run_id
    state_after(await apply(store, run_id, CompleteRun(fence=1)))
    state_after(await apply(store, run_id, EraseRun()))
    assert await stored_bytes(store, run_id) is None
    again = (SubmitRun(submission=submission(run_id)), CLAIM)
    applied = await apply(store, run_id, *again)
    assert applied.refused is not None
    assert applied.refused.reason is Reason.GONE
    await purge_log(store, run_id)
    assert state_after(await apply(store, run_id, *again)).run.fence == 1


async def test_whoever_holds_a_run_that_was_erased_is_told_that_it_is_gone(store: Store) -> None:
    at = await running(store)
    ended = state_after(await apply(store, at.run.run_id, CompleteRun(fence=1)))
    state_after(await apply(store, at.run.run_id, EraseRun()))
    for reason in (Reason.GONE, Reason.UNKNOWN):  # first there is a mark, then there is nothing
        applied = await apply(store, at.run.run_id, tag("late"), reading=Reading(held=ended))
        assert applied.refused is not None
        assert applied.refused.reason is reason
        await purge_log(store, at.run.run_id)


async def test_of_a_discarded_run_a_mark_stays_in_the_log_that_vanishes_by_itself(store: Store) -> None:
    born = await begun(store)
    assert not await store.runs.was_discarded(born.run.run_id)
    after = state_after(await apply(store, born.run.run_id, DiscardRun(reason="no job")))
    assert after.run.gone
    assert await stored_bytes(store, born.run.run_id) is None
    assert await store.runs.was_discarded(born.run.run_id)
    subject = f"{store.config.events_subject_prefix}.{born.run.run_id}"
    [mark] = await store.jetstream.after(store.config.events_stream, subject, 0)
    assert mark.header(b"Nats-TTL") == ERASED_MARK_TTL
    applied = await apply(store, born.run.run_id, tag("late"))
    assert applied.refused is not None


async def expected_bytes(store: Store, run_id: str) -> bytes:
    """The snapshot that the log alone would give."""
    log = await store.runs.events(run_id)
    run = fold(None, [event for _, events in log for event in events])
    assert run is not None
    limit = store.config.max_run_snapshot_bytes
    return encode_snapshot(snapshot_of(run, max_bytes=limit, commits=len(log), log_seq=log[-1][0]))


async def test_after_a_whole_life_the_bucket_has_what_the_log_says_byte_for_byte(store: Store) -> None:
    event = submission(tenant_id="t", correlation_id="c", tags=["default", "x"])
    await store.runs.create(event, "c1")
    life: list[tuple[Command, ...]] = [
        (tag("y"),),
        (CLAIM, PlanTasks(fence=1, tasks=["a", "b", "ask"])),
        done("a"),
        (loss(),),
        (ClaimRun(worker_id="w2", instance_id="w2.bb", job_no=2), StartTask(fence=2, task="b", attempt=1)),
        (
            FailTask(
                fence=2,
                task="b",
                attempt=1,
                started_at=START,
                ended_at=START + 2,
                error="é\n",
                will_retry=True,
            ),
        ),
        (StartTask(fence=2, task="b", attempt=2, inputs={"n": 1.5}),),
        (
            SucceedTask(
                fence=2, task="b", attempt=2, started_at=START, ended_at=START + 3, output={"ü": None}
            ),
        ),
        (
            StartTask(fence=2, task="ask", attempt=1),
            PutTaskWaiting(fence=2, task="ask", attempt=1, wait_key="k", prompt={"q": "?"}),
            ParkRun(fence=2, waiting=["ask"]),
        ),
        (ResumeTask(task="ask", wait_key="k", payload=[1]),),
        (RemoveTag(tag="x"),),
        (ClaimRun(worker_id="w1", instance_id="w1.cc", job_no=3),),
        (CancelRun(by="me", reason="enough"),),
        (ConfirmCancelled(fence=3),),
    ]
    for place, commands in enumerate(life):
        after = state_after(await apply(store, event.run_id, *commands, at=START + 10 + place))
        await store.runs.snapshots.beat(after, START + 10.5 + place)
        data = await stored_bytes(store, event.run_id)
        expected = await expected_bytes(store, event.run_id)
        assert heartbeat_put_aside(data) == heartbeat_put_aside(expected)
        assert data is not None
        assert data.replace(_heartbeat(data), b"") == expected.replace(_heartbeat(expected), b"")
    assert after.run.status is RunStatus.CANCELLED


def _heartbeat(data: bytes) -> bytes:
    value = msgspec.json.decode(data)["heartbeat_at"]
    member = b'"heartbeat_at":' + msgspec.json.encode(value)
    assert data.count(member) == 1
    return member


async def test_held_state_with_an_old_revision_still_gets_its_snapshot_in(store: Store) -> None:
    at = await running(store)
    after = state_after(
        await apply(store, at.run.run_id, tag("x"), reading=Reading(held=replace(at, revision=0)))
    )
    snapshot = await store.runs.snapshots.get(at.run.run_id)
    assert snapshot is not None
    assert (snapshot.tags, snapshot.pyoco.commits) == (["default", "x"], after.commits)
