"""Execute runs in threads of this process: for programs that have a worker inside them.

A thread cannot be stopped. After the grace of a cancel it is left behind, and what it returns is ignored.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from pyoco.core.models import Flow, RunContext

from pyoco_server.config import NatsBackendConfig
from pyoco_server.engine import Engine, OutcomeStatus
from pyoco_server.engine import RunOutcome as Performed
from pyoco_server.engine.tasks.current_attempt import CurrentAttempt
from pyoco_server.engine.tasks.failure import describe
from pyoco_server.lifecycle.commands import CompleteRun, FailRun, ParkRun
from pyoco_server.worker.attempt.claim import Claimed
from pyoco_server.worker.attempt.monitor import AttemptMonitor
from pyoco_server.worker.attempt.reasons import EXECUTION_ERROR, FLOW_CHANGED, cause_of, said, why_unresolved
from pyoco_server.worker.flows.changes import lost_wait, why_lost
from pyoco_server.worker.flows.source import FlowSource
from pyoco_server.worker.performer import Ending, NotNow, metadata_of
from pyoco_server.worker.recording.listener import CommandListener
from pyoco_server.worker.recording.recorder import Recorder
from pyoco_server.worker.recording.values import results_from
from pyoco_server.worker.stdout_tee import end_of, listen_to, stop_listening
from pyoco_server.worker.wheels.imports import swap_edition

log = logging.getLogger(__name__)

FlowResolver = Callable[[str], Flow]

THREADS_MAX = 256
LEAVE_SEC = 1.0


class Threads:
    def __init__(self, config: NatsBackendConfig, resolver: FlowResolver) -> None:
        self._config = config
        self._resolver = resolver
        self._flows = FlowSource(resolver)
        self._path: Path | None = None
        self._running = 0  # without those that were left behind
        self._left_behind = 0
        self._executor = ThreadPoolExecutor(max_workers=THREADS_MAX, thread_name_prefix="pyoco-run")

    async def start(self, path: Path | None = None) -> None:
        """Threads start when they are needed."""
        await self.renew(path)

    async def renew(self, path: Path | None = None) -> None:
        """Only the wheels: the flows were loaded by the program that contains this worker."""
        if path is None or path == self._path:
            return
        if self._running:
            raise NotNow
        swap_edition(self._path, path)
        self._path = path
        self._flows = FlowSource(self._resolver)

    @property
    def problem(self) -> str | None:
        if self._running + self._left_behind < THREADS_MAX:
            return None
        return f"all {THREADS_MAX} threads are occupied by runs that did not stop"

    def on_change(self, act: Callable[[], None]) -> None:
        """Nothing to do: the worker reads `problem` with each heartbeat."""

    @property
    def flows(self) -> dict[str, str]:
        return self._flows.announced

    @property
    def flow_params(self) -> dict[str, list[dict[str, Any]]]:
        """Not inspected: the resolver is part of the program, and is called for runs only."""
        return {}

    @property
    def paths_in_use(self) -> AbstractSet[Path]:
        return {self._path} if self._path is not None else set()

    async def hand_back(self) -> None:
        """A thread cannot be stopped: its run is reported lost when this worker's lease expires."""

    async def close(self) -> None:
        swap_edition(self._path, None)
        self._path = None
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def perform(self, claimed: Claimed, recorder: Recorder, monitor: AttemptMonitor) -> Ending:
        listener = CommandListener(recorder.report, partial(end_of, claimed.stored.run.run_id))
        listener.begin(claimed.numbering, self._config.result_max_bytes)
        engine = Engine(
            parallelism=self._config.flow_parallelism, listener=listener, may_start=monitor.may_start
        )
        monitor.begin(engine, recorder)
        loop = asyncio.get_running_loop()
        self._running += 1
        performing = loop.run_in_executor(self._executor, self._execute, engine, recorder, claimed)
        try:
            either: list[asyncio.Future[Any]] = [performing, monitor.abandoned]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not performing.done():
                # The engine returns at once when it is abandoned; code that is being loaded does not.
                await asyncio.wait([performing], timeout=LEAVE_SEC)
            if not performing.done():
                self._leave_behind(performing)
                return FailRun(fence=claimed.fence, reason=EXECUTION_ERROR, error="The run did not stop.")
            return performing.result()
        except Exception as error:  # a defect of the engine: the run must not stay RUNNING
            log.exception(
                "engine broke", extra={"run_id": claimed.stored.run.run_id, "err_id": "ERR-PYOCO-0007"}
            )
            return FailRun(fence=claimed.fence, reason=EXECUTION_ERROR, error=said(error))
        finally:
            self._running -= 1
            monitor.detach_engine()

    def _leave_behind(self, performing: asyncio.Future[Ending]) -> None:
        self._left_behind += 1

        def on_return(done: asyncio.Future[Ending]) -> None:
            self._left_behind -= 1
            if not done.cancelled():
                done.exception()  # the run has ended without it

        performing.add_done_callback(on_return)

    def _execute(self, engine: Engine, recorder: Recorder, claimed: Claimed) -> Ending:
        """In a thread of its own: resolving is user code too, and may import for a second."""
        run = claimed.stored.run
        try:
            flow = self._flows.flow(
                run.flow_name,
                claimed.submission.workflow_yaml,
                self._config.callable_packages,
                self._config.flow_env_names,
            )
        except (Exception, SystemExit) as error:  # user code: what it raises ends the run
            recorder.cause = cause_of(describe(error))
            return _unresolved(claimed, error)
        if (lost := lost_wait(flow, claimed.awaited)) is not None:
            return FailRun(fence=claimed.fence, reason=FLOW_CHANGED, error=why_lost(lost), task=lost)
        performed = self._run(engine, flow, recorder, claimed)
        recorder.cause = cause_of(performed.cause)
        return _ending(performed, claimed.fence)

    def _run(self, engine: Engine, flow: Flow, recorder: Recorder, claimed: Claimed) -> Performed:
        run = claimed.stored.run
        context = RunContext(run_id=run.run_id, flow_name=run.flow_name)
        context.metadata |= metadata_of(claimed)
        numbering = claimed.numbering

        def hear(at: float, stream: str, who: CurrentAttempt, lines: list[str], level: str | None) -> None:
            attempt = numbering.attempt_no(who.task, who.attempt)
            recorder.add_lines(at, stream, who.task, attempt, lines, level)

        listen_to(run.run_id, hear)
        try:
            return engine.run(
                flow,
                run.params,
                context,
                recorded=results_from(claimed.recorded),
                failures=claimed.failures,
                timeout_sec=getattr(flow, "timeout_sec", None) or self._config.run_timeout_sec or None,
            )
        finally:
            stop_listening(run.run_id)


def _unresolved(claimed: Claimed, error: BaseException) -> FailRun:
    reason, text = why_unresolved(claimed.stored.run.flow_name, error)
    return FailRun(fence=claimed.fence, reason=reason, error=text)


def _ending(performed: Performed, fence: int) -> Ending:
    error, task = performed.error, performed.failed_task
    return ending_of(performed.status, fence, EXECUTION_ERROR, error, task, performed.waiting)


def ending_of(
    status: OutcomeStatus,
    fence: int,
    reason: str,
    error: str | None,
    task: str | None,
    waiting: Sequence[str] = (),
) -> Ending:
    match status:
        case OutcomeStatus.COMPLETED:
            return CompleteRun(fence=fence)
        case OutcomeStatus.CANCELLED | OutcomeStatus.ABANDONED:
            # Stopped because of a cancel or a takeover, which then refuses this; or by its own code.
            text = "The run was stopped from inside, without a cancel having been asked for."
            return FailRun(fence=fence, reason=EXECUTION_ERROR, error=text)
        case OutcomeStatus.PARKED:
            return ParkRun(fence=fence, waiting=list(waiting))
        case OutcomeStatus.FAILED:
            return FailRun(fence=fence, reason=reason, error=error or "the flow failed", task=task)
