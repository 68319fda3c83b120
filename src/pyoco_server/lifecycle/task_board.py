"""The task records of a run while events are folded: copied at the first change, then changed in place."""

from collections.abc import Callable
from typing import assert_never, get_args

from msgspec.structs import replace

from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.due import OneTaskEvent
from pyoco_server.lifecycle.run import MESSAGE_CHARS_MAX, NEW_TASK, TaskRecord, Wait
from pyoco_server.lifecycle.status import TaskStatus

TaskEvent = OneTaskEvent | e.TasksPlanned
TASK_EVENTS: tuple[type[TaskEvent], ...] = get_args(TaskEvent)

OnPut = Callable[[str, TaskRecord | None, TaskRecord], None]


class TaskBoard:
    """`on_put`: called with each new record and the record that it replaces."""

    def __init__(self, records: dict[str, TaskRecord], on_put: OnPut) -> None:
        self.records = records
        self._on_put = on_put
        self.changed = False

    def apply(self, event: TaskEvent) -> None:
        match event:
            case e.TaskSucceeded():
                self._succeed(event)
            case e.TaskStarted():
                self._start(event)
            case e.TasksPlanned():
                self._plan(event)
            case e.TaskReadied():
                self._ready(event)
            case e.TaskProgressed():
                self._progress(event)
            case e.TaskFailed():
                self._fail(event)
            case e.TaskCancelled():
                self._cancel(event.task, event.at, skipped=True)
            case e.TaskWaiting():
                self._wait(event)
            case e.TaskResumed():
                self._resume(event)
            case _:
                assert_never(event)

    def start_and_succeed(self, started: e.TaskStarted, succeeded: e.TaskSucceeded) -> bool:
        """Apply both events in one step. False: they are not of one attempt, or it has started before.

        The largest size of a snapshot counts (`snapshot_size`). That is the size after the success: its
        state and how its output is kept take more bytes than the smallest output and instants save.
        """
        task, attempt = started.task, started.attempt
        is_one = task == succeeded.task and attempt == succeeded.attempt
        if not is_one or started.at != succeeded.started_at:
            return False
        record = self._of(task)
        if attempt <= record.attempt:
            return False
        ended = TaskRecord(
            state=TaskStatus.SUCCEEDED,
            attempt=attempt,
            started_at=started.at,
            ended_at=succeeded.at,
            inputs=started.inputs,
            output=succeeded.output,
            kept=succeeded.kept,
            types=succeeded.types,
            ready_at=record.ready_at,
            worker_id=started.worker_id,
        )
        self._put(task, ended)
        return True

    def put_back_running(self) -> None:
        """Their worker is gone. The next worker starts them again, with the next attempt number."""
        for name, record in list(self.records.items()):
            if record.state is TaskStatus.RUNNING:
                self._put(name, replace(record, state=TaskStatus.PENDING, ready_at=None))

    def close(self, at: float, *, keep_pending: bool) -> None:
        """Cancel the unfinished tasks of an ended run, except branches that were never taken."""
        for name, record in list(self.records.items()):
            if record.state.is_finished or (keep_pending and record.state is TaskStatus.PENDING):
                continue
            self._cancel(name, at)

    def _plan(self, event: e.TasksPlanned) -> None:
        for name in event.tasks:
            if name not in self.records:
                self._put(name, NEW_TASK)

    def _ready(self, event: e.TaskReadied) -> None:
        record = self._of(event.task)
        if record.state is TaskStatus.PENDING:
            self._put(event.task, replace(record, state=TaskStatus.READY, ready_at=event.at))

    def _start(self, event: e.TaskStarted) -> None:
        record = self._of(event.task)
        if event.attempt <= record.attempt:
            return
        started = TaskRecord(
            state=TaskStatus.RUNNING,
            attempt=event.attempt,
            started_at=event.at,
            inputs=event.inputs,
            ready_at=record.ready_at,
            worker_id=event.worker_id,
        )
        self._put(event.task, started)

    def _progress(self, event: e.TaskProgressed) -> None:
        record = self._of(event.task)
        if record.state is TaskStatus.RUNNING:
            message = event.message[:MESSAGE_CHARS_MAX] if event.message is not None else None
            self._put(event.task, replace(record, progress=event.progress, message=message))

    def _succeed(self, event: e.TaskSucceeded) -> None:
        record = self._of(event.task)
        if _is_late(event.attempt, record):
            return
        succeeded = replace(
            record,
            state=TaskStatus.SUCCEEDED,
            attempt=event.attempt,
            started_at=event.started_at,
            ended_at=event.at,
            error=None,
            traceback=None,
            code=None,
            output=event.output,
            kept=event.kept,
            types=event.types,
            wait=None,
            time_left_sec=None,
        )
        self._put(event.task, succeeded)

    def _fail(self, event: e.TaskFailed) -> None:
        record = self._of(event.task)
        if _is_late(event.attempt, record):
            return
        failed = replace(
            record,
            state=TaskStatus.PENDING if event.will_retry else TaskStatus.FAILED,
            attempt=event.attempt,
            started_at=event.started_at,
            ended_at=event.at,
            error=event.error,
            traceback=event.traceback,
            code=event.code,
            output=None,
            kept=None,
            types=None,
            wait=None,
            time_left_sec=None,
            # A new READY sets it again.
            ready_at=None if event.will_retry else record.ready_at,
        )
        self._put(event.task, failed)

    def _cancel(self, task: str, at: float, *, skipped: bool = False) -> None:
        record = self._of(task)
        if not record.state.is_finished:
            self._put(
                task,
                replace(
                    record,
                    state=TaskStatus.CANCELLED,
                    ended_at=at,
                    wait=None,
                    time_left_sec=None,
                    skipped=skipped,
                ),
            )

    def _wait(self, event: e.TaskWaiting) -> None:
        record = self._of(event.task)
        if record.state.is_finished or event.attempt < record.attempt:
            return
        wait = Wait(
            key=event.wait_key,
            since=event.at,
            attempt=event.attempt,
            prompt=event.prompt,
            deadline_at=event.deadline_at,
            on_timeout=event.on_timeout,
        )
        waiting = replace(
            record,
            state=TaskStatus.WAITING,
            attempt=event.attempt,
            started_at=event.at if event.attempt > record.attempt else record.started_at,
            wait=wait,
            waited_since=event.at,
            time_left_sec=event.time_left_sec,
        )
        self._put(event.task, waiting)

    def _resume(self, event: e.TaskResumed) -> None:
        record = self._of(event.task)
        if record.state is not TaskStatus.WAITING:
            return
        resumed = replace(
            record,
            state=TaskStatus.RUNNING,
            wait=None,
            time_left_sec=None,
            payload=event.payload,
            by=event.by,
            comment=event.comment,
        )
        self._put(event.task, resumed)

    def _of(self, task: str) -> TaskRecord:
        return self.records.get(task, NEW_TASK)

    def _put(self, task: str, record: TaskRecord) -> None:
        if not self.changed:
            self.records = dict(self.records)
            self.changed = True
        self._on_put(task, self.records.get(task), record)
        self.records[task] = record


def _is_late(attempt: int, record: TaskRecord) -> bool:
    """The first end of an attempt counts, and the end of an older attempt does not."""
    return attempt < record.attempt or (attempt == record.attempt and record.state.is_finished)
