"""The engine's interface: run a flow, cancel or abandon a run, answer its waits. Owns the live runs."""

import math
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

from pyoco.core.models import Flow, RunContext

from pyoco_server.engine.control import Control, Event, RunRegistry
from pyoco_server.engine.limits import RECRUIT_AFTER_SEC, Checkpoints, Machine, Receive, RunLimits, receive
from pyoco_server.engine.listener import Listener, StopRun, WaitAnswer
from pyoco_server.engine.outcome import Ending, Halt, OutcomeStatus, RunOutcome
from pyoco_server.engine.reporter import Reporter
from pyoco_server.engine.tasks.context import ArtifactFolder, EngineContext
from pyoco_server.engine.walk.graph import GraphWalk
from pyoco_server.engine.walk.plan import PlanError, plan_of
from pyoco_server.engine.walk.program import ProgramWalk
from pyoco_server.engine.walk.program_index import program_of
from pyoco_server.engine.walk.scheduler import Scheduler

PARALLELISM_DEFAULT = 8
# After a failure the outcome is fixed: running tasks get this long to return, then they are left behind.
STOP_GRACE_SEC = 0.5


class Engine:
    """Runs flows in threads of this process. Several runs at once are possible, each from its own thread."""

    def __init__(
        self,
        *,
        parallelism: int = PARALLELISM_DEFAULT,
        listener: Listener | None = None,
        may_start: Callable[[], bool] | None = None,
        lone_tasks_here: bool = False,
        receive: Receive = receive,
        recruit_after_sec: float = RECRUIT_AFTER_SEC,
        mailbox: Callable[[], SimpleQueue[Event]] = SimpleQueue,
        is_quiet: Callable[[], bool] = lambda: True,
        machine: Machine | None = None,
    ) -> None:
        """`may_start` is called before each attempt at a task, in any thread. While it returns False, no task
        is started; `wake` makes the engine call it again at once.

        With `lone_tasks_here` the calling thread itself executes a task that has no other task beside it;
        `abandon` then does not end the call before such a task has returned. `receive` waits for an event in
        a `mailbox`. Ready tasks begin in one thread; after `recruit_after_sec` each of the others gets its
        own. While `is_quiet` returns False, the start of each task is reported before it begins.
        """
        self._limits = RunLimits(
            parallelism,
            may_start=may_start,
            lone_tasks_here=lone_tasks_here,
            receive=receive,
            recruit_after_sec=recruit_after_sec,
            mailbox=mailbox,
            is_quiet=is_quiet,
            machine=machine or Machine(),
        )
        self._listener = listener if listener is not None else Listener()
        self._registry = RunRegistry()

    def run(
        self,
        flow: Flow,
        params: Mapping[str, object] | None = None,
        run_context: RunContext | None = None,
        *,
        recorded: Mapping[str, object] | None = None,
        failures: Mapping[str, str] | None = None,
        artifact_dir: Path | None = None,
        timeout_sec: float | None = None,
    ) -> RunOutcome:
        """Block until the run has ended. Raises what the listener raises, and nothing that user code raises.

        `recorded`, `failures`: results and errors of tasks from an earlier claim of the run. A failure is
        used where it is final (a wait, a task that fails alone); other failed tasks are executed again.
        """
        limits = self._limits if timeout_sec is None else replace(self._limits, timeout_sec=timeout_sec)
        run_context = run_context if run_context is not None else RunContext(flow_name=flow.name)
        run_context.params = dict(params or {})
        control = Control(run_context, limits.mailbox)
        self._registry.add(control)
        try:
            checkpoints = Checkpoints(dict(recorded or {}), dict(failures or {}))
            run = _EngineRun(flow, control, self._listener, limits, checkpoints, artifact_dir)
            return run.perform()
        finally:
            self._registry.remove(control)

    def cancel(self, run_id: str) -> None:
        """Start no further task and ask running ones to return. Callable before the run has begun."""
        for control in self._registry.find_or_cancel_early(run_id):
            control.cancel()

    def abandon(self, run_id: str) -> None:
        """Cancel, and do not wait for running tasks: their threads are left behind, their results ignored."""
        for control in self._registry.find_or_cancel_early(run_id):
            control.abandon()

    def grant(self, _run_id: str, _until: float) -> None:
        """`may_start` may return True again."""
        self.wake()

    def wake(self) -> None:
        """Call `may_start` again, in every run that it holds."""
        self._registry.wake()

    def answer(self, run_id: str, name: str, answer: WaitAnswer) -> None:
        """A wait has ended, and its end is in the log. Callable before the run has reached the wait."""
        self._registry.answer(run_id, name, answer)


