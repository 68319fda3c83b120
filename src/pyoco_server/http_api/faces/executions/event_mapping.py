"""Maps events of the core to events of this face, with their payloads. Pure.

Events without a type here (claims, losses, parking, tags) are left out, and so are events that changed
nothing, such as a success that was committed after a cancel.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum

import msgspec

from pyoco_server.http_api.faces.executions import wire
from pyoco_server.json_value import JsonObject
from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.reduce import Folding
from pyoco_server.lifecycle.run import Run, TaskRecord
from pyoco_server.lifecycle.status import Driver, RunStatus, TaskStatus
from pyoco_server.lifecycle.task_board import TaskEvent


class EventType(StrEnum):
    """A closed set. A few are reserved by the contract and never produced."""

    EXECUTION_CREATED = "EXECUTION_CREATED"
    EXECUTION_STARTED = "EXECUTION_STARTED"
    EXECUTION_COMPLETED = "EXECUTION_COMPLETED"
    EXECUTION_FAIL_REQUESTED = "EXECUTION_FAIL_REQUESTED"
    EXECUTION_FAILED = "EXECUTION_FAILED"
    EXECUTION_CANCEL_REQUESTED = "EXECUTION_CANCEL_REQUESTED"
    EXECUTION_CANCELED = "EXECUTION_CANCELED"
    EXECUTION_ARCHIVED = "EXECUTION_ARCHIVED"
    NODE_CREATED = "NODE_CREATED"
    NODE_READY = "NODE_READY"
    NODE_STARTED = "NODE_STARTED"
    NODE_PROGRESS_REPORTED = "NODE_PROGRESS_REPORTED"
    NODE_WAITING = "NODE_WAITING"
    NODE_RESUME_REQUESTED = "NODE_RESUME_REQUESTED"
    NODE_RESUMED = "NODE_RESUMED"
    NODE_SUCCEEDED = "NODE_SUCCEEDED"
    NODE_FAIL_REPORTED = "NODE_FAIL_REPORTED"
    NODE_FAILED = "NODE_FAILED"
    NODE_CANCEL_REQUESTED = "NODE_CANCEL_REQUESTED"
    NODE_CANCELED = "NODE_CANCELED"
    NODE_INTERRUPT_REQUESTED = "NODE_INTERRUPT_REQUESTED"
    FORK_OPENED = "FORK_OPENED"
    JOIN_GATE_UPDATED = "JOIN_GATE_UPDATED"
    JOIN_PASSED = "JOIN_PASSED"


_ENDS = (e.RunCompleted, e.RunFailed, e.RunCancelled)
_UNFINISHED = frozenset(state for state in TaskStatus if not state.is_finished)

Kinds = type[e.Event] | tuple[type[e.Event], ...]


class MappedEvent(msgspec.Struct, frozen=True):
    type: EventType
    at: float
    payload: JsonObject


class EventMapping:
    """Takes events of the core, returns events of this face, and keeps the run that they fold into."""

    def __init__(self, run: Run | None = None) -> None:
        self._folding = Folding(run)

    @property
    def run(self) -> Run | None:
        return self._folding.run

    def add(self, event: e.Event) -> list[MappedEvent]:
        before = self._folding.run
        if before is None:
            self._folding.add((event,))
            return _begun(event)
        if isinstance(event, e.TasksPlanned):
            return self._planned(before, event)
        return self._task(before, event) if isinstance(event, TaskEvent) else self._whole(before, event)

    def _planned(self, before: Run, event: e.TasksPlanned) -> list[MappedEvent]:
        new = dict.fromkeys(name for name in event.tasks if name not in before.tasks)
        self._folding.add((event,))
        return [_created(name, event.at) for name in new if name in self._tasks]

    @property
    def _tasks(self) -> dict[str, TaskRecord]:
        run = self._folding.run
        return run.tasks if run is not None else {}

    def _task(self, before: Run, event: TaskEvent) -> list[MappedEvent]:
        assert not isinstance(event, e.TasksPlanned)
        known = before.tasks.get(event.task)
        self._folding.add((event,))
        record = self._tasks.get(event.task)
        if record is None or record == known:
            return []
        mapped = _of_task(event, record)
        return [mapped] if known is not None else [_created(event.task, event.at), mapped]

    def _whole(self, before: Run, event: e.Event) -> list[MappedEvent]:
        """Events about the run, not about one task. States of tasks are read before the event is folded."""
        running = _in_states(before, event, e.CancelRequested, {TaskStatus.RUNNING})
        unfinished = _in_states(before, event, _ENDS, _UNFINISHED)
        self._folding.add((event,))
        after = self._folding.run
        assert after is not None
        match event:
            case e.RunStarted() if before.started_at is None and before.driver is Driver.CLIENT:
                return [MappedEvent(EventType.EXECUTION_STARTED, event.at, {})]
            case e.CancelRequested() if before.cancel is None and after.cancel is not None:
                interrupted = (
                    _of_node(EventType.NODE_INTERRUPT_REQUESTED, name, event.at) for name in running
                )
                return [_cancel_requested(event), *interrupted]
            case e.RunArchived() if after.archived and not before.archived:
                return [MappedEvent(EventType.EXECUTION_ARCHIVED, event.at, {})]
            case _ if after.ended is not None and before.ended is None and not after.gone:
                return [*_closed(after, unfinished, event.at), _ended(after, event.at)]
        return []


def _begun(event: e.Event) -> list[MappedEvent]:
    if not isinstance(event, e.RunSubmitted):
        return []
    payload: JsonObject = {
        "graphId": wire.graph_id(event.flow_name, event.driver),
        "graphVersion": event.graph.version if event.graph else None,
        "driver": event.driver,
        "input": event.params,
    }
    created = MappedEvent(EventType.EXECUTION_CREATED, event.at, payload)
    if event.driver is Driver.WORKER:
        return [created, MappedEvent(EventType.EXECUTION_STARTED, event.at, {})]
    nodes = event.graph.nodes if event.graph else ()
    return [created, *(_created(node.id, event.at) for node in nodes)]


def _of_task(event: TaskEvent, record: TaskRecord) -> MappedEvent:
    payload: JsonObject
    match event:
        case e.TaskReadied():
            return _of_node(EventType.NODE_READY, event.task, event.at)
        case e.TaskStarted():
            payload = {"attempt": record.attempt, "workerId": event.worker_id}
            payload |= _if_set("deadlineAt", wire.instant_or_none(event.deadline_at))
            return _of_node(EventType.NODE_STARTED, event.task, event.at, payload)
        case e.TaskProgressed():
            payload = {"progress": wire.plain_number(event.progress), "message": event.message}
            return _of_node(EventType.NODE_PROGRESS_REPORTED, event.task, event.at, payload)
        case e.TaskWaiting():
            payload = {"attempt": record.attempt, "waitKey": event.wait_key, "prompt": event.prompt}
            payload |= _if_set("deadlineAt", wire.instant_or_none(event.deadline_at))
            return _of_node(EventType.NODE_WAITING, event.task, event.at, payload)
        case e.TaskResumed():
            return _of_node(EventType.NODE_RESUMED, event.task, event.at, _answer(event))
        case e.TaskSucceeded():
            payload = {"attempt": record.attempt, "output": record.output}
            payload |= {"startedAt": wire.instant_or_none(record.started_at)}
            return _of_node(EventType.NODE_SUCCEEDED, event.task, event.at, payload)
        case e.TaskFailed():
            return _of_node(EventType.NODE_FAILED, event.task, event.at, _failure(event, record))
        case e.TaskCancelled():
            return _of_node(EventType.NODE_CANCELED, event.task, event.at, {"canceledByExecution": False})
    raise AssertionError(f"no type for {type(event).__name__}")


def _answer(event: e.TaskResumed) -> JsonObject:
    payload: JsonObject = {"payload": event.payload}
    if event.rejected:
        payload["decision"] = "reject"
    return payload | _if_set("by", event.by) | _if_set("comment", event.comment)


def _failure(event: e.TaskFailed, record: TaskRecord) -> JsonObject:
    payload: JsonObject = {"attempt": record.attempt, "error": wire.error_of(record)}
    payload["willRetry"] = event.will_retry
    payload |= {"startedAt": wire.instant_or_none(record.started_at)}
    return payload | _if_set("retryAt", wire.instant_or_none(event.retry_at))


def _cancel_requested(event: e.CancelRequested) -> MappedEvent:
    payload = _if_set("by", event.by) | _if_set("reason", event.reason)
    return MappedEvent(EventType.EXECUTION_CANCEL_REQUESTED, event.at, payload)


def _closed(after: Run, unfinished: Iterable[str], at: float) -> list[MappedEvent]:
    """Nodes that the end cancelled. Branches that were not taken may keep their state."""
    payload: JsonObject = {"canceledByExecution": after.ended is RunStatus.CANCELLED}
    gone = (name for name in unfinished if after.tasks[name].state is TaskStatus.CANCELLED)
    return [_of_node(EventType.NODE_CANCELED, name, at, payload) for name in gone]


def _ended(after: Run, at: float) -> MappedEvent:
    match after.ended:
        case RunStatus.COMPLETED:
            return MappedEvent(EventType.EXECUTION_COMPLETED, at, {})
        case RunStatus.CANCELLED:
            return MappedEvent(EventType.EXECUTION_CANCELED, at, {})
        case _:
            return MappedEvent(EventType.EXECUTION_FAILED, at, {"error": wire.run_error(after)})


def _created(name: str, at: float) -> MappedEvent:
    return _of_node(EventType.NODE_CREATED, name, at)


def _of_node(kind: EventType, name: str, at: float, payload: JsonObject | None = None) -> MappedEvent:
    return MappedEvent(kind, at, {"nodeId": name} | (payload or {}))


def _in_states(run: Run, event: e.Event, of: Kinds, states: Collection[TaskStatus]) -> list[str]:
    """Tasks in one of these states, if the event is of such a kind: a search through all costs time."""
    return [name for name, one in run.tasks.items() if one.state in states] if isinstance(event, of) else []


def _if_set(name: str, value: object) -> JsonObject:
    return {} if value is None else {name: value}
