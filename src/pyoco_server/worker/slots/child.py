"""The slot's process: loads the resolver once, then executes one run after the other with the engine.

The main thread runs flows and speaks; a second thread listens, so that a cancel is heard while a task runs.
When the parent's end of the socket closes, there is nobody to work for: the process is over at once.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, BinaryIO

import msgspec
from pyoco.core.models import RunContext

from pyoco_server.engine import Engine, NullListener, Outcome, Status
from pyoco_server.flows import FlowResolver, ResolverError, load_resolver
from pyoco_server.worker.reasons import EXECUTION_ERROR, why_unresolved
from pyoco_server.worker.slots import messages as m
from pyoco_server.worker.values import inputs_kept, output_kept

_to_json = msgspec.json.Encoder().encode


class Slot:
    def __init__(self, link: socket.socket, resolver: FlowResolver) -> None:
        self._link = link
        self._resolver = resolver
        self._jobs: SimpleQueue[m.RunFlow] = SimpleQueue()
        self._waiting: dict[int, Callable[[], None]] = {}
        self._teller = _Teller(self)
        # One for all runs: a cancel that comes before its run has begun here is remembered by it.
        self._engine = Engine(listener=self._teller)
        self._number = 0

    def serve(self) -> None:
        threading.Thread(target=self._listen, name="pyoco-slot-listener", daemon=True).start()
        self.say(m.Ready())
        while True:
            self._execute(self._jobs.get())

    def say(self, message: m.FromSlot) -> None:
        self._link.sendall(m.frame(message))

    def await_acknowledgement(self, acknowledged: Callable[[], None]) -> int:
        self._number += 1
        self._waiting[self._number] = acknowledged
        return self._number

    def _execute(self, job: m.RunFlow) -> None:
        try:
            flow = self._resolver(job.flow_name)
            self._teller.loops = flow.has_control_flow()
        except (Exception, SystemExit) as error:  # user code at the edge: it decides the run
            reason, text = why_unresolved(job.flow_name, error)
            self.say(m.Ended(status=Status.FAILED, reason=reason, error=text))
            return
        context = RunContext(run_id=job.run_id, flow_name=job.flow_name)
        context.metadata |= job.metadata
        params, recorded = msgspec.json.decode(job.params), msgspec.json.decode(job.recorded)
        self.say(_ended(self._engine.run(flow, params, context, recorded=recorded)))
        self._waiting.clear()

    def _listen(self) -> None:
        with self._link.makefile("rb") as stream:
            while (data := _read_frame(stream)) is not None:
                self._hear(m.for_slot(data))
        os._exit(0)

    def _hear(self, message: m.ToSlot) -> None:
        match message:
            case m.RunFlow():
                self._jobs.put(message)
            case m.Stop():
                self._engine.cancel(message.run_id)
            case m.Acknowledged():
                acknowledged = self._waiting.pop(message.number, None)
                if acknowledged is not None:
                    acknowledged()


class _Teller(NullListener):
    """The engine's listener: every callback is a message."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self.loops = False

    def planned(self, names: Sequence[str]) -> None:
        self._slot.say(m.Planned(tasks=list(names), loops=self.loops))

    def task_started(self, name: str, attempt: int, inputs: Mapping[str, Any]) -> None:
        kept, size = inputs_kept(inputs)
        self._slot.say(m.Started(task=name, attempt=attempt, inputs=_to_json(kept), size=size))

    def task_succeeded(
        self,
        name: str,
        attempt: int,
        output: Any,
        started_at: float,
        ended_at: float,
        acknowledged: Callable[[], None],
    ) -> None:
        value, kept, _ = output_kept(output)
        succeeded = m.Succeeded(
            task=name,
            attempt=attempt,
            started_at=started_at,
            ended_at=ended_at,
            output=None if value is None else _to_json(value),
            kept=kept,
            number=self._slot.await_acknowledgement(acknowledged),
        )
        self._slot.say(succeeded)

    def task_failed(
        self,
        name: str,
        attempt: int,
        error: str,
        traceback: str,
        started_at: float,
        ended_at: float,
        will_retry: bool,
    ) -> None:
        failed = m.Failed(
            task=name,
            attempt=attempt,
            started_at=started_at,
            ended_at=ended_at,
            error=error,
            traceback=traceback,
            will_retry=will_retry,
        )
        self._slot.say(failed)

    def task_cancelled(self, name: str) -> None:
        self._slot.say(m.Cancelled(task=name))


def main(handle: int, spec: str) -> None:
    # Lines appear when they are printed, also into a pipe.
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    link = socket.socket(fileno=handle)
    link.set_inheritable(False)  # what user code starts must not keep the link open
    try:
        resolver = load_resolver(spec)
    except ResolverError as error:
        link.sendall(m.frame(m.Broken(error=str(error))))
        sys.exit(1)
    Slot(link, resolver).serve()


def _read_frame(stream: BinaryIO) -> bytes | None:
    head = stream.read(m.LENGTH.size)
    if len(head) < m.LENGTH.size:
        return None
    (length,) = m.LENGTH.unpack(head)
    data = stream.read(length)
    return data if len(data) == length else None


def _ended(outcome: Outcome) -> m.Ended:
    return m.Ended(
        status=outcome.status, reason=EXECUTION_ERROR, error=outcome.error, task=outcome.failed_task
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
