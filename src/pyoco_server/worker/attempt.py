"""One delivery, from first byte to ACK: decode → claim → resolve → perform → conclude → settle.

The claim is a commit, the end is a commit, and the ACK is the last act. A cancel reaches us pushed, while
the flow runs; after the grace the run is CANCELLED whether or not its code has noticed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import NamedTuple

from pyoco.core.models import Flow, RunContext

from pyoco_server.engine import Engine, Status
from pyoco_server.engine import Outcome as Performed
from pyoco_server.engine.failure import describe
from pyoco_server.errors import Unavailable
from pyoco_server.lifecycle.commands import CompleteRun, ConfirmCancelled, FailRun
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.store.codec import Job
from pyoco_server.store.dlq import ERROR_CHARS_MAX, DeadLetter, payload_text
from pyoco_server.store.queue import Delivery
from pyoco_server.store.runs import StoredRun
from pyoco_server.store.store import Store
from pyoco_server.worker.claim import (
    Claimant,
    Claimed,
    NotOurs,
    claim,
    fail_unreadable,
    read_job,
    run_id_in,
)
from pyoco_server.worker.disposition import Action, Outcome, disposition
from pyoco_server.worker.recorder import Recorder, recorded_results
from pyoco_server.worker.under_way import UnderWay
from pyoco_server.worker.worn_out import has_no_duty_left

log = logging.getLogger(__name__)

FlowResolver = Callable[[str], Flow]
Ending = CompleteRun | FailRun

FLOW_NOT_FOUND = Outcome.FLOW_NOT_FOUND.value
EXECUTION_ERROR = "execution_error"


class Ended(NamedTuple):
    """What came of a delivery."""

    outcome: Outcome
    run_id: str | None = None
    error: str | None = None
    stored: StoredRun | None = None

    @property
    def status(self) -> str | None:
        """How the run stands, where this delivery had a part in it."""
        return self.stored.run.status.value if self.stored else None


class Attempt:
    def __init__(
        self,
        store: Store,
        delivery: Delivery,
        *,
        claimant: Claimant,
        resolver: FlowResolver,
        executor: Executor,
        parallelism: int,
        in_hand: set[str],
    ) -> None:
        self._store = store
        self._delivery = delivery
        self._claimant = claimant
        self._resolver = resolver
        self._executor = executor
        self._parallelism = parallelism
        self._in_hand = in_hand
        self.claimed_run_id: str | None = None

    async def run(self, on_claimed: Callable[[str], None]) -> Ended:
        try:
            ended = await self._handled(on_claimed)
        except Unavailable as error:
            log.warning("broker trouble", extra={"error": error.message, "err_id": error.err_id})
            ended = Ended(Outcome.BROKER_TROUBLE, error=error.message)
        await self._settle(ended)
        return ended

    async def _handled(self, on_claimed: Callable[[str], None]) -> Ended:
        job = read_job(self._delivery)
        if isinstance(job, NotOurs):
            if job.run_id is not None:
                await fail_unreadable(self._store, job.run_id, job.error or "", self._claimant)
            return Ended(job.outcome, job.run_id, job.error)
        is_only_one = job.run_id not in self._in_hand
        self._in_hand.add(job.run_id)
        try:
            return await self._attempted(job, on_claimed, is_only_one=is_only_one)
        except RecursionError:  # just readable, and too deep to be written a few calls further down
            return Ended(Outcome.INVALID_JOB, job.run_id, "the job is nested too deeply")
        finally:
            if is_only_one:
                self._in_hand.discard(job.run_id)

    async def _attempted(self, job: Job, on_claimed: Callable[[str], None], *, is_only_one: bool) -> Ended:
        under_way = UnderWay(self._store, self._delivery, job.run_id)
        async with under_way:
            claimed = await claim(self._store, self._delivery, job, self._claimant, is_only_one=is_only_one)
            if isinstance(claimed, NotOurs):
                return Ended(claimed.outcome, claimed.run_id, claimed.error)
            self.claimed_run_id = job.run_id
            on_claimed(job.run_id)
            recorder = Recorder(self._store, claimed.stored, under_way.on_refused)
            ending = await self._performed(claimed, recorder, under_way)
            return await self._conclude(ending, recorder, under_way)

    async def _performed(self, claimed: Claimed, recorder: Recorder, under_way: UnderWay) -> Ending:
        """From here on the run is ours: whatever goes wrong is its end, for nobody else would end it."""
        run = claimed.stored.run
        engine = Engine(parallelism=self._parallelism, listener=recorder)
        under_way.begin(engine, recorder)
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(
                self._executor, _perform, engine, self._resolver, recorder, claimed
            )
        except Exception as error:  # the engine promises not to; if it does, the run must not stay RUNNING
            log.exception("engine broke", extra={"run_id": run.run_id, "err_id": "ERR-PYOCO-0007"})
            return FailRun(fence=claimed.fence, reason=EXECUTION_ERROR, error=_said(error))

    async def _conclude(self, ending: Ending, recorder: Recorder, under_way: UnderWay) -> Ended:
        """How the log says it ended: an end of ours that meets a cancel becomes CANCELLED."""
        fence, run_id = ending.fence, recorder.stored.run.run_id
        if recorder.broken is not None:
            unwritable = FailRun(fence=fence, reason=EXECUTION_ERROR, error=recorder.broken)
            refused = await recorder.conclude_alone(unwritable)
        elif under_way.is_cancelled:
            refused = Reason.CANCEL_REQUESTED
        else:
            refused = recorder.refused or await recorder.conclude(ending)
        if refused is Reason.CANCEL_REQUESTED:
            refused = await recorder.conclude_alone(ConfirmCancelled(fence=fence))
        if refused is not None:
            fields = {"run_id": run_id, "fence": fence, "reason": refused}
            log.warning("the run was taken over; nothing of ours was written", extra=fields)
            return Ended(Outcome.TAKEN_OVER, run_id)
        await recorder.projected()
        return _ended(recorder.stored)

    async def _settle(self, ended: Ended) -> None:
        told = disposition(ended.outcome)
        wanted = told.letter and (
            told.letter != EXECUTION_ERROR or self._store.config.dlq_publish_execution_error
        )
        if wanted and told.letter:
            await self._send_letter(told.letter, ended)
        match told.action:
            case Action.ACK:
                self._delivery.ack()
            case Action.NAK:
                await self._give_back(told.delay_sec)
            case Action.TERM:
                self._delivery.term()
            case Action.NOTHING:
                pass

    async def _give_back(self, delay_sec: float) -> None:
        run_id = run_id_in(self._delivery.data)
        if await has_no_duty_left(self._store, self._delivery, run_id):
            self._delivery.ack()
        else:
            self._delivery.nak(delay_sec)

    async def _send_letter(self, reason: str, ended: Ended) -> None:
        run = ended.stored.run if ended.stored else None
        tag = self._delivery.subject.rsplit(".", 1)[-1]
        letter = DeadLetter(
            timestamp=time.time(),
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
        # Sent again for the same delivery it is the same letter; another message has one of its own.
        letter_id = f"{run.run_id}.{reason}.{run.job_no}" if run else f"{self._delivery.sequence}.{reason}"
        await self._store.dead_letters.publish(letter, letter_id=letter_id)


def _perform(engine: Engine, resolver: FlowResolver, recorder: Recorder, claimed: Claimed) -> Ending:
    """In a thread of its own: resolving is user code too, and may import for a second."""
    run = claimed.stored.run
    try:
        flow = resolver(run.flow_name)
        recorder.loops = flow.has_control_flow()
    except (Exception, SystemExit) as error:  # user code at the edge: it decides the run, not the worker
        return _unresolved(claimed, error)
    context = RunContext(run_id=run.run_id, flow_name=run.flow_name)
    context.metadata |= _metadata(claimed.submission, claimed.fence)
    performed = engine.run(flow, run.params, context, recorded=recorded_results(run))
    return _ending(performed, claimed.fence)


def _metadata(submission: RunSubmitted, fence: int) -> dict[str, object]:
    return {
        "fence": fence,
        "tag": submission.tag,
        "tags": submission.tags,
        "tenant_id": submission.tenant_id,
        "api_key_id": submission.api_key_id,
        "correlation_id": submission.correlation_id,
    }


def _unresolved(claimed: Claimed, error: BaseException) -> FailRun:
    run, unknown = claimed.stored.run, isinstance(error, KeyError)
    log.error(
        "flow not resolved",
        exc_info=error,
        extra={"run_id": run.run_id, "flow_name": run.flow_name, "err_id": "ERR-PYOCO-0006"},
    )
    if unknown:
        text = f"this worker knows no flow '{run.flow_name}'"
        return FailRun(fence=claimed.fence, reason=FLOW_NOT_FOUND, error=text)
    return FailRun(fence=claimed.fence, reason=EXECUTION_ERROR, error=_said(error))


def _said(error: BaseException) -> str:
    """Of bounded size and always writable, whatever user code raised."""
    return f"{type(error).__name__}: {describe(error).error}"


def _ending(performed: Performed, fence: int) -> Ending:
    match performed.status:
        case Status.COMPLETED:
            return CompleteRun(fence=fence)
        case Status.CANCELLED | Status.ABANDONED:
            # Stopped because of a cancel or a takeover, which then refuses this; or by its own code.
            error = "The run was stopped from inside, without a cancel having been asked for."
            return FailRun(fence=fence, reason=EXECUTION_ERROR, error=error)
        case Status.FAILED:
            error = performed.error or "the flow failed"
            return FailRun(fence=fence, reason=EXECUTION_ERROR, error=error, task=performed.failed_task)


def _ended(stored: StoredRun) -> Ended:
    run = stored.run
    outcome = Outcome(run.status.value.lower())
    if outcome is Outcome.FAILED:
        fields = {"run_id": run.run_id, "flow_name": run.flow_name, "err_id": "ERR-PYOCO-0007"}
        log.error("run failed", extra=fields | {"error": run.error, "task": run.failed_task})
        if run.reason == FLOW_NOT_FOUND:
            outcome = Outcome.FLOW_NOT_FOUND
    return Ended(outcome, run.run_id, run.error, stored)
