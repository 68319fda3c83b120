"""The slot's process: loads the resolver once, then executes one run after the other with the engine.

The main thread runs flows; every thread speaks, what it prints at least; somebody always listens, so
that a cancel is heard while a task runs (`link_reader.py`). When the parent's end of the socket closes,
there is nobody to work for: the process is over at once.
"""

from __future__ import annotations

import gc
import importlib
import logging
import math
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any

import msgspec
from pyoco.core.models import Flow, RunContext

from pyoco_server import clock
from pyoco_server.clock import elapsed
from pyoco_server.engine import Engine, Event, NullListener, OutcomeStatus, RunOutcome, WaitAnswer, WaitPrompt
from pyoco_server.engine.tasks.failure import describe
from pyoco_server.flows import ResolverError, load_resolver
from pyoco_server.lifecycle.graph import OnTimeout
from pyoco_server.worker.attempt.reasons import EXECUTION_ERROR, FLOW_CHANGED, cause_of, said, why_unresolved
from pyoco_server.worker.flows.changes import lost_wait, why_lost
from pyoco_server.worker.flows.source import FlowSource
from pyoco_server.worker.recording.values import inputs_kept, result_of, results_from
from pyoco_server.worker.slots import messages as m
from pyoco_server.worker.slots.link_reader import LinkReader
from pyoco_server.worker.slots.link_writer import LinkWriter
from pyoco_server.worker.slots.output import Output

_to_json = msgspec.json.Encoder().encode

WITH_THE_NEXT = math.inf
# A result that nothing waits for is told this soon after the one before it, or with it: of many quick tasks
# side by side not every one is worth a write, and of a slow one no result should be lost with the process.
SOON_SEC = 0.002


class SlotChild:
    def __init__(self, link: socket.socket, flows: FlowSource, parallelism: int) -> None:
        self._flows = flows
        self._jobs: SimpleQueue[m.RunFlow] = SimpleQueue()
        self._waiting: dict[int, Callable[[], None]] = {}
        self._voice = LinkWriter(link)
        self._output = Output(self._voice)
        self._ears = LinkReader(link, self._hear, self._voice.tick)
        self._teller = _Teller(self._voice, self._output, self.await_acknowledgement)
        # One for all runs: a cancel that comes before its run has begun here is remembered by it.
        self._engine = Engine(
            parallelism=parallelism,
            listener=self._teller,
            may_start=self._may_start,
            lone_tasks_here=True,
            receive=self._receive,
        )
        self._number = 0
        self._may_start_until = -math.inf

    def serve(self, ready: m.Ready) -> None:
        self._ears.open()
        self._voice.say(ready)
        while True:
            self._execute(self._ears.wait_for(self._jobs))

    def await_acknowledgement(self, acknowledged: Callable[[], None]) -> int:
        self._number += 1
        self._waiting[self._number] = acknowledged
        return self._number

    def _execute(self, job: m.RunFlow) -> None:
        self._output.begin(job.run_id)
        ended = self._performed(job)
        self._waiting.clear()
        if self._output.end():
            ended = msgspec.structs.replace(ended, is_worn=True)
        self._ears.run_ended()
        self._voice.say(ended)

    def _performed(self, job: m.RunFlow) -> m.EndedMessage:
        if job.import_path is not None and job.import_path not in sys.path:
            sys.path.insert(0, job.import_path)
            importlib.invalidate_caches()
        try:
            flow = self._flows.flow(job.flow_name, job.workflow_yaml, job.callable_packages, job.flow_env)
            self._teller.loops = flow.has_control_flow()
        except (Exception, SystemExit) as error:  # user code at the edge: it decides the run
            reason, text = why_unresolved(job.flow_name, error)
            cause = cause_of(describe(error))
            return m.EndedMessage(status=OutcomeStatus.FAILED, reason=reason, error=text, cause=cause)
        if (lost := lost_wait(flow, job.awaited)) is not None:
            return m.EndedMessage(
                status=OutcomeStatus.FAILED, reason=FLOW_CHANGED, error=why_lost(lost), task=lost
            )
        return self._run(flow, job)

    def _run(self, flow: Flow, job: m.RunFlow) -> m.EndedMessage:
        context = RunContext(run_id=job.run_id, flow_name=job.flow_name)
        context.metadata |= job.metadata
        self._teller.result_bytes_max = job.result_bytes_max
        limit = getattr(flow, "timeout_sec", None) or job.timeout_sec
        params, recorded = msgspec.json.decode(job.params), results_from(job.recorded)
        try:
            outcome = self._engine.run(
                flow, params, context, recorded=recorded, failures=job.failures, timeout_sec=limit
            )
            return _ended(outcome)
        except Exception as error:  # the engine promises not to; if it does, the run must end and say so
            logging.getLogger(__name__).exception("the engine broke")
            cause = cause_of(describe(error))
            return m.EndedMessage(
                status=OutcomeStatus.FAILED, reason=EXECUTION_ERROR, error=said(error), cause=cause
            )

    def _receive(self, mailbox: SimpleQueue[Event], timeout_sec: float | None, beside_others: bool) -> Event:
        wait = self._ears.wait_beside_others if beside_others else self._ears.wait_for
        return wait(mailbox, timeout_sec)

    def _may_start(self) -> bool:
        """Not while the worker is cut off, stopped or asleep: the run may have been taken over by now."""
        return elapsed() < self._may_start_until

    def _hear(self, message: m.ToSlot) -> None:
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


