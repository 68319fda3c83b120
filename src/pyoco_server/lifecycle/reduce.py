"""What is the state after this event? Pure and total: any event on any state gives a state.

It accepts any log. A second submission does not restart a run, a terminal run stays as it ended, a late
success changes nothing, an unknown event changes nothing. And `_ended` is the second lock of *cancel wins*:
whatever end an event names, a run with a cancel request ends CANCELLED.
"""

from collections.abc import Iterable, Sequence
from typing import TypeGuard

from msgspec.structs import replace

from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.due import due_after, due_at_of
from pyoco_server.lifecycle.graph import last_of
from pyoco_server.lifecycle.run import (
    ERROR_CHARS_MAX,
    NEW_TASK,
    CancelAsked,
    Claim,
    Lack,
    Run,
    RunId,
    TaskRecord,
    Wait,
)
from pyoco_server.lifecycle.snapshot_size import SnapshotSizes, measure_submitted
from pyoco_server.lifecycle.status import Driver, LossCause, RunStatus
from pyoco_server.lifecycle.task_board import TASK_EVENTS, TaskBoard, TaskEvent


def reduce(run: Run | None, event: e.Event) -> Run | None:
    return fold(run, (event,))


def fold(run: Run | None, events: Iterable[e.Event]) -> Run | None:
    """Reduce several events, in time linear in their number."""
    folding = Folding(run)
    folding.add(events)
    return folding.run


def fold_unmeasured(run: Run | None, events: Iterable[e.Event]) -> Run | None:
    """As `fold`, without the sizes of its snapshot: for a run that is only shown."""
    board: TaskBoard | None = None
    for event in events:
        if run is None:
            run = _begun(event)
            continue
        if board is None:
            board = TaskBoard(run.tasks, _ignore_record)
        run = _step(run, event, board)
    if run is not None and board is not None and board.changed and run.tasks is not board.records:
        return replace(run, tasks=board.records)
    return run


def fold_listed(run: Run | None, events: Sequence[e.Event]) -> Run | None:
    """As `fold`, for a run without its tasks, as lists keep it. Its last tasks and its sizes are not kept.

    Nearly all events are of tasks. Of a run without waits and without deadlines they only set `updated_at`.
    """
    before, touched_at = run, 0.0
    for event in events:
        if type(event) is e.TaskWaiting:
            return fold_unmeasured(before, events)  # whether a task waits depends on its other events
        if run is None or not _only_touches(run, event):
            run = fold_unmeasured(run, (event,))
        elif not run.is_terminal and not run.gone:
            touched_at = max(touched_at, event.at)
    return run if run is None or touched_at <= run.updated_at else replace(run, updated_at=touched_at)


def _ignore_record(_task: str, _old: TaskRecord | None, _new: TaskRecord) -> None:
    return


def _only_touches(run: Run, event: e.Event) -> bool:
    if not isinstance(event, TASK_EVENTS) or run.waits or run.due or run.parked:
        return False
    return isinstance(event, e.TasksPlanned) or due_at_of(event) is None


def _only_changes_record(event: e.Event, run: Run) -> TypeGuard[e.TaskSucceeded | e.TaskStarted]:
    """Besides the record of its task, the event only sets `updated_at`. For the two most frequent events."""
    kind = type(event)
    if kind is not e.TaskSucceeded and (kind is not e.TaskStarted or _has_deadline(event)):
        return False
    is_over = run.ended is not None or run.gone or run.cancel is not None
    return not (is_over or run.waits or run.due or run.parked)


def _has_deadline(event: e.Event) -> bool:
    return isinstance(event, e.TaskStarted) and event.deadline_at is not None


