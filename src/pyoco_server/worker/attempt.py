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
from pyoco_server.errors import Unavailable
from pyoco_server.lifecycle.commands import Command, CompleteRun, ConfirmCancelled, FailRun
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.operations.apply import apply
from pyoco_server.store.dlq import ERROR_CHARS_MAX, DeadLetter, payload_text
from pyoco_server.store.queue import Delivery
from pyoco_server.store.runs import StoredRun
from pyoco_server.store.store import Store
from pyoco_server.worker.claim import Claimant, Claimed, NotOurs, claim, fail_unreadable, read_job
from pyoco_server.worker.disposition import Action, Outcome, disposition
from pyoco_server.worker.recorder import Recorder, recorded_results
from pyoco_server.worker.under_way import UnderWay

log = logging.getLogger(__name__)

FlowResolver = Callable[[str], Flow]


class Ended(NamedTuple):
    """What came of a delivery."""

    outcome: Outcome
    run_id: str | None = None
    error: str | None = None
    stored: StoredRun | None = None


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
    ) -> None:
        self._store = store
        self._delivery = delivery
        self._claimant = claimant
        self._resolver = resolver
        self._executor = executor
        self._parallelism = parallelism

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
        under_way = UnderWay(self._store, self._delivery, job.run_id)
        async with under_way:
            claimed = await claim(self._store, self._delivery, job, self._claimant)
            if isinstance(claimed, NotOurs):
                return Ended(claimed.outcome, claimed.run_id, claimed.error)
            on_claimed(job.run_id)
            return await self._performed(claimed, under_way)

    async def _performed(self, claimed: Claimed, under_way: UnderWay) -> Ended:
        run = claimed.stored.run
        try:
            flow = self._resolver(run.flow_name)
        except Exception as error:  # user code at the edge: what it raises decides the run, not the worker
            return await self._unresolved(claimed, error)
        recorder = Recorder(self._store, claimed.stored, under_way.on_refused, loops=flow.has_control_flow())
        engine = Engine(parallelism=self._parallelism, listener=recorder)
        under_way.begin(engine, recorder)
        loop = asyncio.get_running_loop()
        performed = await loop.run_in_executor(self._executor, _perform, engine, flow, claimed)
        return await self._conclude(claimed, performed, recorder, under_way)

    async def _conclude(
        self, claimed: Claimed, performed: Performed, recorder: Recorder, under_way: UnderWay
    ) -> Ended:
        """How the log says it ended: an end of ours that meets a cancel becomes CANCELLED."""
        fence = claimed.fence
        refused = recorder.refused
        if refused is None and not under_way.is_cancelled:
            refused = await recorder.conclude(_ending(performed, fence))
        elif under_way.is_cancelled:
            refused = Reason.CANCEL_REQUESTED
        if refused is Reason.CANCEL_REQUESTED:
            refused = await recorder.conclude_alone(ConfirmCancelled(fence=fence))
        if refused is not None:
            fields = {"run_id": claimed.stored.run.run_id, "fence": fence, "reason": refused}
            log.warning("the run was taken over; nothing of ours was written", extra=fields)
            return Ended(Outcome.TAKEN_OVER, claimed.stored.run.run_id)
        await recorder.projected()
        return _ended(recorder.stored, performed)

    async def _unresolved(self, claimed: Claimed, error: Exception) -> Ended:
        name = claimed.stored.run.flow_name
        known = not isinstance(error, KeyError)
        outcome = Outcome.FAILED if known else Outcome.FLOW_NOT_FOUND
        text = f"{type(error).__name__}: {error}" if known else f"this worker knows no flow '{name}'"
        log.error(
            "flow not resolved",
            exc_info=error,
            extra={"run_id": claimed.stored.run.run_id, "flow_name": name, "err_id": "ERR-PYOCO-0006"},
        )
        reason = "execution_error" if known else "flow_not_found"
        ending = FailRun(fence=claimed.fence, reason=reason, error=text)
        applied = await apply(self._store, claimed.stored.run.run_id, ending, held=claimed.stored)
        if applied.refused is not None and applied.refused.reason is Reason.CANCEL_REQUESTED:
            confirm = ConfirmCancelled(fence=claimed.fence)
            applied = await apply(self._store, claimed.stored.run.run_id, confirm)
            outcome = Outcome.CANCELLED
        if applied.refused is not None:
            return Ended(Outcome.TAKEN_OVER, claimed.stored.run.run_id)
        return Ended(outcome, claimed.stored.run.run_id, text, applied.after)

    async def _settle(self, ended: Ended) -> None:
        told = disposition(ended.outcome)
        wanted = told.letter and (
            told.letter != "execution_error" or self._store.config.dlq_publish_execution_error
        )
        if wanted and told.letter:
            await self._send_letter(told.letter, ended)
        match told.action:
            case Action.ACK:
                self._delivery.ack()
            case Action.NAK:
                self._delivery.nak(told.delay_sec)
            case Action.TERM:
                self._delivery.term()
            case Action.NOTHING:
                pass

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
        letter_id = f"{ended.run_id or self._delivery.sequence}.{reason}.{run.job_no if run else 0}"
        await self._store.dead_letters.publish(letter, letter_id=letter_id)


def _perform(engine: Engine, flow: Flow, claimed: Claimed) -> Performed:
    run = claimed.stored.run
    context = RunContext(run_id=run.run_id, flow_name=run.flow_name)
    context.metadata |= _metadata(claimed.submission, claimed.fence)
    return engine.run(flow, run.params, context, recorded=recorded_results(run))


def _metadata(submission: RunSubmitted, fence: int) -> dict[str, object]:
    return {
        "fence": fence,
        "tag": submission.tag,
        "tags": submission.tags,
        "tenant_id": submission.tenant_id,
        "api_key_id": submission.api_key_id,
        "correlation_id": submission.correlation_id,
    }


def _ending(performed: Performed, fence: int) -> Command:
    match performed.status:
        case Status.COMPLETED:
            return CompleteRun(fence=fence)
        case Status.CANCELLED | Status.ABANDONED:
            return ConfirmCancelled(fence=fence)
        case Status.FAILED:
            error = performed.error or "the flow failed"
            return FailRun(fence=fence, reason="execution_error", error=error, task=performed.failed_task)


def _ended(stored: StoredRun, performed: Performed) -> Ended:
    run = stored.run
    outcome = Outcome(run.status.value.lower())
    if outcome is Outcome.FAILED:
        fields = {"run_id": run.run_id, "flow_name": run.flow_name, "err_id": "ERR-PYOCO-0007"}
        log.error("run failed", extra=fields | {"error": run.error, "task": run.failed_task})
    return Ended(outcome, run.run_id, run.error, stored)
