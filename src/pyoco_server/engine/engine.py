"""The engine's interface: run a flow, cancel or abandon a run, answer its waits. Owns the live runs."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyoco.core.models import Flow, RunContext

from pyoco_server.engine.answer import WaitAnswer
from pyoco_server.engine.checkpoints import Checkpoints
from pyoco_server.engine.control import Control, RunRegistry
from pyoco_server.engine.limits import Receive, RunLimits, receive
from pyoco_server.engine.listener import Listener, NullListener
from pyoco_server.engine.outcome import RunOutcome
from pyoco_server.engine.run import EngineRun

PARALLELISM_DEFAULT = 8


class Engine:
    """Runs flows in threads of this process; several runs at once are fine, each from its own thread."""

    def __init__(
        self,
        *,
        parallelism: int = PARALLELISM_DEFAULT,
        listener: Listener | None = None,
        may_start: Callable[[], bool] | None = None,
        lone_tasks_here: bool = False,
        receive: Receive = receive,
    ) -> None:
        """`may_start` is asked before each attempt at a task; while it is False, nothing is started.

        `wake` makes it be asked again at once.

        With `lone_tasks_here` the calling thread executes what has nothing beside it; `abandon` then does
        not end the call before such a task has returned. `receive` is how it waits for what happens.
        """
        self._limits = RunLimits(
            parallelism, may_start=may_start, lone_tasks_here=lone_tasks_here, receive=receive
        )
        self._listener = listener if listener is not None else NullListener()
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
        """Block until the run has ended. Raises only what the listener raises, never what user code does.

        `recorded`, `failures`: results and errors that tasks have from an earlier claim of the run. A failure
        is taken as it is where it is final (a wait, a task that fails alone); others are executed again.
        """
        limits = self._limits if timeout_sec is None else replace(self._limits, timeout_sec=timeout_sec)
        run_context = run_context if run_context is not None else RunContext(flow_name=flow.name)
        run_context.params = dict(params or {})
        control = Control(run_context)
        self._registry.enter(control)
        try:
            checkpoints = Checkpoints(dict(recorded or {}), dict(failures or {}))
            run = EngineRun(flow, control, self._listener, limits, checkpoints, artifact_dir)
            return run.perform()
        finally:
            self._registry.leave(control)

    def cancel(self, run_id: str) -> None:
        """Start no further task and ask running ones to return. Also for a run that has not begun yet."""
        for control in self._registry.find(run_id):
            control.cancel()

    def abandon(self, run_id: str) -> None:
        """Cancel, and stop waiting for running tasks now: their threads are left behind, results ignored."""
        for control in self._registry.find(run_id):
            control.abandon()

    def grant(self, _run_id: str, _until: float) -> None:
        """`may_start` may be True again."""
        self.wake()

    def wake(self) -> None:
        """Ask `may_start` again, in every run that is held by it."""
        self._registry.wake()

    def answer(self, run_id: str, name: str, answer: WaitAnswer) -> None:
        """A wait has ended and is in the log. Also for a run that has not begun, or not reached it yet."""
        self._registry.answer(run_id, name, answer)
