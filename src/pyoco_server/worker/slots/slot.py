"""One slot, seen from the worker: its process, its link, and the run that it executes.

It is born with a process group of its own, so that killing it takes along whatever user code has started;
and it dies with us, by PDEATHSIG and because its link ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable

import msgspec

from pyoco_server.broker import die_with_parent
from pyoco_server.engine import Status
from pyoco_server.worker.claim import Claimed
from pyoco_server.worker.performer import Ending, metadata_of
from pyoco_server.worker.recorder import Recorder, recorded_results
from pyoco_server.worker.slots import messages as m
from pyoco_server.worker.threads import ending_of

log = logging.getLogger(__name__)

START_TIMEOUT_SEC = 60.0
# From SIGTERM to SIGKILL, for a process that was asked to stop and did not.
KILL_AFTER_SEC = 0.5
FRAME_BYTES_MAX = 16 * 2**20


class SlotDied(Exception):
    """Says by which signal or exit code."""


class ResolverBroken(Exception):
    """The flows cannot be loaded; the message says what to change."""


class Slot:
    def __init__(self, spec: str) -> None:
        self._spec = spec
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._killing: asyncio.TimerHandle | None = None
        self._runs = 0  # begun and ended here: odd while one is under way

    async def start(self) -> None:
        """Ready when it has loaded the resolver. Raises ResolverBroken, or SlotDied, when it cannot."""
        ours, theirs = socket.socketpair()
        module = "pyoco_server.worker.slots.child"
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", module, str(theirs.fileno()), self._spec),
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                preexec_fn=die_with_parent(),
            )
        self._reader, self._writer = await asyncio.open_connection(sock=ours, limit=FRAME_BYTES_MAX)
        async with asyncio.timeout(START_TIMEOUT_SEC):
            first = await self._next()
        if isinstance(first, m.Broken):
            raise ResolverBroken(first.error)
        assert isinstance(first, m.Ready)

    @property
    def is_free(self) -> bool:
        return self._runs % 2 == 0

    async def perform(self, claimed: Claimed, recorder: Recorder) -> Ending:
        """Execute it here. Raises SlotDied when the process ends before the run does."""
        run = claimed.stored.run
        self._runs += 1
        self._say(
            m.RunFlow(
                run_id=run.run_id,
                flow_name=run.flow_name,
                params=msgspec.json.encode(run.params),
                recorded=msgspec.json.encode(recorded_results(run)),
                metadata=metadata_of(claimed),
            )
        )
        while True:
            message = await self._next()
            if isinstance(message, m.Ended):
                self._runs += 1
                status = Status(message.status)
                return ending_of(status, claimed.fence, message.reason, message.error, message.task)
            self._pass_on(message, recorder)

    def cancel(self, run_id: str) -> None:
        with contextlib.suppress(OSError):  # it is gone, and so is what it ran
            self._say(m.Stop(run_id=run_id))

    def abandon(self, _run_id: str) -> None:
        """Cancelled and still there after the grace, or not ours any more: the process is ended."""
        self.terminate()

    def terminate(self) -> None:
        """SIGTERM, and SIGKILL for what does not heed it; the whole group, so also what it has started."""
        self._signal(signal.SIGTERM)
        if self._killing is None:
            loop = asyncio.get_running_loop()
            self._killing = loop.call_later(KILL_AFTER_SEC, self._signal, signal.SIGKILL)

    async def close(self) -> None:
        """Certain and soon: whoever calls this has nothing running here that matters."""
        self._signal(signal.SIGKILL)
        if self._killing is not None:
            self._killing.cancel()
        if self._writer is not None:
            self._writer.close()
        if self._process is not None:
            await self._process.wait()

    def _pass_on(self, message: m.FromSlot, recorder: Recorder) -> None:
        match message:
            case m.Planned():
                recorder.loops = message.loops
                recorder.planned(message.tasks)
            case m.Started():
                inputs = msgspec.json.decode(message.inputs, type=dict[str, msgspec.Raw])
                recorder.started(message.task, message.attempt, inputs, message.size)
            case m.Succeeded():
                self._pass_on_success(message, recorder)
            case m.Failed():
                recorder.task_failed(
                    message.task,
                    message.attempt,
                    message.error,
                    message.traceback,
                    message.started_at,
                    message.ended_at,
                    message.will_retry,
                )
            case m.Cancelled():
                recorder.task_cancelled(message.task)
            case m.Ready() | m.Broken() | m.Ended():
                raise AssertionError(f"{type(message).__name__} in the middle of a run")

    def _pass_on_success(self, message: m.Succeeded, recorder: Recorder) -> None:
        value = None if message.output is None else msgspec.Raw(message.output)
        size = len(message.output or b"")
        recorder.succeeded(
            message.task,
            message.attempt,
            (value, message.kept, size),
            (message.started_at, message.ended_at),
            self._acknowledging(message.number),
        )

    def _acknowledging(self, number: int) -> Callable[[], None]:
        run = self._runs

        def acknowledge() -> None:
            if self._runs != run:
                return  # over: nothing waits for it any more
            with contextlib.suppress(OSError):  # it died meanwhile: whoever waits for it hears of that
                self._say(m.Acknowledged(number=number))

        return acknowledge

    def _say(self, message: m.ToSlot) -> None:
        assert self._writer is not None
        self._writer.write(m.frame(message))

    async def _next(self) -> m.FromSlot:
        assert self._reader is not None
        try:
            (length,) = m.LENGTH.unpack(await self._reader.readexactly(m.LENGTH.size))
            return m.from_slot(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, OSError):
            # Whatever it had started has nobody left to answer to.
            self._end_group(signal.SIGKILL)
            raise SlotDied(await self._how_it_ended()) from None

    async def _how_it_ended(self) -> str:
        assert self._process is not None
        code = await self._process.wait()
        if code < 0:
            return f"its process was killed by {signal.Signals(-code).name}"
        return f"its process ended with exit code {code}"

    def _signal(self, sig: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._end_group(sig)

    def _end_group(self, sig: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, sig)