class _EngineRun:
    """One call of `Engine.run`: the order of its steps, and what each ending means."""

    def __init__(
        self,
        flow: Flow,
        control: Control,
        listener: Listener,
        limits: RunLimits,
        checkpoints: Checkpoints,
        artifact_dir: Path | None,
    ) -> None:
        self._flow = flow
        self._control = control
        self._checkpoints = checkpoints
        self._folder = ArtifactFolder(artifact_dir)
        run = control.run_context
        self._ctx = EngineContext(run.params, run, self._folder, lambda: control.is_stopping)
        self._reporter = Reporter(run, listener)
        self._scheduler = Scheduler(control, self._ctx, self._reporter, limits)

    def perform(self) -> RunOutcome:
        outcome = None
        with closing(self._folder):
            try:
                outcome = self._conclude(self._ending())
            finally:
                if outcome is None:
                    self._stop_tasks()
        return outcome

    def _stop_tasks(self) -> None:
        """The listener has raised, or this thread was interrupted."""
        self._reporter.mute()
        self._scheduler.wind_down(STOP_GRACE_SEC)
        self._control.close(OutcomeStatus.ABANDONED)

    def _ending(self) -> Ending:
        try:
            return self._walk_and_wind_down()
        except StopRun as stop:
            self._reporter.mute()
            self._scheduler.wind_down()
            return Ending(OutcomeStatus.ABANDONED, str(stop) or None)

    def _walk_and_wind_down(self) -> Ending:
        try:
            self._walk()
        except Halt as halt:
            if halt.ending.status is OutcomeStatus.PARKED:
                return halt.ending  # nothing runs, and the rest is executed later
            is_failure = halt.ending.status is OutcomeStatus.FAILED
            self._scheduler.wind_down(STOP_GRACE_SEC if is_failure else math.inf)
            return halt.ending
        return Ending(OutcomeStatus.COMPLETED)

    def _walk(self) -> None:
        walk = self._make_walk()
        if walk.needs:
            self._reporter.report_wired(walk.needs, walk.any_of)
        self._reporter.report_planned(walk.names, self._checkpoints.results, walk.last)
        walk.run(self._checkpoints)

    def _make_walk(self) -> GraphWalk | ProgramWalk:
        try:
            if self._flow.has_control_flow():
                return ProgramWalk(program_of(self._flow), self._ctx, self._scheduler, self._reporter)
            return GraphWalk(plan_of(self._flow), self._scheduler, self._reporter)
        except PlanError as error:
            self._reporter.report_planned(sorted({task.name for task in self._flow.tasks}))
            raise Halt(Ending(OutcomeStatus.FAILED, str(error))) from error

    def _conclude(self, ending: Ending) -> RunOutcome:
        status = self._control.close(ending.status)
        results = dict(self._ctx.results)  # a copy: tasks left behind still use the context
        left = self._scheduler.left_behind
        if status is not ending.status:  # a cancel arrived before the end was fixed
            return RunOutcome(status, results, self._ctx, left_behind=left)
        return RunOutcome(
            status,
            results,
            self._ctx,
            ending.error,
            ending.failed_task,
            ending.traceback,
            ending.cause,
            left_behind=left,
            waiting=self._scheduler.open_waits if status is OutcomeStatus.PARKED else (),
        )
