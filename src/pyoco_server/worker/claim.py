"""The first half of a delivery: read the job, make the run ours by a commit, or say why not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from pyoco_server.errors import Invalid
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
from pyoco_server.operations.apply import Applied, apply
from pyoco_server.store.codec import UNREADABLE, Job, UnreadableJob, decode_job, submission_of
from pyoco_server.store.queue import Delivery
from pyoco_server.store.runs import StoredRun
from pyoco_server.store.store import Store
from pyoco_server.tags import check_routing_tag, check_run_id
from pyoco_server.worker.checkpoints import (
    NOTHING_RECORDED,
    awaited,
    recorded_failures,
    recorded_results,
)
from pyoco_server.worker.disposition import TOO_EARLY_DELIVERIES_MAX, Outcome


class Claimant(NamedTuple):
    worker_id: str
    instance_id: str


class Claimed(NamedTuple):
    """The run is ours until it ends or we are taken over."""

    stored: StoredRun
    submission: RunSubmitted
    recorded: bytes = NOTHING_RECORDED

    @property
    def fence(self) -> int:
        return self.stored.run.fence

    @property
    def failures(self) -> dict[str, str]:
        return recorded_failures(self.stored.run)

    @property
    def awaited(self) -> tuple[str, ...]:
        return awaited(self.stored.run)


class NotOurs(NamedTuple):
    """There is nothing to execute. `error` is for the dead letter."""

    outcome: Outcome
    run_id: str | None = None
    error: str | None = None


def read_job(delivery: Delivery) -> Job | NotOurs:
    try:
        job = decode_job(delivery.data)
        check_run_id(job.run_id)
        check_routing_tag(job.tag)
    except (UnreadableJob, Invalid) as error:
        return NotOurs(Outcome.INVALID_JOB, run_id_in(delivery.data), str(error))
    if not job.flow_name.strip():
        return NotOurs(Outcome.INVALID_JOB, job.run_id, "flow_name is empty")
    return job


async def claim(
    store: Store, delivery: Delivery, job: Job, claimant: Claimant, *, is_only_one: Callable[[str], bool]
) -> Claimed | NotOurs:
    """`is_only_one`: no other attempt of this worker is at the run, at the moment it is asked."""
    submission = submission_of(job)
    held = _held(delivery, submission)
    if delivery.job_no is None:
        applied = await _claim_foreign(store, submission, claimant)
    else:
        command = _command(claimant, delivery.job_no)
        applied = await apply(store, job.run_id, command, held=held, project=False, whole=True)
    if applied.refused is None and applied.after is not None:
        return Claimed(applied.after, submission, await recorded_results(store, applied.after.run))
    left_over = _left_over(applied, claimant) if is_only_one(job.run_id) else None
    if left_over is not None:
        return await _hand_back(store, job.run_id, left_over)
    return await _explain(store, delivery, job.run_id, applied)


async def fail_unreadable(store: Store, run_id: str, error: str, claimant: Claimant) -> None:
    """A job that nobody can execute, of a run that exists: it must not stay PENDING for ever."""
    stored = await store.runs.load(run_id, at_leader=True)
    if stored is None:
        return
    commands = (
        _command(claimant, stored.run.job_no),
        FailRun(fence=stored.run.fence + 1, reason=Outcome.INVALID_JOB, error=error),
    )
    await apply(store, run_id, *commands, held=stored)


def _held(delivery: Delivery, submission: RunSubmitted) -> StoredRun | None:
    """The first job of a run carries all that is known of it: claim without a single read."""
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
    """Another producer's job, without a number. It may begin a run; else it stands for the current job."""
    stored = await store.runs.load(submission.run_id, at_leader=True, whole=True)
    commands: list[Command] = []
    if stored is None:
        commands.append(SubmitRun(submission=submission))
    commands.append(_command(claimant, stored.run.job_no if stored else 1))
    return await apply(store, submission.run_id, *commands, held=stored, project=False)


def _command(claimant: Claimant, job_no: int) -> ClaimRun:
    return ClaimRun(worker_id=claimant.worker_id, instance_id=claimant.instance_id, job_no=job_no)


async def _explain(store: Store, delivery: Delivery, run_id: str, applied: Applied) -> NotOurs:
    assert applied.refused is not None
    match applied.refused.reason:
        case Reason.TERMINAL | Reason.GONE:
            return NotOurs(Outcome.FINISHED_BEFORE, run_id)
        case Reason.OTHER_JOB:
            return NotOurs(Outcome.OTHER_JOB, run_id)
        case Reason.PARKED:
            return NotOurs(Outcome.PARKED, run_id)
        case Reason.CANCEL_REQUESTED:
            return await _conclude_cancelled(store, run_id)
        case Reason.UNKNOWN:
            early = delivery.num_delivered <= TOO_EARLY_DELIVERIES_MAX
            return NotOurs(Outcome.TOO_EARLY if early else Outcome.NEVER_BEGAN, run_id)
        case _:
            return NotOurs(Outcome.CLAIMED, run_id)


def _left_over(applied: Applied, claimant: Claimant) -> Claim | None:
    """A claim of ours that nobody is at: it was committed, and the answer was lost with the connection."""
    held = applied.after.run.claim if applied.after else None
    return held if held and held.instance_id == claimant.instance_id else None


async def _hand_back(store: Store, run_id: str, left_over: Claim) -> NotOurs:
    """Nobody else would: our lease moves. The commit publishes a new job, and it counts for no loss."""
    given_back = ReportLoss(
        fence=left_over.fence,
        cause=LossCause.HANDED_BACK,
        losses_max=store.config.consumer_max_deliver,
        crashes_max=store.config.max_crashes,
        detail="the answer to its claim was lost",
    )
    await apply(store, run_id, given_back)
    return NotOurs(Outcome.HANDED_BACK, run_id)


async def _conclude_cancelled(store: Store, run_id: str) -> NotOurs:
    """Somebody asked it to stop. If nobody holds it, we end it; a holder will do so itself."""
    applied = await apply(store, run_id, ConfirmCancelled())
    return NotOurs(Outcome.CLAIMED if applied.refused else Outcome.CANCELLED, run_id)


def run_id_in(data: bytes) -> str | None:
    """The run that garbage speaks of, if it speaks of one."""
    with contextlib.suppress(*UNREADABLE, Invalid):
        loose = msgspec.json.decode(data)
        if isinstance(loose, dict) and isinstance(loose.get("run_id"), str):
            return str(check_run_id(loose["run_id"]))
    return None
