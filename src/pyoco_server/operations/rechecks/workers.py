"""Executes batches as runs on the workers of this installation."""

from __future__ import annotations

import asyncio
import json

from pyoco_server import clock
from pyoco_server.errors import NotFound
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.operations.rechecks.context import EndedBatch, NotEnded
from pyoco_server.operations.runs.result import whole_result
from pyoco_server.operations.runs.submit import Submission, submit
from pyoco_server.recheck.records import Batch, Request, run_id_of
from pyoco_server.store.runs.results import ResultDamaged
from pyoco_server.store.store import Store

# Larger outputs are parsed in a thread, so that other requests are not delayed.
ASIDE_BYTES = 256 * 1024


# A broker that was cut off from its cluster answers reads from an old state for ten seconds, and a gateway
# needs some more time to leave it. The outcome of a batch is final, so a missing result is retried this long.
OLD_READ_SEC_MAX = 60.0


class OwnWorkers:
    ask_every_sec: float | None = None

    def __init__(self, store: Store) -> None:
        self._store = store

    async def start(self, request: Request, number: int, batch: Batch) -> None:
        run_id = run_id_of(request.request_id, number)
        wanted = Submission(
            run_id=run_id,
            flow_name=batch.flow,
            params=flow_params(request, batch),
            tenant_id=request.run_tenant,
            api_key_id=request.run_api_key_id or request.client_id,
            correlation_id=request.correlation_id or request.request_id,
            traceparent=request.traceparent,
        )
        # The id of the commit is derived from that of the run, so a second try completes the first one.
        await submit(self._store, wanted, commit_id=run_id.replace("-", ""))

    async def read_end(self, run_id: str) -> EndedBatch | NotEnded:
        stored = await self._store.runs.load(run_id, at_leader=True, whole=True)
        if stored is None:
            return NotEnded.MISSING
        if not (stored.run.is_terminal or stored.run.gone):
            return NotEnded.RUNNING
        run = stored.run
        at = run.ended_at or run.updated_at or clock.now()
        if run.gone or run.ended is not RunStatus.COMPLETED:
            return EndedBatch(at, error=_why(run))
        try:
            return EndedBatch(at, output=await _parse(await whole_result(self._store, run)))
        except (NotFound, ResultDamaged) as missing:
            if self._store.has_copies and clock.now() - at < OLD_READ_SEC_MAX:
                return NotEnded.RUNNING  # a broker that was cut off may not have the result yet
            return EndedBatch(at, error=missing.message)

    async def stop(self) -> None:
        return None


def flow_params(request: Request, batch: Batch) -> dict[str, object]:
    """The parameters of a flow that evaluates a batch."""
    return {
        "request_id": request.request_id,
        "strategies": list(batch.strategies),
        "window": request.window,
        "reason": request.reason,
        "params": request.params,
        "trace_id": request.trace_id,
        "client_id": request.client_id,
    }


def _why(run: Run) -> str:
    if run.gone:
        return "the run was erased"
    return (
        f"the run was cancelled: {run.cancel.reason or ''}" if run.cancel else f"the run failed: {run.error}"
    )


async def _parse(text: bytes) -> object:
    try:
        return json.loads(text) if len(text) < ASIDE_BYTES else await asyncio.to_thread(json.loads, text)
    except (ValueError, RecursionError):
        return None