class Folding:
    """A run while several events are folded into it. Its tasks are copied once for all events."""

    def __init__(self, run: Run | None) -> None:
        self._run = run
        self._board: TaskBoard | None = None
        self._sizes: SnapshotSizes | None = None
        self._touched_at = 0.0  # by events that have changed nothing else outside of the tasks

    def add(self, events: Iterable[e.Event]) -> None:
        started: e.TaskStarted | None = None  # not folded yet: the success of the same attempt may follow
        for event in events:
            if started is not None:
                if type(event) is e.TaskSucceeded and self._add_both(started, event):
                    started = None
                    continue
                self._add(started)
                started = None
            if type(event) is e.TaskStarted:
                started = event
            else:
                self._add(event)
        if started is not None:
            self._add(started)

    def _add(self, event: e.Event) -> None:
        if self._run is None:
            begun = _begun(event)
            if begun is not None and isinstance(event, e.RunSubmitted):
                begun = measure_submitted(begun, event)
            self._run = begun
            return
        board, sizes = self._prepare(self._run)
        before = self._run
        if _only_changes_record(event, before):
            board.apply(event)
            self._touch(event.at)
        else:
            self._run = _step(before, event, board)
        sizes.after_event(before, self._run, event)

    def _add_both(self, started: e.TaskStarted, succeeded: e.TaskSucceeded) -> bool:
        """Start and success of one attempt in one step, which takes half the time. False: not these two."""
        run = self._run
        if run is None or not _only_changes_record(started, run):
            return False
        board, sizes = self._prepare(run)
        if not board.start_and_succeed(started, succeeded):
            return False
        self._touch(started.at)
        self._touch(succeeded.at)
        sizes.after_event(run, run, succeeded)
        return True

    def _prepare(self, run: Run) -> tuple[TaskBoard, SnapshotSizes]:
        if self._board is None or self._sizes is None:
            self._sizes = SnapshotSizes(run)
            self._board = TaskBoard(run.tasks, self._sizes.put)
        return self._board, self._sizes

    def _touch(self, at: float) -> None:
        if at > self._touched_at:
            self._touched_at = at

    @property
    def run(self) -> Run | None:
        """The current state. Its tasks change when more events are added."""
        run, board, sizes = self._run, self._board, self._sizes
        if run is not None and board is not None and sizes is not None:
            updated_at = max(self._touched_at, run.updated_at)
            self._run = run = sizes.write_to(run, board.records, updated_at)
        return run

    @property
    def unsized(self) -> Run | None:
        """The same, but its sizes and `updated_at` may be old. Decisions do not use them."""
        run, board = self._run, self._board
        if run is not None and board is not None and board.changed and run.tasks is not board.records:
            self._run = run = replace(run, tasks=board.records)
        return run


def _begun(event: e.Event) -> Run | None:
    match event:
        case e.RunSubmitted():
            tasks = event.graph.nodes if event.graph else ()
            return Run(
                run_id=RunId(event.run_id),
                flow_name=event.flow_name,
                params=event.params,
                tag=event.tag,
                tags=tuple(event.tags),
                submitted_at=event.at,
                updated_at=event.at,
                tenant_id=event.tenant_id,
                api_key_id=event.api_key_id,
                workflow_yaml_sha256=event.workflow_yaml_sha256,
                workflow_yaml_bytes=event.workflow_yaml_bytes,
                correlation_id=event.correlation_id,
                traceparent=event.traceparent,
                retry_of=event.retry_of,
                retry_from=event.retry_from,
                start_at=event.start_at,
                expires_at=event.expires_at,
                schedule_id=event.schedule_id,
                batch_id=event.batch_id,
                driver=event.driver,
                graph=event.graph,
                job_owed_since=event.at if event.driver is Driver.WORKER else None,
                tasks={task.id: NEW_TASK for task in tasks},
                last_tasks=last_of(event.graph) if event.graph else (),
            )
        case _:
            return None


def _step(run: Run, event: e.Event, board: TaskBoard) -> Run:
    if run.gone:
        return run
    if isinstance(event, TASK_EVENTS):  # first, because these are nearly all events
        return run if run.is_terminal else _task_step(run, event, board)
    match event:
        case e.RunErased():
            over = run if run.is_terminal else _ended(run, event, board, RunStatus.CANCELLED)
            return _touched(over, event, gone=True)
        case e.TagAdded():
            return run if event.tag in run.tags else _tagged(run, event)
        case e.RunArchived():
            return _touched(run, event, archived=True) if run.is_terminal and not run.archived else run
        case e.TagRemoved():
            return _touched(run, event, tags=tuple(tag for tag in run.tags if tag != event.tag))
        case e.RunSubmitted() | e.UnknownEvent():
            return run
        case _:
            return run if run.is_terminal else _live_step(run, event, board)


