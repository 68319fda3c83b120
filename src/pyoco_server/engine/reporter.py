"""Records what happens to a run's tasks, then calls the listener. Owns pyoco's task states and records."""

from collections.abc import Callable, Collection, Container, Mapping, Sequence

from pyoco.core.models import RunContext, TaskState

from pyoco_server import clock
from pyoco_server.engine.listener import Listener, WaitPrompt
from pyoco_server.engine.tasks.attempt import TaskAttempt
from pyoco_server.engine.tasks.failure import Failure


class Reporter:
    """After `mute` (the listener has raised) it still records, and does not call the listener."""

    def __init__(self, run_context: RunContext, listener: Listener) -> None:
        self._run = run_context
        self._listener = listener
        self._unfinished: dict[str, None] = {}  # in the planned order

    def mute(self) -> None:
        self._listener = Listener()

    def report_wired(self, needs: Mapping[str, Sequence[str]], any_of: Sequence[str]) -> None:
        self._listener.wired(needs, any_of)

    def report_planned(
        self, names: Sequence[str], recorded: Container[str] = (), last: Sequence[str] = ()
    ) -> None:
        """Tasks that an earlier claim has recorded are finished, also if this claim does not reach them."""
        for name in names:
            self._run.tasks[name] = TaskState.PENDING
            self._run.ensure_task_record(name)
        self._unfinished = {name: None for name in names if name not in recorded}
        self._listener.planned(names, last)

    def report_recorded(self, name: str, output: object) -> None:
        """A result of an earlier claim of this run: recorded here, not reported again."""
        self._finish(name, TaskState.SUCCEEDED)
        self._run.ensure_task_record(name).output = output

    def report_recorded_failure(self, name: str, failure: Failure) -> None:
        self._finish(name, TaskState.FAILED)
        self._run.ensure_task_record(name).error = failure.error

    def report_waiting(self, attempt: TaskAttempt, prompt: WaitPrompt) -> None:
        """pyoco has no such state: a waiting task is RUNNING there."""
        self._begin(attempt, prompt.prompt)
        self._listener.task_waiting(attempt.name, attempt.number, prompt)

    def copy_inputs(self, name: str, of: str) -> None:
        self._run.ensure_task_record(name).inputs = self._run.ensure_task_record(of).inputs

    def report_started(self, attempt: TaskAttempt, inputs: Mapping[str, object]) -> None:
        self._begin(attempt, inputs)
        self._listener.task_started(attempt.name, attempt.number, inputs, attempt.started_at)

    def report_succeeded(
        self, attempt: TaskAttempt, output: object, ended_at: float, ack: Callable[[], None]
    ) -> None:
        name = attempt.name
        self._finish(name, TaskState.SUCCEEDED, attempt.started_at, ended_at)
        self._run.ensure_task_record(name).output = output
        self._listener.task_succeeded(name, attempt.number, output, attempt.started_at, ended_at, ack)

    def report_failed(
        self, attempt: TaskAttempt, failure: Failure, ended_at: float, will_retry: bool = False
    ) -> None:
        name, started_at = attempt.name, attempt.started_at
        self._finish(name, TaskState.FAILED, started_at, ended_at)
        if will_retry:
            # The record is FAILED until the next attempt, as in pyoco.
            self._run.tasks[name] = TaskState.RUNNING
            self._unfinished[name] = None
        record = self._run.ensure_task_record(name)
        record.error, record.traceback = failure.error, failure.traceback
        self._listener.task_failed(
            name, attempt.number, failure.error, failure.traceback, started_at, ended_at, will_retry
        )

    def report_not_run(self, name: str, because_of: str, *, is_known: bool = False) -> None:
        """The task can never start: a failure of attempt 0, unless an earlier claim has reported it."""
        now = clock.now()
        error = f"Not run, because task '{because_of}' failed"
        self._finish(name, TaskState.FAILED, ended_at=now)
        self._run.ensure_task_record(name).error = error
        if not is_known:
            self._listener.task_failed(name, 0, error, "", now, now, False)

    def report_cancelled(self, name: str) -> None:
        self._finish(name, TaskState.CANCELLED, ended_at=clock.now())
        self._listener.task_cancelled(name)

    def cancel_all_but(self, running: Collection[str]) -> None:
        for name in [name for name in self._unfinished if name not in running]:
            self.report_cancelled(name)

    def _begin(self, attempt: TaskAttempt, inputs: Mapping[str, object]) -> None:
        name = attempt.name
        self._unfinished[name] = None
        self._run.tasks[name] = TaskState.RUNNING
        record = self._run.ensure_task_record(name)
        record.state, record.started_at = TaskState.RUNNING, attempt.started_at
        record.error = record.traceback = None
        record.inputs = dict(inputs)

    def _finish(
        self, name: str, state: TaskState, started_at: float | None = None, ended_at: float | None = None
    ) -> None:
        self._unfinished.pop(name, None)
        self._run.tasks[name] = state
        record = self._run.ensure_task_record(name)
        record.state, record.ended_at = state, ended_at
        if started_at is not None and ended_at is not None:
            record.duration_ms = max(0.0, ended_at - started_at) * 1000
