"""The slot's process: loads the resolver once, then executes one run after the other with the engine.

The main thread runs flows. Every thread may send: at least the lines that it prints. One thread always reads
the link, so that a cancel arrives while a task runs (`child_link.py`). When the parent's end of the socket
closes, the process exits at once.
"""

from __future__ import annotations

import gc
import importlib
import logging
import math
import socket
import sys
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple

import msgspec
from pyoco.core.models import Flow, RunContext

from pyoco_server import clock
from pyoco_server.clock import elapsed
from pyoco_server.engine import Engine, Event, OutcomeStatus, RunOutcome, WaitAnswer
from pyoco_server.engine.tasks.failure import describe, try_call
from pyoco_server.flows import ResolverError, load_resolver
from pyoco_server.processes.scheduling import use_normal_scheduling
from pyoco_server.worker.attempt.reasons import EXECUTION_ERROR, cause_of, error_text
from pyoco_server.worker.flows.source import FlowSource, Unresolved
from pyoco_server.worker.recording.listener import (
    Acknowledge,
    CommandListener,
    Numbering,
    TaskCommand,
    Urgency,
)
from pyoco_server.worker.recording.values import results_from
from pyoco_server.worker.slots import messages as m
from pyoco_server.worker.slots.child_link import LinkReader, LinkWriter
from pyoco_server.worker.slots.output import Output

# How long after the last write a report may wait for the next one. Many quick tasks side by side should not
# cost a write each; the result of a slow task should not be lost with the process.
PATIENCE_SEC = {Urgency.NOW: 0.0, Urgency.SOON: 0.002, Urgency.WITH_NEXT: math.inf}


class SlotChild:
    def __init__(self, link: socket.socket, flows: FlowSource, parallelism: int) -> None:
        self._flows = flows
        self._jobs: SimpleQueue[m.RunFlow] = SimpleQueue()
        self._waiting: dict[int, Callable[[], None]] = {}
        self._writer = LinkWriter(link)
        self._output = Output(self._writer)
        self._reader = LinkReader(link, self._receive_message, self._writer.tick)
        self._listener = CommandListener(self._report, self._output.end_of)
        # One for all runs: it keeps a cancel that arrives before its run has begun.
        self._engine = Engine(
            parallelism=parallelism,
            listener=self._listener,
            may_start=self._may_start,
            lone_tasks_here=True,
            receive=self._receive,
        )
        self._number = 0
        self._may_start_until = -math.inf

    def serve(self, ready: m.Ready) -> None:
        self._reader.open()
        self._writer.send(ready)
        while True:
            self._execute(self._reader.wait_for(self._jobs))

    def _report(
        self, command: TaskCommand, values: bytes | None, acknowledged: Acknowledge | None, urgency: Urgency
    ) -> None:
        number = m.NOT_AWAITED
        if acknowledged is not None:
            number = self._number = self._number + 1
            self._waiting[number] = acknowledged
        reported = m.Reported(command=command, values=values, number=number)
        self._writer.send(reported, patience_sec=PATIENCE_SEC[urgency])

    def _execute(self, job: m.RunFlow) -> None:
        numbering = Numbering(job.fence, job.attempts)
        self._listener.begin(numbering, job.result_bytes_max)
        self._output.begin(job.run_id, numbering)
        ended = self._perform(job)
        self._waiting.clear()
        if self._output.end():
            ended = msgspec.structs.replace(ended, must_be_replaced=True)
        self._reader.note_run_end()
        self._writer.send(ended)

    def _perform(self, job: m.RunFlow) -> m.EndedMessage:
        if job.import_path is not None and job.import_path not in sys.path:
            sys.path.insert(0, job.import_path)
            importlib.invalidate_caches()
        flow = self._flows.resolve(
            job.flow_name, job.workflow_yaml, job.callable_packages, job.flow_env, job.awaited
        )
        return _failed(*flow) if isinstance(flow, Unresolved) else self._run(flow, job)

    def _run(self, flow: Flow, job: m.RunFlow) -> m.EndedMessage:
        context = RunContext(run_id=job.run_id, flow_name=job.flow_name)
        context.metadata |= job.metadata
        limit = getattr(flow, "timeout_sec", None) or job.timeout_sec
        params, recorded = msgspec.json.decode(job.params), results_from(job.recorded)
        run = partial(self._engine.run, recorded=recorded, failures=job.failures, timeout_sec=limit)
        outcome = try_call(run, flow, params, context, on_error=_broken)
        return outcome if isinstance(outcome, m.EndedMessage) else _ended(outcome)

    def _receive(self, mailbox: SimpleQueue[Event], timeout_sec: float | None, beside_others: bool) -> Event:
        wait = self._reader.wait_beside_others if beside_others else self._reader.wait_for
        return wait(mailbox, timeout_sec)

    def _may_start(self) -> bool:
        """False while the worker is cut off, stopped or suspended: the run may have been taken over."""
        return elapsed() < self._may_start_until

    def _receive_message(self, message: m.ToSlot) -> None:
        match message:
            case m.MayStart():
                clock.adopt(message.clock_offset)
                self._may_start_until = message.until
                self._engine.wake()
            case m.RunFlow():
                clock.adopt(message.clock_offset)
                self._jobs.put(message)
            case m.Stop():
                self._engine.cancel(message.run_id)
            case m.AcknowledgeMessage():
                acknowledged = self._waiting.pop(message.number, None)
                if acknowledged is not None:
                    acknowledged()
            case m.AnswerMessage():
                answer = WaitAnswer(msgspec.json.decode(message.output), message.error)
                self._engine.answer(message.run_id, message.task, answer)


