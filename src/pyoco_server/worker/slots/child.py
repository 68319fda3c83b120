"""The slot's process: loads the resolver once, then executes runs with the engine.

The main thread runs flows (`run_loop.py`). Every thread may send: at least the lines that it prints. One
thread always reads the link, so that a cancel arrives while a task runs (`child_link.py`). When the parent's
end of the socket closes, the process exits at once.
"""

from __future__ import annotations

import gc
import importlib
import logging
import math
import os
import socket
import sys
from functools import partial
from typing import NamedTuple

import msgspec
from pyoco.core.models import Flow, RunContext

from pyoco_server import clock
from pyoco_server.clock import elapsed
from pyoco_server.engine import Engine, OutcomeStatus, RunOutcome, WaitAnswer
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
from pyoco_server.worker.slots.control_page import ControlPage
from pyoco_server.worker.slots.output import Output
from pyoco_server.worker.slots.run_loop import ChildRun, Mailbox, RunLoop

# How long after the last write a report may wait for the next one. Many quick tasks side by side should not
# cost a write each; the result of a slow task should not be lost with the process.
PATIENCE_SEC = {Urgency.NOW: 0.0, Urgency.SOON: 0.002, Urgency.WITH_NEXT: math.inf}


class SlotChild:
    def __init__(self, link: socket.socket, flows: FlowSource, parallelism: int) -> None:
        self._flows = flows
        self._parallelism = parallelism
        self._writer = LinkWriter(link)
        self._output = Output(self._writer)
        self._reader = LinkReader(link, self._receive_message, self._writer.tick)
        self._loop = RunLoop(self._reader, self._writer, self._output, self._execute)
        os.register_at_fork(after_in_child=self._loop.detach_page)

    def serve(self, ready: m.Ready) -> None:
        self._reader.open()
        self._writer.send(ready)
        self._loop.run_forever()

    def _receive_message(self, message: m.ToSlot) -> None:
        match message:
            case m.RunFlow():
                clock.adopt(message.clock_offset)
                self._loop.add(self._arrived(message))
                return
            case m.UsePage():
                self._loop.use_page(ControlPage.open(message.path))
                return
        run = self._loop.find(message.run)
        if run is None:
            return  # it has just ended
        match message:
            case m.MayStart():
                clock.adopt(message.clock_offset)
                run.may_start_until = message.until
                run.engine.wake()
            case m.Stop():
                run.engine.cancel(run.job.run_id)
            case m.AcknowledgeMessage():
                acknowledged = run.unacknowledged.pop(message.number, None)
                if acknowledged is not None:
                    acknowledged()
            case m.AnswerMessage():
                answer = WaitAnswer(msgspec.json.decode(message.output), message.error)
                run.engine.answer(run.job.run_id, message.task, answer)

    def _arrived(self, job: m.RunFlow) -> ChildRun:
        """Each run has an engine: it keeps a cancel that arrives before the run has begun."""
        run = ChildRun(job)
        run.listener = CommandListener(partial(self._report, run), partial(self._output.end_of, job.run_id))
        run.engine = Engine(
            parallelism=self._parallelism,
            listener=run.listener,
            # False while the worker is cut off, stopped or suspended: the run may have been taken over.
            may_start=lambda: elapsed() < run.may_start_until,
            lone_tasks_here=True,
            receive=self._loop.receive,
            mailbox=lambda: Mailbox(run, self._loop.ready),
            # The start of a task precedes its lines in the log.
            is_quiet=lambda: not self._output.has_printed(job.run_id),
        )
        return run

    def _report(
        self,
        run: ChildRun,
        command: TaskCommand,
        values: bytes | None,
        acknowledged: Acknowledge | None,
        urgency: Urgency,
    ) -> None:
        number = m.NOT_AWAITED
        if acknowledged is not None:
            number = run.reports = run.reports + 1
            run.unacknowledged[number] = acknowledged
        self._writer.report(run.number, command, values, number, patience_sec=PATIENCE_SEC[urgency])

    def _execute(self, run: ChildRun) -> None:
        """In the greenlet of the run."""
        job = run.job
        numbering = Numbering(job.fence, job.attempts)
        run.listener.begin(numbering, job.result_bytes_max)
        self._output.begin(job.run_id, run.number, numbering)
        ended = self._perform(run)
        has_started_process = self._output.has_started_process(job.run_id)
        is_still_used = self._output.end(job.run_id)
        self._loop.end(run)
        self._writer.send_awaited(
            msgspec.structs.replace(
                ended,
                must_be_replaced=ended.must_be_replaced or is_still_used,
                code_sec=run.code_sec,
                longest_sec=run.longest_sec,
                may_interleave=run.may_interleave and not run.has_used_threads and not has_started_process,
            )
        )

    def _perform(self, run: ChildRun) -> m.EndedMessage:
        job = run.job
        if job.import_path is not None and job.import_path not in sys.path:
            sys.path.insert(0, job.import_path)
            importlib.invalidate_caches()
        flow = self._flows.resolve(
            job.flow_name, job.workflow_yaml, job.callable_packages, job.flow_env, job.awaited
        )
        return _failed(run.number, *flow) if isinstance(flow, Unresolved) else self._run(flow, run)

    def _run(self, flow: Flow, run: ChildRun) -> m.EndedMessage:
        job = run.job
        run.may_interleave = bool(getattr(flow, "may_interleave", True))
        context = RunContext(run_id=job.run_id, flow_name=job.flow_name)
        context.metadata |= job.metadata
        limit = getattr(flow, "timeout_sec", None) or job.timeout_sec
        params, recorded = msgspec.json.decode(job.params), results_from(job.recorded)
        perform = partial(run.engine.run, recorded=recorded, failures=job.failures, timeout_sec=limit)
        outcome = try_call(perform, flow, params, context, on_error=partial(_broken, run.number))
        if isinstance(outcome, m.EndedMessage):
            return outcome
        if outcome.context.scratch:  # would be lost if the run had to go on elsewhere
            run.may_interleave = False
        return _ended(run.number, outcome)


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


def _failed(
    run: int, reason: str, error: str, task: str | None, cause: dict[str, object] | None
) -> m.EndedMessage:
    status = OutcomeStatus.FAILED
    return m.EndedMessage(run=run, status=status, reason=reason, error=error, task=task, cause=cause)


def _broken(run: int, error: BaseException) -> m.EndedMessage:
    """A defect of the engine: the run ends with its error."""
    logging.getLogger(__name__).error("the engine broke", exc_info=error)
    return _failed(run, EXECUTION_ERROR, error_text(error), None, cause_of(describe(error)))


def _ended(run: int, outcome: RunOutcome) -> m.EndedMessage:
    return m.EndedMessage(
        run=run,
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
