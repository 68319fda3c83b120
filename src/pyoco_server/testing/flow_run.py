"""One run in the process of a test, from its submission to its end: claim → perform → conclude, then wait.

The steps are those of a worker (`worker.attempt`), on a log in memory and in virtual time.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
from pyoco.core.models import Flow, RunContext

from pyoco_server import clock
from pyoco_server.config import NatsBackendConfig
from pyoco_server.engine import Engine, WaitAnswer
from pyoco_server.engine.tasks.current_attempt import CurrentAttempt
from pyoco_server.ids import new_uuid
from pyoco_server.json_schema.check import place_of
from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import SLEEP_KEY_PREFIX, LossCause, OutputKept
from pyoco_server.testing.answers import Answer, AnswerScript, Approvals, AskedApproval, Reject
from pyoco_server.testing.journal import Journal, WorkerLost
from pyoco_server.testing.outcome import FinishedRun, PrintedLine, finished
from pyoco_server.testing.simulation import Outside, Simulation
from pyoco_server.testing.virtual_time import VirtualTime
from pyoco_server.testing.when import EventTest
from pyoco_server.testing.yaml_flow import YamlFlow
from pyoco_server.worker.attempt.reasons import EXECUTION_ERROR
from pyoco_server.worker.endings import Ending, ending_of
from pyoco_server.worker.flows.source import FlowSource, Unresolved
from pyoco_server.worker.recording.earlier_claims import (
    awaited,
    metadata_of,
    numbering_of,
    recorded_failures,
)
from pyoco_server.worker.recording.facts import fact_of
from pyoco_server.worker.recording.listener import Acknowledge, CommandListener, TaskCommand, Urgency
from pyoco_server.worker.recording.values import results_from
from pyoco_server.worker.stdout_tee import end_of, listen_to, stop_listening
from pyoco_server.workflow_yaml import extract_flow_defaults

WORKER_ID = "test"
CODE_SEC_MAX = 60.0

AnyFlow = Flow | Callable[[], Flow] | YamlFlow


def run_flow(
    flow: AnyFlow,
    params: Mapping[str, object] | None = None,
    *,
    approvals: Approvals | None = None,
    cancel_when: EventTest | None = None,
    lose_worker_before: EventTest | None = None,
    time: VirtualTime | None = None,
    timeout_sec: float | None = None,
    parallelism: int = 1,
    code_sec_max: float = CODE_SEC_MAX,
    run_id: str | None = None,
) -> FinishedRun:
    """Execute the flow as a worker would, and return the run when it has ended or waits for an answer.

    `flow`: a flow, a function that builds it (called for each claim, as a resolver is), or a `YamlFlow`.
    `approvals`: answers by task, or a function that is called for each open approval.
    `cancel_when`: the run is cancelled right after the first event for which this is true.
    `lose_worker_before`: the worker is lost once, right before such an event would be recorded; another
    claim continues the run. `timeout_sec`: of the run, if the flow has none. With `parallelism` above 1
    tasks run side by side, and the order of their events is not fixed. `code_sec_max`: real seconds for
    which the code of tasks may be executed beside the engine without an event.
    """
    submission = _submission(flow, params, run_id or new_uuid())
    virtual = time or VirtualTime()
    before = clock.CURRENT.set(clock.Clock(wall=virtual.now))
    try:
        submission = msgspec.structs.replace(submission, at=virtual.now())
        run = _FlowRun(
            submission, _source(flow), virtual, AnswerScript(approvals), cancel_when, lose_worker_before
        )
        return run.perform(timeout_sec=timeout_sec, parallelism=parallelism, code_sec_max=code_sec_max)
    finally:
        clock.CURRENT.reset(before)


Resolve = Callable[[Run], Flow | Unresolved]


class _FlowRun(Outside):
    def __init__(
        self,
        submission: e.RunSubmitted,
        resolve: Resolve,
        virtual: VirtualTime,
        answers: AnswerScript,
        cancel_when: EventTest | None,
        lose_worker_before: EventTest | None,
    ) -> None:
        self._submission = submission
        self._resolve = resolve
        self._virtual = virtual
        self._answers = answers
        self._cancel_when = cancel_when
        self._config = NatsBackendConfig()
        self._journal = Journal(submission, virtual.now, self._on_event, lose_worker_before)
        self._engine: Engine | None = None  # while a claim is performed
        self._due_answers: dict[str, tuple[float, str, Answer]] = {}  # by task: when, and its wait key
        self._grace_ends_at = math.inf
        self._logs: list[PrintedLine] = []

    def perform(self, *, timeout_sec: float | None, parallelism: int, code_sec_max: float) -> FinishedRun:
        simulation = Simulation(self._virtual, self, code_sec_max)
        try:
            self._journal.announce_submission()
            while not self._run.is_terminal:
                if not self._run.parked:
                    self._claim_and_perform(simulation, timeout_sec, parallelism)
                elif self.next_at() < math.inf:
                    simulation.jump_to(self.next_at())
                else:
                    break  # it waits for answers that the test does not give
        finally:
            left_behind = simulation.close()
        return finished(self._journal, self._logs, left_behind)

    @property
    def _run(self) -> Run:
        return self._journal.run

    # One claim

    def _claim_and_perform(self, simulation: Simulation, timeout_sec: float | None, parallelism: int) -> None:
        listener = CommandListener(self._report, partial(end_of, self._run.run_id))
        self._engine = Engine(
            parallelism=parallelism,
            listener=listener,
            lone_tasks_here=True,
            receive=simulation.receive,
            recruit_after_sec=0.0,
            mailbox=simulation.mailbox,
            machine=simulation.machine,
        )
        try:
            self._commit(c.ClaimRun(worker_id=WORKER_ID, instance_id=WORKER_ID, job_no=self._run.job_no))
            listener.begin(numbering_of(self._run), self._config.result_max_bytes)
            self._conclude(self._execute(self._engine, timeout_sec))
        except WorkerLost:  # at a report the engine has ended instead
            pass
        finally:
            self._engine = None
            self._grace_ends_at = math.inf
        if self._journal.take_loss():
            self._commit(self._loss())

    def _execute(self, engine: Engine, timeout_sec: float | None) -> Ending:
        run = self._run
        flow = self._resolve(run)
        if isinstance(flow, Unresolved):
            return c.FailRun(fence=run.fence, reason=flow.reason, error=flow.error, task=flow.task)
        context = RunContext(run_id=run.run_id, flow_name=run.flow_name)
        context.metadata |= metadata_of(self._submission, run.fence)
        with self._listening():
            outcome = engine.run(
                flow,
                run.params,
                context,
                recorded=results_from(self._journal.recorded()),
                failures=recorded_failures(run),
                timeout_sec=getattr(flow, "timeout_sec", None) or timeout_sec,
            )
        return ending_of(
            outcome.status, run.fence, EXECUTION_ERROR, outcome.error, outcome.failed_task, outcome.waiting
        )

    def _conclude(self, ending: Ending) -> None:
        """If a cancel was requested before, the run ends CANCELLED."""
        if self._run.is_terminal or self._journal.is_worker_lost:
            return
        refused = self._journal.commit(ending)
        if refused is not None and refused.reason is Reason.CANCEL_REQUESTED:
            self._commit(c.ConfirmCancelled(fence=self._run.fence))
        else:
            assert refused is None, refused

    def _loss(self) -> c.ReportLoss:
        return c.ReportLoss(
            fence=self._run.fence,
            cause=LossCause.WORKER_LOST,
            losses_max=self._config.consumer_max_deliver,
            crashes_max=self._config.max_crashes,
            detail="the test lost the worker",
        )

    def _report(
        self, command: TaskCommand, values: bytes | None, acknowledged: Acknowledge | None, _: Urgency
    ) -> None:
        """From the engine's listener. After a cancel nothing is recorded any more."""
        if isinstance(command, c.SucceedTask) and command.kept is OutputKept.REFERENCED:
            assert values is not None
            command, values = self._journal.put_aside(command, values), None
        refused = self._journal.commit(fact_of(command, values).command)
        if refused is None and acknowledged is not None:
            acknowledged()

    def _commit(self, command: c.Command) -> None:
        refused = self._journal.commit(command)
        assert refused is None, f"{type(command).__name__} was refused: {refused}"

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """What tasks print, and what they log at the level of a worker."""
        root = logging.getLogger()
        level = root.level
        root.setLevel(min(level, logging.INFO))
        listen_to(self._run.run_id, self._add_lines)
        try:
            yield
        finally:
            stop_listening(self._run.run_id)
            root.setLevel(level)

    def _add_lines(
        self, _at: float, stream: str, current: CurrentAttempt, lines: list[str], level: str | None
    ) -> None:
        attempt = numbering_of(self._run).attempts.get(current.task, current.attempt)
        at = self._virtual.now()
        self._logs += [PrintedLine(text, current.task, attempt, stream, level, at) for text in lines]

    # What happens to the run from outside

    def _on_event(self, event: e.Event) -> None:
        if isinstance(event, e.TaskWaiting) and not event.wait_key.startswith(SLEEP_KEY_PREFIX):
            self._ask(event)
        elif isinstance(event, e.TaskSucceeded | e.TaskFailed):
            self._due_answers.pop(event.task, None)
        if self._cancel_when is not None and self._cancel_when(event):
            self._cancel_when = None
            self._cancel()

    def _ask(self, event: e.TaskWaiting) -> None:
        prompt = _as_json(event.prompt or {})
        answer = self._answers.next(AskedApproval(event.task, event.wait_key, prompt, event.deadline_at))
        if answer is not None:
            self._due_answers[event.task] = (event.at + answer.after_sec, event.wait_key, answer)

    def _cancel(self) -> None:
        self._commit(c.CancelRun(by=WORKER_ID))
        if self._engine is not None and not self._run.is_terminal:
            self._engine.cancel(self._run.run_id)
            self._grace_ends_at = self._virtual.now() + self._config.cancel_grace_period_sec

    def next_at(self) -> float:
        if self._run.is_terminal:
            return math.inf
        if self._run.cancel is not None:
            return self._grace_ends_at
        answers = (at for at, _, _ in self._due_answers.values())
        return min((*answers, *self._run.due.values()), default=math.inf)

    def handle_due(self) -> None:
        now = self._virtual.now()
        if self._run.cancel is not None:
            self._grace_ends_at = math.inf
            if self._engine is not None:
                self._engine.abandon(self._run.run_id)
            return
        open_before = set(self._run.waits)
        due = {task: at for task, (at, _, _) in self._due_answers.items() if at <= now}
        if due:
            self._answer(min(due, key=lambda task: due[task]))
        else:
            self._commit(c.PassTime())
        self._pass_on(open_before - set(self._run.waits))

    def _answer(self, task: str) -> None:
        _, wait_key, answer = self._due_answers.pop(task)
        resume = c.ResumeTask(task=task, wait_key=wait_key, by=answer.by, comment=answer.comment)
        if isinstance(answer, Reject):
            self._commit(msgspec.structs.replace(resume, rejected=True))
        else:
            self._approve(msgspec.structs.replace(resume, payload=_as_json(answer.payload)))

    def _approve(self, resume: c.ResumeTask) -> None:
        refused = self._journal.commit(resume)
        if refused is not None and refused.reason is Reason.ANSWER:
            sentences = [f"{place_of(('payload', *path))} {message}" for path, message, _ in refused.problems]
            raise ValueError(f"The answer to '{resume.task}' does not match its type: {'; '.join(sentences)}")
        assert refused is None, f"the answer was refused: {refused}"

    def _pass_on(self, ended: set[str]) -> None:
        """An engine that executes other tasks of the run gets the outcome; else the next claim has it."""
        if self._engine is None:
            return
        for task in sorted(ended):
            record = self._run.tasks[task]
            self._engine.answer(self._run.run_id, task, WaitAnswer(record.output, record.error))