class LoadedFlows(NamedTuple):
    flows: FlowSource
    ready: m.Ready


def load_flows(spec: str) -> LoadedFlows:
    """Raises ResolverError. Call it before this process has threads."""
    flows = FlowSource(load_resolver(spec), spec)
    return LoadedFlows(flows, m.Ready(flows=flows.announced, params=flows.params()))


def main(handle: int, spec: str, parallelism: int, path: str) -> None:
    use_normal_scheduling()
    if path:
        sys.path.insert(0, path)
    run_slot(handle, spec, parallelism)


def run_slot(handle: int, spec: str, parallelism: int, loaded: LoadedFlows | None = None) -> None:
    """`loaded`: the flows, if a zygote has loaded them."""
    link = socket.socket(fileno=handle)
    link.set_inheritable(False)  # processes of user code must not keep the link open
    if not link.recv(len(m.GO_ON)):
        return  # the worker is gone
    try:
        loaded = loaded or load_flows(spec)
    except ResolverError as error:
        link.sendall(m.frame(m.BrokenMessage(error=str(error))))
        sys.exit(1)
    slot = SlotChild(link, loaded.flows, parallelism)
    gc.freeze()  # everything loaded so far stays until the process ends: the collector skips it
    slot.serve(loaded.ready)


def _failed(reason: str, error: str, task: str | None, cause: dict[str, Any] | None) -> m.EndedMessage:
    return m.EndedMessage(status=OutcomeStatus.FAILED, reason=reason, error=error, task=task, cause=cause)


def _broken(error: BaseException) -> m.EndedMessage:
    """A defect of the engine: the run ends with its error."""
    logging.getLogger(__name__).error("the engine broke", exc_info=error)
    return _failed(EXECUTION_ERROR, error_text(error), None, cause_of(describe(error)))


def _ended(outcome: RunOutcome) -> m.EndedMessage:
    return m.EndedMessage(
        status=outcome.status,
        reason=EXECUTION_ERROR,
        error=outcome.error,
        task=outcome.failed_task,
        must_be_replaced=bool(outcome.left_behind),
        waiting=outcome.waiting,
        cause=cause_of(outcome.cause),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4])
