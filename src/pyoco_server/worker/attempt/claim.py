"""The first half of a delivery: read the job, claim the run by a commit, or return why not.

A claim whose reply was lost may be in the log. The leader is asked until it answers whether this worker holds
the run. If that takes too long, housekeeping hands the claim back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from pyoco_server import clock
from pyoco_server.clock import elapsed
from pyoco_server.errors import Invalid, Unavailable
from pyoco_server.jetstream.headers import value_of
from pyoco_server.lifecycle.commands import (
    ClaimRun,
    Command,
    ConfirmCancelled,
    FailRun,
    ReportLoss,
    SubmitRun,
)
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Claim
from pyoco_server.lifecycle.status import LossCause
from pyoco_server.names import check_routing_tag, check_run_id
from pyoco_server.operations.runs.apply import Applied, Reading, apply
from pyoco_server.operations.runs.pass_time import pass_time
from pyoco_server.printable import has_control
from pyoco_server.store.queue.job_puller import Delivery
from pyoco_server.store.queue.jobs import Job, UnreadableJob, decode_job, submission_of
from pyoco_server.store.runs.codec import UNREADABLE
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store
from pyoco_server.supervision import Backoff
from pyoco_server.tracing import (
    CORRELATION_HEADER,
    TRACEPARENT_HEADER,
    usable_correlation_id,
    usable_traceparent,
)
from pyoco_server.worker.attempt.disposition import TOO_EARLY_DELIVERIES_MAX, AttemptOutcome
from pyoco_server.worker.attempt.reasons import with_reason
from pyoco_server.worker.recording.checkpoints import NOTHING_RECORDED, recorded_results
from pyoco_server.worker.recording.earlier_claims import (
    awaited,
    metadata_of,
    numbering_of,
    recorded_failures,
)
from pyoco_server.worker.recording.listener import Numbering

log = logging.getLogger(__name__)

T = TypeVar("T")

# Longer than a lease: if the lease cannot be renewed either, the run has been taken over by then.
LOST_REPLY_SEC_MAX = 60.0
LOST_REPLY = Backoff(first_sec=0.05, longest_sec=1.0)


class Claimant(NamedTuple):
    worker_id: str
    instance_id: str


class Claimed(NamedTuple):
    """This worker holds the run until it ends or is taken over."""

    stored: StoredRun
    submission: RunSubmitted
    recorded: bytes = NOTHING_RECORDED

    @property
    def fence(self) -> int:
        return self.stored.run.fence

    @property
    def numbering(self) -> Numbering:
        return numbering_of(self.stored.run)

    @property
    def failures(self) -> dict[str, str]:
        return recorded_failures(self.stored.run)

    @property
    def awaited(self) -> tuple[str, ...]:
        return awaited(self.stored.run)

    @property
    def metadata(self) -> dict[str, object]:
        return metadata_of(self.submission, self.fence)


class NotOurs(NamedTuple):
    """There is nothing to execute. `error` is for the dead letter."""

    outcome: AttemptOutcome
    run_id: str | None = None
    error: str | None = None
    cause: Exception | None = None  # for the log
    over: StoredRun | None = None  # the run, if it had ended before this delivery


def read_job(delivery: Delivery) -> Job | NotOurs:
    try:
        job = decode_job(delivery.data)
        check_run_id(job.run_id)
        check_routing_tag(job.tag)
        if not job.flow_name.strip():
            raise Invalid("flow_name is empty")
        if has_control(job.flow_name):
            raise Invalid("flow_name has control characters")
    except (UnreadableJob, Invalid) as error:
        return NotOurs(AttemptOutcome.INVALID_JOB, run_id_in(delivery.data), str(error), error)
    return _traced(job, delivery)


def _traced(job: Job, delivery: Delivery) -> Job:
    """Other producers may put these into headers instead of the job. Unusable values are left out."""
    given_id = job.correlation_id or value_of(delivery.headers, CORRELATION_HEADER.encode())
    given_trace = job.traceparent or value_of(delivery.headers, TRACEPARENT_HEADER.encode())
    correlation_id, traceparent = usable_correlation_id(given_id), usable_traceparent(given_trace)
    if (correlation_id, traceparent) == (job.correlation_id, job.traceparent):
        return job
    return replace(job, correlation_id=correlation_id, traceparent=traceparent)


async def claim(
    store: Store, delivery: Delivery, job: Job, claimant: Claimant, *, is_only_one: Callable[[str], bool]
) -> Claimed | NotOurs:
    """`is_only_one`: whether no other attempt of this worker handles the run at the moment of the call."""
    submission = submission_of(job)
    try:
        applied = await _apply_claim(store, delivery, submission, claimant)
    except Unavailable as error:
        return await _resolve_lost_reply(store, submission, claimant, error, is_only_one=is_only_one)
    if applied.refused is None and applied.after is not None:
        return await _read_checkpoints(store, submission, applied.after)
    left_over = _left_over(applied, claimant) if is_only_one(job.run_id) else None
    if left_over is not None:
        return await _hand_back(store, job.run_id, left_over)
    return await _explain(store, delivery, job.run_id, applied)


async def _apply_claim(
    store: Store, delivery: Delivery, submission: RunSubmitted, claimant: Claimant
) -> Applied:
    if delivery.job_no is None:
        return await _claim_foreign(store, submission, claimant)
    held, command = _held(delivery, submission), _command(claimant, delivery.job_no)
    reading = Reading(held=held, whole=True)
    return await apply(store, submission.run_id, command, reading=reading, project=False)


async def _read_checkpoints(store: Store, submission: RunSubmitted, stored: StoredRun) -> Claimed:
    """This worker holds the run now, so reading is repeated until it succeeds."""
    recorded = await _ask_until_answered(lambda: recorded_results(store, stored.run))
    return Claimed(stored, submission, recorded)


async def _resolve_lost_reply(
    store: Store,
    submission: RunSubmitted,
    claimant: Claimant,
    error: Unavailable,
    *,
    is_only_one: Callable[[str], bool],
) -> Claimed | NotOurs:
    """The reply to the claim was lost: ask the leader whether it was stored."""
    run_id = submission.run_id
    fields = {"run_id": run_id, "error": error.message}
    log.warning("a claim may be in the log", exc_info=error, extra=fields)
    stored = await _ask_until_answered(lambda: store.runs.load(run_id, at_leader=True, whole=True))
    held = stored.run.claim if stored is not None else None
    if stored is None or held is None or held.instance_id != claimant.instance_id:
        return NotOurs(AttemptOutcome.BROKER_TROUBLE, error=error.message)
    if not is_only_one(run_id):
        return NotOurs(AttemptOutcome.CLAIMED, run_id)
    log.info("the claim is in the log; the run begins", extra={"run_id": run_id, "fence": held.fence})
    return await _read_checkpoints(store, submission, stored)


async def _ask_until_answered(ask: Callable[[], Awaitable[T]]) -> T:
    """Asks again while the broker is away. Raises Unavailable after LOST_REPLY_SEC_MAX."""
    give_up_at, tries = elapsed() + LOST_REPLY_SEC_MAX, 0
    while True:
        try:
            return await ask()
        except Unavailable:
            if elapsed() >= give_up_at:
                raise
            tries += 1
            await asyncio.sleep(LOST_REPLY.after(tries))


async def fail_unreadable(store: Store, run_id: str, error: str, claimant: Claimant) -> None:
    """No worker can execute this job. If its run exists, it must not stay PENDING."""
    stored = await store.runs.load(run_id, at_leader=True)
    if stored is None:
        return
    commands = (
        _command(claimant, stored.run.job_no),
        FailRun(
            fence=stored.run.fence + 1,
            reason=AttemptOutcome.INVALID_JOB,
            error=with_reason(AttemptOutcome.INVALID_JOB, error),
        ),
    )
    await apply(store, run_id, *commands, reading=Reading(held=stored))


def _held(delivery: Delivery, submission: RunSubmitted) -> StoredRun | None:
    """The first job of a run has its whole specification: the claim needs no read."""
    if delivery.job_no != 1 or not delivery.log_seq:
        return None
    run = fold(None, (submission,))
    assert run is not None
    return StoredRun(
        run=run,
        commits=1,
        log_seq=delivery.log_seq,
        revision=delivery.snapshot_revision,
        chain=delivery.chain,
    )


async def _claim_foreign(store: Store, submission: RunSubmitted, claimant: Claimant) -> Applied:
    """A job of another producer has no number. It begins a run, or it counts as the run's current job."""
    stored = await store.runs.load(submission.run_id, at_leader=True, whole=True)
    commands: list[Command] = []
    if stored is None:
        commands.append(SubmitRun(submission=submission))
    commands.append(_command(claimant, stored.run.job_no if stored else 1))
    return await apply(store, submission.run_id, *commands, reading=Reading(held=stored), project=False)


