"""One task in a snapshot: pyoco's members, then our own, and the conversion back."""

from operator import attrgetter
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from pyoco_server.json_value import JsonObject, JsonValue
from pyoco_server.lifecycle.run import ERROR_SLIM_CHARS, TaskRecord, Wait
from pyoco_server.lifecycle.status import OutputKept, TaskStatus

# Our members are in a record only if they have a value. `worker_id` and these stay in a slim record. Tasks of
# workers, which are most tasks, have none of the rare ones: one comparison finds that out.
RARE_IN_SLIM = ("ready_at", "progress", "time_left_sec", "code", "waited_since")
_LEFT_OUT = ("message", "payload", "by", "comment")
_RARE = (*RARE_IN_SLIM, *_LEFT_OUT)
_rare_of = attrgetter("skipped", *_RARE)
_NOTHING_RARE = (False, *(None,) * len(_RARE))

T = TypeVar("T")


class SnapshotRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `task_records`.

    If `kept` is `referenced`, `output` refers to the result: `{object, bytes, sha256}`.
    """

    state: TaskStatus
    started_at: float | None
    ended_at: float | None
    duration_ms: float | None
    error: str | None
    traceback: str | None
    inputs: JsonObject
    output: JsonValue
    artifacts: JsonObject
    attempt: int
    kept: OutputKept | None = None
    wait: Wait | None = None
    types: JsonObject | msgspec.UnsetType = msgspec.UNSET
    ready_at: float | msgspec.UnsetType = msgspec.UNSET
    worker_id: str | msgspec.UnsetType = msgspec.UNSET
    progress: float | msgspec.UnsetType = msgspec.UNSET
    message: str | msgspec.UnsetType = msgspec.UNSET
    time_left_sec: float | msgspec.UnsetType = msgspec.UNSET
    waited_since: float | msgspec.UnsetType = msgspec.UNSET
    code: str | msgspec.UnsetType = msgspec.UNSET
    payload: JsonValue = msgspec.UNSET
    by: str | msgspec.UnsetType = msgspec.UNSET
    comment: str | msgspec.UnsetType = msgspec.UNSET
    skipped: bool | msgspec.UnsetType = msgspec.UNSET


def record_of(record: TaskRecord, *, slim: bool) -> SnapshotRecord:
    shown = _plain_record(record, slim=slim)
    if _rare_of(record) == _NOTHING_RARE:
        return shown
    values = _values(record, RARE_IN_SLIM if slim else _RARE)
    return replace(shown, skipped=True if record.skipped else msgspec.UNSET, **values)


def record_from(shown: SnapshotRecord) -> TaskRecord:
    return TaskRecord(
        state=_state_from(shown),
        attempt=shown.attempt,
        started_at=shown.started_at,
        ended_at=shown.ended_at,
        error=shown.error,
        traceback=shown.traceback,
        inputs=shown.inputs or None,
        output=shown.output,
        kept=shown.kept,
        wait=shown.wait,
        types=None if shown.types is msgspec.UNSET else shown.types,
        skipped=shown.skipped is True,
        worker_id=_or_none(shown.worker_id),
        ready_at=_or_none(shown.ready_at),
        progress=_or_none(shown.progress),
        time_left_sec=_or_none(shown.time_left_sec),
        code=_or_none(shown.code),
        waited_since=_or_none(shown.waited_since),
        message=_or_none(shown.message),
        payload=_or_none(shown.payload),
        by=_or_none(shown.by),
        comment=_or_none(shown.comment),
    )


def shown_state(state: TaskStatus) -> TaskStatus:
    """A WAITING task is shown as RUNNING, a READY one as PENDING; other members tell them apart."""
    if state is TaskStatus.WAITING:
        return TaskStatus.RUNNING
    return TaskStatus.PENDING if state is TaskStatus.READY else state


def _plain_record(record: TaskRecord, *, slim: bool) -> SnapshotRecord:
    error = record.error
    return SnapshotRecord(
        state=shown_state(record.state),
        started_at=record.started_at,
        ended_at=record.ended_at,
        duration_ms=duration_ms(record),
        error=error[:ERROR_SLIM_CHARS] if slim and error else error,
        traceback=None if slim else record.traceback,
        inputs={} if slim else record.inputs or {},
        output=None if slim else record.output,
        artifacts={},
        attempt=record.attempt,
        kept=record.kept,
        wait=record.wait,
        types=msgspec.UNSET if slim or record.types is None else record.types,
        worker_id=msgspec.UNSET if record.worker_id is None else record.worker_id,
    )


def _state_from(shown: SnapshotRecord) -> TaskStatus:
    if shown.wait:
        return TaskStatus.WAITING
    is_ready = shown.state is TaskStatus.PENDING and shown.ready_at is not msgspec.UNSET
    return TaskStatus.READY if is_ready else shown.state


def _values(record: TaskRecord, members: tuple[str, ...]) -> dict[str, object]:
    values = ((name, getattr(record, name)) for name in members)
    return {name: value for name, value in values if value is not None}


def _or_none(value: T | msgspec.UnsetType) -> T | None:
    return None if value is msgspec.UNSET else value


def duration_ms(record: TaskRecord) -> float | None:
    if record.started_at is None or record.ended_at is None:
        return None
    return (record.ended_at - record.started_at) * 1000
