"""One run in a slot, as the worker hears of it: messages become facts for the recorder, and log lines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import msgspec

from pyoco_server import clock
from pyoco_server.worker.recording.recorder import Recorder
from pyoco_server.worker.recording.values import StoredResult
from pyoco_server.worker.slots import messages as m
from pyoco_server.worker.slots.link import Link

_decode_inputs = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Execution:
    def __init__(self, recorder: Recorder, link: Link, is_current: Callable[[], bool]) -> None:
        self._recorder = recorder
        self._link = link
        self._is_current = is_current
        self._running: dict[str, int] = {}
        self.ended: asyncio.Future[m.EndedMessage] = asyncio.get_running_loop().create_future()

    def hear(self, message: m.FromSlot) -> None:
        """Never raises: what cannot be understood breaks the run off, not the worker."""
        try:
            self._pass_on(message)
        except Exception as error:
            if not self.ended.done():
                self.ended.set_exception(error)

    def heard_lines(self, stream: str, lines: list[str]) -> None:
        """Printed past Python: of the one task that runs, if there is one."""
        task, attempt = next(iter(self._running.items())) if len(self._running) == 1 else (None, 0)
        self._recorder.printed(clock.now(), stream, task, attempt, lines, None)

    def break_off(self) -> None:
        if not self.ended.done():
            self.ended.set_exception(ConnectionError("the slot is gone"))

    def _pass_on(self, message: m.FromSlot) -> None:
        recorder = self._recorder
        match message:
            case m.Printed():
                recorder.printed(
                    message.at, message.stream, message.task, message.attempt, message.lines, message.level
                )
                if recorder.log.is_full(self._go_on):
                    self._link.hold(reading=False)
            case m.Planned():
                recorder.loops = message.loops
                recorder.wired(message.needs, message.any_of)
                recorder.plan(message.tasks, message.last, at=message.at)
            case m.Started():
                self._running[message.task] = message.attempt
                inputs = _decode_inputs(message.inputs)
                recorder.started(message.task, message.attempt, inputs, message.size, at=message.at)
            case m.SucceededMessage():
                self._running.pop(message.task, None)
                self._succeeded(message)
            case m.FailedMessage():
                self._running.pop(message.task, None)
                recorder.task_failed(
                    message.task,
                    message.attempt,
                    message.error,
                    message.traceback,
                    message.started_at,
                    message.ended_at,
                    message.will_retry,
                )
            case m.CancelledMessage():
                self._running.pop(message.task, None)
                recorder.cancelled(message.task, at=message.at)
            case m.Waiting():
                self._waiting(message)
            case m.EndedMessage():
                self.ended.set_result(message)
            case m.Ready() | m.BrokenMessage():
                raise AssertionError(f"{type(message).__name__} in the middle of a run")

    def _succeeded(self, message: m.SucceededMessage) -> None:
        self._recorder.succeeded(
            message.task,
            message.attempt,
            StoredResult(message.output, message.kept, message.types),
            (message.started_at, message.ended_at),
            None if message.number == m.NOT_AWAITED else partial(self._acknowledge, message.number),
        )

    def _waiting(self, message: m.Waiting) -> None:
        self._recorder.waiting(
            message.task,
            message.attempt,
            message.key,
            msgspec.json.decode(message.prompt, type=dict[str, msgspec.Raw]),
            message.size,
            message.timeout_sec,
            message.on_timeout,
            at=message.at,
        )

    def _acknowledge(self, number: int) -> None:
        if self._is_current():  # else it is over, and nothing waits for it any more
            self._link.say(m.AcknowledgeMessage(number=number))

    def _go_on(self) -> None:
        self._link.hold(reading=True)
