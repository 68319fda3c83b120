"""Execute runs in threads of this process: for programs that contain a worker.

A thread cannot be stopped. After the grace of a cancel it is left behind, and its result is ignored.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from pyoco.core.models import Flow, RunContext

from pyoco_server.config import NatsBackendConfig
from pyoco_server.engine import Engine, RunOutcome
from pyoco_server.engine.tasks.current_attempt import CurrentAttempt
from pyoco_server.engine.tasks.failure import try_call
from pyoco_server.lifecycle.commands import FailRun
from pyoco_server.worker.attempt.claim import Claimed
from pyoco_server.worker.attempt.monitor import AttemptMonitor
from pyoco_server.worker.attempt.reasons import EXECUTION_ERROR, cause_of, error_text
from pyoco_server.worker.endings import Ending, ending_of
from pyoco_server.worker.flows.source import FlowSource, Unresolved
from pyoco_server.worker.performer import NotNow
from pyoco_server.worker.places import Place
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
        self._running = 0  # without threads that were left behind
        self._left_behind = 0
        self._executor = ThreadPoolExecutor(max_workers=THREADS_MAX, thread_name_prefix="pyoco-run")

    async def start(self, path: Path | None = None) -> None:
        """Threads start when they are needed."""
        await self.renew(path)

    async def renew(self, path: Path | None = None) -> None:
        """Only the wheels: the program that contains this worker has loaded the flows."""
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
    def flow_params(self) -> dict[str, list[dict[str, object]]]:
        """Not inspected: the resolver is part of the program, and is called for runs only."""
        return {}

    @property
    def paths_in_use(self) -> AbstractSet[Path]:
        return {self._path} if self._path is not None else set()

    @property
    def slot_pids(self) -> list[int]:
        return []

    async def hand_back(self) -> None:
        """A thread cannot be stopped: its run is reported lost when this worker's lease expires."""

    async def close(self) -> None:
        swap_edition(self._path, None)
        self._path = None
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def perform(
        self, claimed: Claimed, recorder: Recorder, monitor: AttemptMonitor, place: Place
    ) -> Ending:
        listener = CommandListener(recorder.report, partial(end_of, claimed.stored.run.run_id))
        listener.begin(claimed.numbering, self._config.result_max_bytes)
        engine = Engine(
            parallelism=self._config.flow_parallelism, listener=listener, may_start=monitor.may_start
        )
        monitor.begin(engine, recorder)
        loop = asyncio.get_running_loop()
        self._running += 1
        execute = partial(try_call, self._execute, engine, recorder, claimed, on_error=_itself)
        performing = loop.run_in_executor(self._executor, execute)
        try:
            either: list[asyncio.Future[Any]] = [performing, monitor.abandoned]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not performing.done():
                # The engine returns at once when it is abandoned; code that is being loaded does not.
                await asyncio.wait([performing], timeout=LEAVE_SEC)
            if not performing.done():
                self._leave_behind(performing)
                return FailRun(fence=claimed.fence, reason=EXECUTION_ERROR, error="The run did not stop.")
            ending = performing.result()
        finally:
            self._running -= 1
            monitor.detach_engine()
        if isinstance(ending, BaseException):  # a defect of the engine: the run must not stay RUNNING
            fields = {"run_id": claimed.stored.run.run_id, "err_id": "ERR-PYOCO-0007"}
            log.error("engine broke", exc_info=ending, extra=fields)
            return FailRun(fence=claimed.fence, reason=EXECUTION_ERROR, error=error_text(ending))
        return ending

    def _leave_behind(self, performing: asyncio.Future[Ending | BaseException]) -> None:
        self._left_behind += 1

        def on_return(done: asyncio.Future[Ending | BaseException]) -> None:
            self._left_behind -= 1
            if not done.cancelled():
                done.exception()  # the run has ended without it

        performing.add_done_callback(on_return)

    def _execute(self, engine: Engine, recorder: Recorder, claimed: Claimed) -> Ending:
        """In a thread: resolving calls user code too, and may import for a second."""
        config, submission = self._config, claimed.submission
        flow = self._flows.resolve(
            claimed.stored.run.flow_name,
            submission.workflow_yaml,
            config.callable_packages,
            config.flow_env_names,
            claimed.awaited,
        )
        if isinstance(flow, Unresolved):
            recorder.cause = flow.cause
            return FailRun(fence=claimed.fence, reason=flow.reason, error=flow.error, task=flow.task)
        outcome = self._run(engine, flow, recorder, claimed)
        recorder.cause = cause_of(outcome.cause)
        return ending_of(
            outcome.status,
            claimed.fence,
            EXECUTION_ERROR,
            outcome.error,
            outcome.failed_task,
            outcome.waiting,
        )

    def _run(self, engine: Engine, flow: Flow, recorder: Recorder, claimed: Claimed) -> RunOutcome:
        run = claimed.stored.run
        context = RunContext(run_id=run.run_id, flow_name=run.flow_name)
        context.metadata |= claimed.metadata
        numbering = claimed.numbering

        def add_lines(
            at: float, stream: str, current: CurrentAttempt, lines: list[str], level: str | None
        ) -> None:
            attempt = numbering.attempt_no(current.task, current.attempt)
            recorder.add_lines(at, stream, current.task, attempt, lines, level)

        listen_to(run.run_id, add_lines)
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


def _itself(error: BaseException) -> BaseException:
    """Logged in the task that waits, with its fields."""
    return error