class _Teller(NullListener):
    """The engine's listener: every callback is a message."""

    def __init__(
        self, voice: LinkWriter, output: Output, await_acknowledgement: Callable[[Callable[[], None]], int]
    ) -> None:
        self._voice = voice
        self._output = output
        self._await = await_acknowledgement
        self._unfinished: set[str] = set()
        self._last: frozenset[str] = frozenset()  # in a loop the last task is not known as such
        self._needs: dict[str, list[str]] = {}
        self._any_of: list[str] = []
        self.loops = False
        self.result_bytes_max = 0

    def wired(self, needs: Mapping[str, Sequence[str]], any_of: Sequence[str]) -> None:
        self._needs = {name: list(wanted) for name, wanted in needs.items()}
        self._any_of = list(any_of)

    def planned(self, names: Sequence[str], last: Sequence[str]) -> None:
        self._unfinished = set(names)
        self._last = frozenset() if self.loops else frozenset(last)
        planned = m.Planned(
            tasks=list(names),
            last=list(last),
            loops=self.loops,
            at=clock.now(),
            needs=self._needs,
            any_of=self._any_of,
        )
        self._needs, self._any_of = {}, []
        self._voice.say(planned, patience_sec=WITH_THE_NEXT)

    def task_started(self, name: str, attempt: int, inputs: Mapping[str, Any]) -> None:
        kept, size = inputs_kept(inputs)
        self._voice.say(
            m.Started(task=name, attempt=attempt, inputs=_to_json(kept), size=size, at=clock.now()),
            patience_sec=WITH_THE_NEXT,
        )

    def task_succeeded(
        self,
        name: str,
        attempt: int,
        output: Any,
        started_at: float,
        ended_at: float,
        acknowledged: Callable[[], None],
    ) -> None:
        self._output.end_of(name)
        self._unfinished.discard(name)
        number, patience_sec = self._awaited(name, acknowledged)
        result = result_of(output, self.result_bytes_max)
        succeeded = m.SucceededMessage(
            task=name,
            attempt=attempt,
            started_at=started_at,
            ended_at=ended_at,
            output=result.json,
            kept=result.kept,
            types=result.types,
            number=number,
        )
        self._voice.say(succeeded, patience_sec=patience_sec)

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
        self._output.end_of(name)
        failed = m.FailedMessage(
            task=name,
            attempt=attempt,
            started_at=started_at,
            ended_at=ended_at,
            error=error,
            traceback=traceback,
            will_retry=will_retry,
        )
        self._voice.say(failed, patience_sec=WITH_THE_NEXT)

    def task_cancelled(self, name: str) -> None:
        self._voice.say(m.CancelledMessage(task=name, at=clock.now()), patience_sec=WITH_THE_NEXT)

    def task_waiting(self, name: str, attempt: int, asked: WaitPrompt) -> None:
        kept, size = inputs_kept(asked.prompt)
        waiting = m.Waiting(
            task=name,
            attempt=attempt,
            key=asked.key,
            prompt=_to_json(kept),
            size=size,
            timeout_sec=asked.timeout_sec,
            on_timeout=OnTimeout(asked.on_timeout),
            at=clock.now(),
        )
        self._voice.say(waiting, patience_sec=WITH_THE_NEXT)

    def _awaited(self, name: str, acknowledged: Callable[[], None]) -> tuple[int, float]:
        """The number under which its success is to be acknowledged, and how long it may wait to be told."""
        if name not in self._last:
            return self._await(acknowledged), 0.0
        acknowledged()  # nothing waits for it
        # Behind the last of them comes nothing but the end, and that follows at once.
        return m.NOT_AWAITED, SOON_SEC if self._unfinished else WITH_THE_NEXT


def main(handle: int, spec: str, parallelism: int, path: str) -> None:
    if path:
        sys.path.insert(0, path)
    link = socket.socket(fileno=handle)
    link.set_inheritable(False)  # what user code starts must not keep the link open
    try:
        resolver = load_resolver(spec)
    except ResolverError as error:
        link.sendall(m.frame(m.BrokenMessage(error=str(error))))
        sys.exit(1)
    flows = FlowSource(resolver, spec)
    ready = m.Ready(flows=flows.announced, params=flows.params())
    slot = SlotChild(link, flows, parallelism)
    gc.freeze()  # what is loaded now lives as long as the process: the collector need not look at it again
    slot.serve(ready)


def _ended(outcome: RunOutcome) -> m.EndedMessage:
    return m.EndedMessage(
        status=outcome.status,
        reason=EXECUTION_ERROR,
        error=outcome.error,
        task=outcome.failed_task,
        is_worn=bool(outcome.left_behind),
        waiting=outcome.waiting,
        cause=cause_of(outcome.cause),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4])
