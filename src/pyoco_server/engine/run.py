"""One run from its first callback to its outcome. Owns the order of steps and what each ending means."""

import math
from contextlib import closing
from pathlib import Path

from pyoco.core.models import Flow

from pyoco_server.engine.control import Control
from pyoco_server.engine.limits import Checkpoints, RunLimits
from pyoco_server.engine.listener import Listener, StopRun
from pyoco_server.engine.outcome import Ending, Halt, OutcomeStatus, RunOutcome
from pyoco_server.engine.reporter import Reporter
from pyoco_server.engine.tasks.context import ArtifactFolder, EngineContext
from pyoco_server.engine.walk.graph import GraphWalk
from pyoco_server.engine.walk.plan import PlanError, plan_of
from pyoco_server.engine.walk.program import ProgramWalk
from pyoco_server.engine.walk.program_index import program_of
from pyoco_server.engine.walk.scheduler import Scheduler

# After a failure the outcome is fixed: running tasks get this long to return, then they are left behind.
STOP_GRACE_SEC = 0.5


class EngineRun:
    """Made for one call of `Engine.run`."""

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
