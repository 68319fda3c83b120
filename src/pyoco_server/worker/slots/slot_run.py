"""One run in a slot, on the worker's side: passes its reports and printed lines to its recorder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import Protocol

import msgspec

from pyoco_server import clock
from pyoco_server.engine import WaitAnswer
from pyoco_server.lifecycle.commands import FailTask, SkipTask, StartTask, SucceedTask
from pyoco_server.lifecycle.status import OutputKept
from pyoco_server.worker.attempt.claim import Claimed
from pyoco_server.worker.recording.listener import TaskCommand
from pyoco_server.worker.recording.recorder import Recorder
from pyoco_server.worker.slots import messages as m
from pyoco_server.worker.slots.link import Link

# Results that a later claim cannot use: their tasks would be executed again.
_NOT_RESTORED = frozenset({OutputKept.UNSERIALISABLE, OutputKept.APPROXIMATE, OutputKept.TOO_LARGE})


class LeftSlot(Enum):
    """How a run left its slot without an end."""

    UNBEGUN = auto()  # none of its code was called: another slot executes it
    MOVED = auto()  # it was in the middle: it is handed back
    DIED_BESIDE = auto()  # the process has died in the code of another run
    DIED = auto()  # the process has died in its code


class _Process(Protocol):
    """What a run needs of its slot."""

    def abandon(self, run: SlotRun) -> None: ...

    def note_sent(self) -> None: ...


class SlotRun:
    """`stretch_sec`: how long other runs have to wait for it; None: it must be alone."""

    def __init__(
        self,
        slot: _Process,
        link: Link,
        claimed: Claimed,
        recorder: Recorder,
        *,
        number: int,
        lane: int,
        stretch_sec: float | None,
        on_long: Callable[[], None],
    ) -> None:
        self._slot = slot
        self._link = link
        self._recorder = recorder
        self._running: dict[str, int] = {}
        self._unsent: list[m.ToSlot] | None = []  # what follows the run, until it is sent
        self._may_start_until: float | None = None
        self.claimed = claimed
        self.number = number
        self.lane = lane
        self.stretch_sec = stretch_sec
        self._on_long = on_long
        self.has_written_past_python = False
        self.left: asyncio.Future[m.EndedMessage | LeftSlot] = asyncio.get_running_loop().create_future()

    @property
    def recorder(self) -> Recorder:
        return self._recorder

    @property
    def can_continue_elsewhere(self) -> bool:
        """False: a task that has succeeded would be executed again."""
        tasks = self._recorder.stored.run.tasks.values()
        return _NOT_RESTORED.isdisjoint([record.kept for record in tasks])

    def send(self, job: m.RunFlow) -> None:
        """The run, then what was requested before it was sent."""
        until = self._may_start_until
        self._link.send(job if until is None else msgspec.structs.replace(job, may_start_until=until))
        unsent, self._unsent = self._unsent or [], None
        for message in unsent:
            self._link.send(message)
        self._slot.note_sent()

    def note_long(self) -> None:
        """It is not as short as expected: no other run joins it."""
        if self.stretch_sec is not None:
            self.stretch_sec = None
            self._on_long()

    # The requests of the monitor

    def grant(self, _run_id: str, until: float) -> None:
        """Tasks may be started until then (`clock.elapsed`)."""
        if self._unsent is not None:
            self._may_start_until = until
        else:
            self._link.send(m.MayStart(run=self.number, until=until, clock_offset=clock.offset()))

    def cancel(self, _run_id: str) -> None:
        self._follow(m.Stop(run=self.number))

    def answer(self, _run_id: str, task: str, answer: WaitAnswer) -> None:
        output = msgspec.json.encode(answer.output)
        self._follow(m.AnswerMessage(run=self.number, task=task, output=output, error=answer.error))

    def abandon(self, _run_id: str) -> None:
        """Still running after the grace of a cancel, or taken over."""
        self._slot.abandon(self)

    def _follow(self, message: m.ToSlot) -> None:
        if self._unsent is not None:
            self._unsent.append(message)
        else:
            self._link.send(message)

    # What comes from the slot

    def receive(self, message: m.FromSlot) -> None:
        """Never raises: a message that cannot be processed ends the run, not the worker."""
        try:
            self._dispatch(message)
        except Exception as error:  # process boundary: user code may write anything to the link
            if not self.left.done():
                self.left.set_exception(error)

    def add_lines(self, stream: str, lines: list[str]) -> None:
        """Lines written to the descriptors. They belong to the running task if there is only one."""
        self.has_written_past_python = True
        task, attempt = next(iter(self._running.items())) if len(self._running) == 1 else (None, None)
        self._recorder.add_lines(clock.now(), stream, task, attempt, lines, None)

    def leave(self, how: LeftSlot) -> None:
        if not self.left.done():
            self.left.set_result(how)

    def _dispatch(self, message: m.FromSlot) -> None:
        recorder = self._recorder
        match message:
            case m.Executed():
                self._receive_report(message.started, message.inputs, m.NOT_AWAITED)
                self._receive_report(message.succeeded, message.output, message.number)
            case m.Reported():
                self._receive_report(message.command, message.values, message.number)
            case m.Printed():
                recorder.add_lines(
                    message.at, message.stream, message.task, message.attempt, message.lines, message.level
                )
                if recorder.log.is_full(lambda: self._link.hold(reading=True)):
                    self._link.hold(reading=False)
            case m.EndedMessage():
                self.left.set_result(message)
            case m.Ready() | m.BrokenMessage():
                raise AssertionError(f"{type(message).__name__} in the middle of a run")

    def _receive_report(self, command: TaskCommand, values: bytes | None, number: int) -> None:
        match command:
            case StartTask():
                self._running[command.task] = command.attempt
            case SucceedTask() | FailTask() | SkipTask():
                self._running.pop(command.task, None)
        acknowledged = None if number == m.NOT_AWAITED else partial(self._acknowledge, number)
        self._recorder.report(command, values, acknowledged)

    def _acknowledge(self, number: int) -> None:
        if not self.left.done():  # otherwise nothing waits for it
            self._link.send(m.AcknowledgeMessage(run=self.number, number=number))
            self._slot.note_sent()