def _live_step(run: Run, event: e.Event, board: TaskBoard) -> Run:
    match event:
        case e.RunDiscarded():
            return _touched(_ended(run, event, board, RunStatus.FAILED), event, gone=True, reason="discarded")
        case e.RunStarted():
            return _touched(run, event, started_at=event.at) if run.started_at is None else run
        case e.RunClaimed():
            return _claimed(run, event)
        case e.RunLost():
            return _lost(run, event, board)
        case e.RunRequeued():
            return _touched(run, event, **_new_job(run, event.at))
        case e.RunParked():
            return _touched(run, event, parked=True, claim=None)
        case e.CancelRequested():
            return _cancel_asked(run, event)
        case e.RunCompleted():
            return _ended(run, event, board, RunStatus.COMPLETED)
        case e.RunFailed():
            return _failed(run, event, board)
        case e.RunCancelled():
            return _ended(run, event, board, RunStatus.CANCELLED)
        case _:
            return run


def _task_step(run: Run, event: TaskEvent, board: TaskBoard) -> Run:
    instant = None if isinstance(event, e.TasksPlanned) else due_at_of(event)
    if run.cancel is not None:
        return _touched(run, event)
    board.apply(event)
    if isinstance(event, e.TasksPlanned):
        if not event.last or run.lacks >= Lack.RECORDS:
            return _touched(run, event)
        return _touched(run, event, last_tasks=tuple(dict.fromkeys((*run.last_tasks, *event.last))))
    if run.waits or isinstance(event, e.TaskWaiting):
        run = replace(run, waits=_waits_after(run, event.task, board))
    if run.parked and isinstance(event, e.TaskResumed | e.TaskSucceeded | e.TaskFailed):
        # No worker holds a parked run, so a wait has ended. A worker must continue it: it needs a new job.
        run = replace(run, parked=False, **_new_job(run, event.at))
    if run.due or instant is not None:
        return _touched(run, event, due=due_after(run.due, event, instant))
    return _touched(run, event)


def _waits_after(run: Run, task: str, board: TaskBoard) -> dict[str, Wait]:
    wait = board.records[task].wait if task in board.records else None
    others = {name: one for name, one in run.waits.items() if name != task}
    return others if wait is None else others | {task: wait}


def _tagged(run: Run, event: e.TagAdded) -> Run:
    return _touched(run, event, tags=(*run.tags, event.tag))


def _claimed(run: Run, event: e.RunClaimed) -> Run:
    if run.claim is not None or event.fence <= run.fence:
        return run
    claim = Claim(
        worker_id=event.worker_id, instance_id=event.instance_id, fence=event.fence, claimed_at=event.at
    )
    return _touched(
        run,
        event,
        claim=claim,
        fence=event.fence,
        worker_id=event.worker_id,
        started_at=event.at if run.started_at is None else run.started_at,
        parked=False,
        job_owed_since=None,
    )


def _lost(run: Run, event: e.RunLost, board: TaskBoard) -> Run:
    if run.claim is None or run.claim.fence != event.fence:
        return run
    board.put_back_running()
    losses = run.losses + (event.cause is LossCause.WORKER_LOST)
    crashes = run.crashes + (event.cause is LossCause.SLOT_CRASHED)
    return _touched(run, event, claim=None, losses=losses, crashes=crashes, **_new_job(run, event.at))


def _cancel_asked(run: Run, event: e.CancelRequested) -> Run:
    if run.cancel is not None:
        return run
    asked = CancelAsked(at=event.at, by=event.by, reason=event.reason)
    return _touched(run, event, cancel=asked, due={})


def _failed(run: Run, event: e.RunFailed, board: TaskBoard) -> Run:
    ended = _ended(run, event, board, RunStatus.FAILED)
    if ended.ended is not RunStatus.FAILED:
        return ended
    return replace(ended, error=event.error[:ERROR_CHARS_MAX], reason=event.reason, failed_task=event.task)


def ending_of(run: Run, wanted: RunStatus) -> RunStatus:
    """Lock two. The only place that decides how a run ends."""
    return RunStatus.CANCELLED if run.cancel is not None else wanted


def _ended(run: Run, event: e.Event, board: TaskBoard, wanted: RunStatus) -> Run:
    ended = ending_of(run, wanted)
    board.close(event.at, keep_pending=ended is RunStatus.COMPLETED)
    cleared: dict[str, object] = {"claim": None, "parked": False, "job_owed_since": None}
    cleared |= {"due": {}, "waits": {}}
    return _touched(run, event, ended=ended, ended_at=event.at, **cleared)


def _new_job(run: Run, at: float) -> dict[str, object]:
    return {"job_no": run.job_no + 1, "job_owed_since": at}


def _touched(run: Run, event: e.Event, **changes: object) -> Run:
    """Clocks of two machines differ: `updated_at` never goes back."""
    return replace(run, updated_at=max(run.updated_at, event.at), **changes)
