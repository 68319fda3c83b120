"""One delivery, from first byte to ACK: decode → claim → resolve → perform → conclude → settle.

The claim is a commit, the end is a commit, and the ACK comes last. A cancel is pushed while the flow runs;
after the grace the run is CANCELLED whether or not its code has reacted.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, TypeGuard

from pyoco_server import clock
from pyoco_server.errors import Unavailable
from pyoco_server.lifecycle.commands import ConfirmCancelled, FailRun, RequeueRun
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.log_context import context_of
from pyoco_server.operations.fleet.publish_dead_letter import letter_reason
from pyoco_server.operations.runs.apply import apply
from pyoco_server.store.queue.dead_letters import ERROR_CHARS_MAX, DeadLetter, payload_text
from pyoco_server.store.queue.job_puller import Delivery
from pyoco_server.store.queue.jobs import Job
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store
from pyoco_server.worker.attempt.claim import (
    Claimant,
    NotOurs,
    claim,
    fail_unreadable,
    read_job,
    run_id_in,
)
from pyoco_server.worker.attempt.disposition import (
    NAK_LETTER_SEC,
    Action,
    AttemptOutcome,
    Disposition,
    disposition,
)
from pyoco_server.worker.attempt.monitor import AttemptMonitor
from pyoco_server.worker.attempt.reasons import EXECUTION_ERROR, FLOW_NOT_FOUND
from pyoco_server.worker.endings import Ending
from pyoco_server.worker.performer import Performer
from pyoco_server.worker.places import Place
from pyoco_server.worker.presence.lease_deadline import LeaseDeadline
from pyoco_server.worker.recording.recorder import Recorder

log = logging.getLogger(__name__)

_INVALID_JOB: dict[str, str | None] = {"err_id": "ERR-PYOCO-0012", "msg_id": "MSG-PYOCO-0012"}


class AttemptResult(NamedTuple):
    """The result of a delivery."""

    outcome: AttemptOutcome
    run_id: str | None = None
    error: str | None = None
    stored: StoredRun | None = None

    @property
    def status(self) -> str | None:
        """The status of the run, if this delivery has changed it."""
        return self.stored.run.status.value if self.stored else None


class Attempt:
    def __init__(
        self,
        store: Store,
        delivery: Delivery,
        *,
        claimant: Claimant,
        performer: Performer,
        in_flight: Counter[str],
        lease: LeaseDeadline,
        place: Place,
    ) -> None:
        self._store = store
        self._delivery = delivery
        self._claimant = claimant
        self._performer = performer
        self._in_flight = in_flight
        self._lease = lease
        self._place = place
        self.claimed_run_id: str | None = None

    async def run(self, on_claimed: Callable[[str, int], None]) -> AttemptResult:
        tag = self._delivery.subject.rsplit(".", 1)[-1]
        with context_of({"worker_id": self._claimant.worker_id, "tag": tag}):
            try:
                ended = await self._handle(on_claimed)
            except Unavailable as error:
                fields = {"reason": error.message, "err_id": error.err_id, "msg_id": error.msg_id}
                log.warning("broker trouble", exc_info=error, extra=fields)
                ended = AttemptResult(AttemptOutcome.BROKER_TROUBLE, error=error.message)
            await self._settle(ended)
            return ended

    async def _handle(self, on_claimed: Callable[[str, int], None]) -> AttemptResult:
        job = read_job(self._delivery)
        if isinstance(job, NotOurs):
            self._log_invalid(job.run_id, job.cause)
            if job.run_id is not None:
                await fail_unreadable(self._store, job.run_id, job.error or "", self._claimant)
            return AttemptResult(job.outcome, job.run_id, job.error)
        self._in_flight[job.run_id] += 1
        try:
            with context_of(_log_fields(job)):
                return await self._claim_and_perform(job, on_claimed)
        except RecursionError as error:  # it could be decoded, but is nested too deeply to be encoded
            self._log_invalid(job.run_id, error)
            return AttemptResult(AttemptOutcome.INVALID_JOB, job.run_id, "the job is nested too deeply")
        finally:
            self._in_flight[job.run_id] -= 1
            if not self._in_flight[job.run_id]:
                del self._in_flight[job.run_id]

    def _log_invalid(self, run_id: str | None, cause: Exception | None) -> None:
        fields = {
            "subject": self._delivery.subject,
            "run_id": run_id,
            "reason": AttemptOutcome.INVALID_JOB.value,
        }
        log.error("invalid job", exc_info=cause, extra=fields | _INVALID_JOB)

    def _is_only_one(self, run_id: str) -> bool:
        """Called late: an attempt that began after this one may have claimed the run meanwhile."""
        return self._in_flight[run_id] == 1

    async def _claim_and_perform(self, job: Job, on_claimed: Callable[[str, int], None]) -> AttemptResult:
        monitor = AttemptMonitor(self._store, self._delivery, job.run_id, self._lease)
        async with monitor:
            claimed = await claim(
                self._store, self._delivery, job, self._claimant, is_only_one=self._is_only_one
            )
            if isinstance(claimed, NotOurs):
                if claimed.over is not None:
                    await self._note_owed_letter(claimed.over.run)
                return AttemptResult(claimed.outcome, claimed.run_id, claimed.error)
            self.claimed_run_id = job.run_id
            on_claimed(job.run_id, claimed.fence)
            recorder = Recorder(self._store, claimed.stored, monitor.on_refused)
            recorder.begin()
            # This worker holds the run from here on and has to end it after any error: no other worker would.
            try:
                ending = await self._performer.perform(claimed, recorder, monitor, self._place)
                self._place.release()  # early: its code has returned
                return await self._conclude(ending, recorder, monitor)
            finally:
                await recorder.close()

    async def _conclude(self, ending: Ending, recorder: Recorder, monitor: AttemptMonitor) -> AttemptResult:
        """Commit the end. If a cancel was requested before, the run ends CANCELLED."""
        fence, run_id = ending.fence, recorder.stored.run.run_id
        if recorder.broken is not None:
            unwritable = FailRun(fence=fence, reason=EXECUTION_ERROR, error=recorder.broken)
            refused = await recorder.conclude_alone(unwritable)
        elif monitor.is_cancelled:
            refused = Reason.CANCEL_REQUESTED
        else:
            refused = recorder.refused or await recorder.conclude(ending)
        if refused is Reason.CANCEL_REQUESTED:
            refused = await recorder.conclude_alone(ConfirmCancelled(fence=fence))
        if refused is not None:
            fields = {"run_id": run_id, "fence": fence, "reason": refused}
            log.warning("the run was taken over; nothing of ours was written", extra=fields)
            return AttemptResult(AttemptOutcome.TAKEN_OVER, run_id)
        await recorder.snapshot.flush()
        return _log_and_describe(recorder.stored, recorder.cause)

    async def _settle(self, ended: AttemptResult) -> None:
        reply = disposition(ended.outcome)
        if self._wants(reply.letter) and not await self._store_letter(reply.letter, ended):
            reply = self._retry_for_letter(reply)
        match reply.action:
            case Action.ACK:
                self._delivery.ack()
            case Action.NAK:
                run_id = run_id_in(self._delivery.data)
                await give_back(self._store, self._delivery, run_id, reply.delay_sec)
            case Action.TERM:
                self._delivery.term()
            case Action.NOTHING:
                pass

    def _wants(self, letter: str | None) -> TypeGuard[str]:
        return letter is not None and (
            letter != EXECUTION_ERROR or self._store.config.dlq_publish_execution_error
        )

    async def _note_owed_letter(self, run: Run) -> None:
        """The job was delivered again after its run had failed: the letter may not have been written."""
        reason = letter_reason(run)
        is_of_this_job = self._delivery.job_no in (None, run.job_no)
        if run.status is RunStatus.FAILED and not run.gone and is_of_this_job and self._wants(reason):
            await self._store.owed_letters.note(run.run_id, reason)

    async def _store_letter(self, reason: str, ended: AttemptResult) -> bool:
        """True: it is stored, or noted so that housekeeping writes it."""
        if await self._send_letter(reason, ended):
            return True
        if ended.stored is None:
            return False
        try:
            await self._store.owed_letters.note(ended.stored.run.run_id, reason)
        except Unavailable:
            return False
        return True

    def _retry_for_letter(self, reply: Disposition) -> Disposition:
        """Only this delivery shows that a letter is owed, so it is delivered again, up to the last time."""
        if self._delivery.num_delivered >= self._store.config.consumer_max_deliver:
            return reply
        return Disposition(Action.NAK, NAK_LETTER_SEC)

    async def _send_letter(self, reason: str, ended: AttemptResult) -> bool:
        run = ended.stored.run if ended.stored else None
        tag = self._delivery.subject.rsplit(".", 1)[-1]
        letter = DeadLetter(
            timestamp=clock.now(),
            reason=reason,
            error=(ended.error or "")[:ERROR_CHARS_MAX] or None,
            run_id=ended.run_id,
            flow_name=run.flow_name if run else None,
            tag=run.tag if run else tag,
            tags=list(run.tags) if run else None,
            worker_id=self._claimant.worker_id,
            num_delivered=self._delivery.num_delivered,
            subject=self._delivery.subject,
            payload=payload_text(self._delivery.data),
        )
        # The same delivery always has the same letter id; another message has another one.
        letter_id = f"{run.run_id}.{reason}.{run.job_no}" if run else f"{self._delivery.sequence}.{reason}"
        return await self._store.dead_letters.publish(letter, letter_id=letter_id)


def _log_fields(job: Job) -> dict[str, str | None]:
    """The fields of every log line of this attempt."""
    return {
        "run_id": job.run_id,
        "flow_name": job.flow_name,
        "tag": job.tag,
        "correlation_id": job.correlation_id,
        "traceparent": job.traceparent,
    }


def _log_and_describe(stored: StoredRun, cause: dict[str, object] | None) -> AttemptResult:
    run = stored.run
    if run.parked:
        return AttemptResult(AttemptOutcome.PARKED, run.run_id, stored=stored)
    if not run.is_terminal:
        return AttemptResult(AttemptOutcome.HANDED_BACK, run.run_id, stored=stored)
    outcome = AttemptOutcome(run.status.value.lower())
    if outcome is AttemptOutcome.FAILED:
        if run.reason == FLOW_NOT_FOUND:
            outcome = AttemptOutcome.FLOW_NOT_FOUND
        number = "0006" if outcome is AttemptOutcome.FLOW_NOT_FOUND else "0007"
        fields = {"run_id": run.run_id, "flow_name": run.flow_name, "tag": run.tag, "error": run.error}
        fields |= {"reason": run.reason, "task": run.failed_task}
        ids = {"err_id": f"ERR-PYOCO-{number}", "msg_id": f"MSG-PYOCO-{number}"}
        log.error("run failed", extra=fields | ids | (cause or {}))
    return AttemptResult(outcome, run.run_id, run.error, stored)


async def give_back(store: Store, delivery: Delivery, run_id: str | None, delay_sec: float) -> None:
    """NAK the delivery, or ACK it if a new job of the same run has replaced it.

    The broker delivers a message at most MaxDeliver times and keeps it afterwards. Deliveries that failed
    because of the broker must not fail the run: only losses of workers count, and those are in its log.
    """
    if await _is_replaced(store, delivery, run_id):
        delivery.ack()
    else:
        delivery.nak(delay_sec)


async def _is_replaced(store: Store, delivery: Delivery, run_id: str | None) -> bool:
    """True: a new job was published, or the run needs none."""
    if delivery.num_delivered < store.config.consumer_max_deliver - 1 or run_id is None:
        return False
    try:
        stored = await store.runs.load(run_id, at_leader=True)
        if stored is None:
            return False
        job_no = delivery.job_no or stored.run.job_no
        applied = await apply(store, run_id, RequeueRun(job_no=job_no, reason="its job was worn out"))
    except Unavailable:
        return False
    # A claimed run: its loss would publish a new job. An ended run or another number: nothing to do.
    return applied.refused is None or applied.refused.reason is not Reason.UNKNOWN