def _command(claimant: Claimant, job_no: int) -> ClaimRun:
    return ClaimRun(worker_id=claimant.worker_id, instance_id=claimant.instance_id, job_no=job_no)


async def _explain(store: Store, delivery: Delivery, run_id: str, applied: Applied) -> NotOurs:
    assert applied.refused is not None
    match applied.refused.reason:
        case Reason.TERMINAL | Reason.GONE:
            return NotOurs(AttemptOutcome.FINISHED_BEFORE, run_id, over=applied.after)
        case Reason.OTHER_JOB:
            return NotOurs(AttemptOutcome.OTHER_JOB, run_id)
        case Reason.PARKED:
            return NotOurs(AttemptOutcome.PARKED, run_id)
        case Reason.CANCEL_REQUESTED:
            return await _conclude_cancelled(store, run_id)
        case Reason.EXPIRED:
            expired = await pass_time(store, run_id, clock.now())
            over = expired.after is None or expired.after.run.is_terminal
            return NotOurs(AttemptOutcome.CANCELLED if over else AttemptOutcome.CLAIMED, run_id)
        case Reason.UNKNOWN:
            early = delivery.num_delivered <= TOO_EARLY_DELIVERIES_MAX
            return NotOurs(AttemptOutcome.TOO_EARLY if early else AttemptOutcome.NEVER_BEGAN, run_id)
        case _:
            return NotOurs(AttemptOutcome.CLAIMED, run_id)


