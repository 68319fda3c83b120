"""The engine's interface: run a flow, cancel or abandon a run, answer its waits. Owns the live runs."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyoco.core.models import Flow, RunContext

from pyoco_server.engine.control import Control, RunRegistry
from pyoco_server.engine.limits import Checkpoints, Receive, RunLimits, receive
from pyoco_server.engine.listener import Listener, WaitAnswer
from pyoco_server.engine.outcome import RunOutcome
from pyoco_server.engine.run import EngineRun

PARALLELISM_DEFAULT = 8


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
    ) -> None:
        """`may_start` is called before each attempt at a task. While it returns False, no task is started;
        `wake` makes the engine call it again at once.

        With `lone_tasks_here` the calling thread itself executes a task that has no other task beside it;
        `abandon` then does not end the call before such a task has returned. `receive` waits for an event.
        """
        self._limits = RunLimits(
            parallelism, may_start=may_start, lone_tasks_here=lone_tasks_here, receive=receive
        )
        self._listener = listener if listener is not None else Listener()
        self._registry = RunRegistry()

    def run(
        self,
        flow: Flow,
        params: Mapping[str, Any] | None = None,
        run_context: RunContext | None = None,
        *,
        recorded: Mapping[str, Any] | None = None,
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
        control = Control(run_context)
        self._registry.add(control)
        try:
            checkpoints = Checkpoints(dict(recorded or {}), dict(failures or {}))
            run = EngineRun(flow, control, self._listener, limits, checkpoints, artifact_dir)
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