def _submission(flow: AnyFlow, params: Mapping[str, object] | None, run_id: str) -> e.RunSubmitted:
    """Params pass through JSON, as in a request."""
    if not isinstance(flow, YamlFlow):
        given = _as_json(dict(params or {}))
        name = flow.name if isinstance(flow, Flow) else getattr(flow, "__name__", "flow")
        return e.RunSubmitted(
            at=0.0, run_id=run_id, flow_name=name, params=given, tag="default", tags=["default"]
        )
    if params is not None:
        raise ValueError("The params of a flow.yaml are its defaults; write them there")
    parsed = flow.parse()
    return e.RunSubmitted(
        at=0.0,
        run_id=run_id,
        flow_name=flow.name,
        params=extract_flow_defaults(parsed),
        tag="default",
        tags=["default"],
        workflow_yaml=flow.text,
        workflow_yaml_sha256=parsed.sha256,
        workflow_yaml_bytes=parsed.size_bytes,
    )


def _source(flow: AnyFlow) -> Resolve:
    if isinstance(flow, YamlFlow):
        source, text = FlowSource(_no_flow), flow.text
        packages, variables = flow.callable_packages, flow.flow_env
        return lambda run: source.resolve(run.flow_name, text, packages, variables, awaited(run))
    build: Callable[[], Flow] = (lambda: flow) if isinstance(flow, Flow) else flow
    by_name = FlowSource(lambda _name: build())
    return lambda run: by_name.resolve(run.flow_name, None, (), (), awaited(run))


def _as_json(value: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _no_flow(name: str) -> Flow:
    raise KeyError(name)