def _left_over(applied: Applied, claimant: Claimant) -> Claim | None:
    """A claim of this worker without an attempt: it was committed, and the reply was lost."""
    held = applied.after.run.claim if applied.after else None
    return held if held and held.instance_id == claimant.instance_id else None


async def _hand_back(store: Store, run_id: str, left_over: Claim) -> NotOurs:
    """Only this worker can do it: its lease is current. The commit publishes a new job."""
    given_back = ReportLoss(
        fence=left_over.fence,
        cause=LossCause.HANDED_BACK,
        losses_max=store.config.consumer_max_deliver,
        crashes_max=store.config.max_crashes,
        detail="the answer to its claim was lost",
    )
    await apply(store, run_id, given_back)
    return NotOurs(AttemptOutcome.HANDED_BACK, run_id)


async def _conclude_cancelled(store: Store, run_id: str) -> NotOurs:
    """A cancel was requested. A run without a holder is ended here; a holder ends it itself."""
    applied = await apply(store, run_id, ConfirmCancelled())
    return NotOurs(AttemptOutcome.CLAIMED if applied.refused else AttemptOutcome.CANCELLED, run_id)


def run_id_in(data: bytes) -> str | None:
    """The run id in an invalid job, if it has one."""
    with contextlib.suppress(*UNREADABLE, Invalid):
        loose = msgspec.json.decode(data)
        if isinstance(loose, dict) and isinstance(loose.get("run_id"), str):
            return str(check_run_id(loose["run_id"]))
    return None
