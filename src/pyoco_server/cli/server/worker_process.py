"""The worker of `pyoco-server up`: a separate process, because user code never runs in the gateway's process.

It is restarted when it ends, with growing delays. It always ends with this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time

from pyoco_server.cli.server.up_plan import WorkerPlan
from pyoco_server.cli.settings import Settings
from pyoco_server.config import environment_with
from pyoco_server.processes.lifeline import die_with_parent, guard_where_needed
from pyoco_server.supervision import Backoff, Loop, wait_for_event

log = logging.getLogger(__name__)

BACKOFF = Backoff(first_sec=1.0, longest_sec=10.0, jitter=0.0)
STABLE_AFTER_SEC = 30.0
# After its drain: time to deregister at the broker.
STOP_GRACE_SEC = 5.0
REFUSED_CODE = 1


class WorkerProcess:
    """`refused` is set when it ends at once with exit code 1: it printed why; a restart would not help."""

    def __init__(self, plan: WorkerPlan, settings: Settings, *, drain_sec: float) -> None:
        self._command = command_for(plan)
        self._environment = environment_with(settings)
        self._stop_within_sec = drain_sec + STOP_GRACE_SEC
        self._stopping = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._failures = 0
        self._watching = Loop("worker process", self._watch)
        self.refused = asyncio.Event()

    async def start(self) -> None:
        self._process = await self._spawn()
        self._watching.start()
        self._watching.wake()

    async def stop(self) -> None:
        """Terminate it, and kill it after a grace period. Callable twice, and before start."""
        self._stopping.set()
        await self._end_process()
        await self._watching.stop()
        await self._end_process()  # a new process, if the loop was just starting one

    async def _end_process(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(self._stop_within_sec):
                await process.wait()
        except TimeoutError:
            log.warning("worker did not stop in time and is killed", extra={"pid": process.pid})
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _spawn(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.DEVNULL,
            env=self._environment,
            start_new_session=True,  # Ctrl-C reaches `up` only, which stops the worker in its order
            preexec_fn=die_with_parent(),
        )

    async def _watch(self) -> None:
        """Wait for the end of one process, and start the next."""
        assert self._process is not None
        begun = time.monotonic()
        code = await _wait_until_ended(self._process)
        lived_sec = time.monotonic() - begun
        if self._stopping.is_set():
            return
        if code == REFUSED_CODE and self._failures == 0 and lived_sec < STABLE_AFTER_SEC:
            self.refused.set()
            return
        if lived_sec >= STABLE_AFTER_SEC:
            self._failures = 0
        log.warning("worker ended and is restarted", extra={"pid": self._process.pid, "exit_code": code})
        if await self._back_off():
            self._failures += 1
            self._process = await self._spawn()
            self._watching.wake()

    async def _back_off(self) -> bool:
        """Wait by the number of failures; False if `stop` is called meanwhile."""
        return not await wait_for_event(self._stopping, BACKOFF.after(self._failures))


def command_for(plan: WorkerPlan) -> list[str]:
    """-P keeps the current folder out of imports. Settings are not arguments: any user can list those."""
    command = [sys.executable, "-P", "-m", "pyoco_server.cli.worker.main"]
    command += ["--worker-id", plan.worker_id, "--tags", ",".join(plan.tags)]
    return command + (["--flow-resolver", plan.flow_resolver] if plan.flow_resolver else ["--demo"])


async def _wait_until_ended(process: asyncio.subprocess.Process) -> int:
    guard = guard_where_needed(process.pid)
    try:
        return await process.wait()
    finally:
        if guard is not None:
            guard.release()
