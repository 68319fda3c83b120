"""One slot, on the worker's side: its process, its link, and the run that it executes.

The process has a process group of its own, so that killing the group also ends the processes that user code
has started. `processes` makes it. It ends with the worker: its link closes, and a guard kills its group.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from pyoco_server import clock
from pyoco_server.config import NatsBackendConfig
from pyoco_server.engine import OutcomeStatus, WaitAnswer
from pyoco_server.lifecycle.commands import FailTask, SkipTask, StartTask, SucceedTask
from pyoco_server.lifecycle.status import LossCause
from pyoco_server.printable import one_line
from pyoco_server.worker.attempt.claim import Claimed
from pyoco_server.worker.performer import Ending, ending_of
from pyoco_server.worker.recording.recorder import Recorder
from pyoco_server.worker.slots import messages as m
from pyoco_server.worker.slots.edition import Edition, ResolverBroken, SlotDied
from pyoco_server.worker.slots.link import Link, PipeReader
from pyoco_server.worker.slots.processes import START_TIMEOUT_SEC, SlotProcess, SlotProcesses
from pyoco_server.worker.wheels.folder import tenant_place

log = logging.getLogger(__name__)

# From SIGTERM to SIGKILL, for a process that was asked to stop and did not.
KILL_AFTER_SEC = 0.5


class Slot:
    """`on_end`: its process has ended between two runs."""

    def __init__(
        self,
        config: NatsBackendConfig,
        processes: SlotProcesses,
        edition: Edition,
        on_end: Callable[[], None],
    ) -> None:
        self._config = config
        self._processes = processes
        self.edition = edition
        self._on_idle_end = on_end
        self.tenant: str | None = None
        self.flows: dict[str, str] = {}
        self.flow_params: dict[str, list[dict[str, Any]]] = {}
        self._process: SlotProcess | None = None
        self._link = Link(self._on_message, self._on_end)
        self._pipes = [PipeReader(stream, self._on_lines) for stream in ("stdout", "stderr")]
        self._killing: asyncio.TimerHandle | None = None
        self.is_usable = True
        self._is_closing = False
        self._runs = 0  # starts and ends of runs: odd while one is in flight
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._execution: _Execution | None = None

    async def start(self) -> None:
        """Returns when the resolver is loaded. Raises ResolverBroken or SlotDied if that fails."""
        outputs = [pipe.writer for pipe in self._pipes]
        self._process, link = await self._processes.start(self.edition, outputs)
        for pipe in self._pipes:
            pipe.open()
        with suppress(ConnectionError):  # it has ended already; the link reports it
            link.send(m.GO_ON)  # its group is guarded now
        await asyncio.get_running_loop().create_connection(lambda: self._link, sock=link)
        async with asyncio.timeout(START_TIMEOUT_SEC):
            await self._ready

    @property
    def is_free(self) -> bool:
        return self._runs % 2 == 0

    def is_alive(self) -> bool:
        assert self._process is not None
        return self.is_usable and self._process.is_alive()

    @property
    def is_unused(self) -> bool:
        return self._runs == 0

    async def perform(self, claimed: Claimed, recorder: Recorder) -> Ending:
        """Execute the run. Raises SlotDied if the process ends before the run does."""
        run, numbering = claimed.stored.run, claimed.numbering
        self._runs += 1
        execution = self._execution = _Execution(recorder, self._link)
        self._link.send(
            m.RunFlow(
                run_id=run.run_id,
                fence=numbering.fence,
                attempts=dict(numbering.attempts),
                flow_name=run.flow_name,
                params=msgspec.json.encode(run.params),
                recorded=claimed.recorded,
                metadata=claimed.metadata,
                result_bytes_max=self._config.result_max_bytes,
                timeout_sec=self._config.run_timeout_sec or None,
                workflow_yaml=claimed.submission.workflow_yaml,
                callable_packages=self._config.callable_packages,
                flow_env=self._config.flow_env_names,
                import_path=self._tenants_wheels(),
                failures=claimed.failures,
                awaited=claimed.awaited,
                clock_offset=clock.offset(),
            )
        )
        try:
            ended = await execution.ended
        except ConnectionError:
            # Also end the processes that it had started.
            self._signal(signal.SIGKILL)
            raise SlotDied(await self._how_it_ended()) from None
        finally:
            for pipe in self._pipes:
                pipe.end_line()
            self._execution = None
        self._runs += 1
        self.is_usable = self.is_usable and not ended.must_be_replaced
        recorder.cause = ended.cause
        if ended.status == OutcomeStatus.ABANDONED:
            # Its listener stopped it. If this worker still holds the run, another slot continues it.
            return recorder.loss(LossCause.HANDED_BACK, ended.error or "")
        return ending_of(
            OutcomeStatus(ended.status), claimed.fence, ended.reason, ended.error, ended.task, ended.waiting
        )

    def _tenants_wheels(self) -> str | None:
        if self.edition.path is None or self.tenant is None:
            return None
        place = tenant_place(self.edition.path, self.tenant)
        return str(place) if place.is_dir() else None

    def grant(self, _run_id: str, until: float) -> None:
        self._link.send(m.MayStart(until=until, clock_offset=clock.offset()))

    def cancel(self, run_id: str) -> None:
        self._link.send(m.Stop(run_id=run_id))

    def answer(self, run_id: str, task: str, answer: WaitAnswer) -> None:
        output = msgspec.json.encode(answer.output)
        self._link.send(m.AnswerMessage(run_id=run_id, task=task, output=output, error=answer.error))

    def abandon(self, _run_id: str) -> None:
        """Still running after the grace of a cancel, or taken over: end the process."""
        self.terminate()

    def terminate(self) -> None:
        """SIGTERM, then SIGKILL if that has no effect, to the whole process group."""
        self._signal(signal.SIGTERM)
        if self._killing is None:
            loop = asyncio.get_running_loop()
            self._killing = loop.call_later(KILL_AFTER_SEC, self._signal, signal.SIGKILL)

    async def close(self) -> None:
        """Kill the process at once. Nothing that matters may be running in it."""
        self._is_closing = True
        self._signal(signal.SIGKILL)
        if self._killing is not None:
            self._killing.cancel()
        self._link.close()
        if self._process is not None:
            await self._process.wait()
        for pipe in self._pipes:
            pipe.close()

    def _on_message(self, message: m.FromSlot) -> None:
        match message:
            case m.Ready():
                self.flows, self.flow_params = message.flows, message.params
                self._ready.set_result(None)
            case m.BrokenMessage():
                self._ready.set_exception(ResolverBroken(message.error))
            case _ if self._execution is not None:
                self._execution.receive(message)
            case _:
                log.warning(
                    "a slot sent a message outside of a run", extra={"message_type": type(message).__name__}
                )

    def _on_lines(self, stream: str, lines: list[str]) -> None:
        if self._execution is not None:
            self._execution.add_lines(stream, lines)
        else:
            sys.stderr.write("".join(f"{one_line(line)}\n" for line in lines))

    def _on_end(self) -> None:
        self.is_usable = False
        if not self._ready.done():
            self._ready.set_exception(SlotDied("its process ended while it was starting"))
        elif self._execution is not None:
            self._execution.break_off()
        elif not self._is_closing:
            self._on_idle_end()

    async def _how_it_ended(self) -> str:
        assert self._process is not None
        code = await self._process.wait()
        if code is None:
            return "its process ended; its exit code is not known"
        return (
            f"its process was killed by {_name(-code)}"
            if code < 0
            else f"its process ended with exit code {code}"
        )

    def _signal(self, sig: signal.Signals) -> None:
        if self._process is not None:
            self._process.signal_group(sig)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"


class _Execution:
    """One run in the slot: passes reports and printed lines to the recorder."""

    def __init__(self, recorder: Recorder, link: Link) -> None:
        self._recorder = recorder
        self._link = link
        self._running: dict[str, int] = {}
        self.ended: asyncio.Future[m.EndedMessage] = asyncio.get_running_loop().create_future()

    def receive(self, message: m.FromSlot) -> None:
        """Never raises: a message that cannot be processed ends the run, not the worker."""
        try:
            self._dispatch(message)
        except Exception as error:  # process boundary: user code may write anything to the link
            if not self.ended.done():
                self.ended.set_exception(error)

    def add_lines(self, stream: str, lines: list[str]) -> None:
        """Lines written to the descriptors. They belong to the running task if there is only one."""
        task, attempt = next(iter(self._running.items())) if len(self._running) == 1 else (None, None)
        self._recorder.add_lines(clock.now(), stream, task, attempt, lines, None)

    def break_off(self) -> None:
        if not self.ended.done():
            self.ended.set_exception(ConnectionError("the slot is gone"))

    def _dispatch(self, message: m.FromSlot) -> None:
        recorder = self._recorder
        match message:
            case m.Reported():
                self._receive_report(message)
            case m.Printed():
                recorder.add_lines(
                    message.at, message.stream, message.task, message.attempt, message.lines, message.level
                )
                if recorder.log.is_full(lambda: self._link.hold(reading=True)):
                    self._link.hold(reading=False)
            case m.EndedMessage():
                self.ended.set_result(message)
            case m.Ready() | m.BrokenMessage():
                raise AssertionError(f"{type(message).__name__} in the middle of a run")

    def _receive_report(self, message: m.Reported) -> None:
        command = message.command
        match command:
            case StartTask():
                self._running[command.task] = command.attempt
            case SucceedTask() | FailTask() | SkipTask():
                self._running.pop(command.task, None)
        awaited = message.number != m.NOT_AWAITED
        acknowledged = partial(self._acknowledge, message.number) if awaited else None
        self._recorder.report(command, message.values, acknowledged)

    def _acknowledge(self, number: int) -> None:
        if not self.ended.done():  # otherwise nothing waits for it
            self._link.send(m.AcknowledgeMessage(number=number))
