"""One run in a slot, on the worker's side: passes reports and printed lines to the recorder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from pyoco_server import clock
from pyoco_server.lifecycle.commands import FailTask, SkipTask, StartTask, SucceedTask
from pyoco_server.worker.recording.recorder import Recorder
from pyoco_server.worker.slots import messages as m
from pyoco_server.worker.slots.link import Link


class Execution:
    def __init__(self, recorder: Recorder, link: Link, is_current: Callable[[], bool]) -> None:
        self._recorder = recorder
        self._link = link
        self._is_current = is_current
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
        if self._is_current():  # otherwise the run has ended, and nothing waits for it
            self._link.send(m.AcknowledgeMessage(number=number))
