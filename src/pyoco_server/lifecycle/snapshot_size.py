"""How many bytes the stored snapshot of a run takes, kept up to date from event to event.

Three sizes: with everything (`full`), without the payloads of tasks and the graph (`slim`), and without their
records (`bare`). Each is the encoded length plus at most `ROOM_BYTES`: members whose width is known only when
the snapshot is written are counted at their widest. What an event changes is measured before and after; what
it does not change is not measured, so that folding is linear in the length of the log.

A run keeps the largest size that it has had at each step. What did not fit once stays out: a copy without it
cannot restore it, and folding the log must give the same bytes as folding on that copy.

An example: a run with one task `a`, whose output is a text of 998 characters (1,000 bytes of JSON).

                   full  slim  bare
    RunSubmitted    807   807   807
    RunClaimed      865   865   865   the claim is in every snapshot
    TasksPlanned   1063  1063   879   `a` adds a record of 198 bytes, or 14 for its name and state
    TaskStarted    1062  1062   879
    TaskSucceeded  2067  1071   881   the output is in `full` only, in place of `null`
    RunCompleted   2017  1021   831   the claim is gone; the largest sizes stay 2067, 1071 and 881

With a limit of 1,500 bytes the stored snapshot leaves out payloads, because 2067 > 1500 >= 1071. With a limit
of 1,000 bytes it also leaves out records.
"""

from collections.abc import Callable, Collection
from functools import lru_cache
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.graph import named_only
from pyoco_server.lifecycle.run import ERROR_SLIM_CHARS, NEW_TASK, Claim, Run, TaskRecord
from pyoco_server.lifecycle.snapshot import snapshot_of, usual_attempt
from pyoco_server.lifecycle.snapshot_record import RARE_IN_SLIM, duration_ms, shown_state
from pyoco_server.lifecycle.status import OutputKept, RunStatus, TaskStatus
from pyoco_server.lifecycle.task_board import TASK_EVENTS

# For `commits`, `log_seq`, both clocks, `lacks` and `sizes` at their widest (19 digits, 24 for a float), for
# the names of members that are left out while they are empty, and for one more comma in each of these.
ROOM_BYTES = 320

_NO_LIMIT = 2**62
_encode = msgspec.json.Encoder().encode
# What can change in a snapshot, except tasks, `due`, `last_tasks` and clocks.
_head_of = attrgetter(
    "tags",
    "worker_id",
    "ended",
    "started_at",
    "ended_at",
    "error",
    "reason",
    "failed_task",
    "cancel",
    "claim",
    "fence",
    "job_no",
    "job_owed_since",
    "losses",
    "crashes",
    "parked",
    "gone",
    "archived",
)
_kept_of = attrgetter(*RARE_IN_SLIM)
_NOTHING_KEPT = (None,) * len(RARE_IN_SLIM)
# Payloads of a task besides its output and its inputs.
_rare_of = attrgetter("traceback", "types", "error", "message", "payload", "by", "comment")
_NOTHING_RARE = (None,) * 7

_NULL_BYTES = len(b"null")
_EMPTY_BYTES = len(b"{}")
_MEMBER_BYTES = len(b',"":')  # besides its name and its value
_PLAIN_MEMBERS = (
    *("state", "started_at", "ended_at", "duration_ms", "error", "traceback"),
    *("inputs", "output", "artifacts", "attempt", "kept", "wait"),
)
# A record without the values of the members that `_record_bytes` measures, and without payloads.
_FRAME_BYTES = sum(len(name) + _MEMBER_BYTES for name in _PLAIN_MEMBERS) + 1
_FRAME_BYTES += 2 * _NULL_BYTES + 2 * _EMPTY_BYTES
# Brackets and commas of the array in which `_record_bytes` encodes these values together.
_ARRAY_BYTES = 9
_ENTRY_BYTES = len(b':"",')  # of `tasks`, besides the name and the state
_WORKER_ID_BYTES = len("worker_id") + _MEMBER_BYTES  # without its value, as the following
_KEPT_BYTES = tuple(len(name) + _MEMBER_BYTES for name in RARE_IN_SLIM)
_SKIPPED_BYTES = len(b',"skipped":true')


class _Head(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What events change in a snapshot besides tasks, with the names and the defaults that it has there.

    Members without a default are always in a snapshot. `ended` is there twice: as `status` too.
    """

    tags: tuple[str, ...]
    worker_id: str | None
    status: RunStatus
    start_time: float | None
    end_time: float | None
    error: str | None
    cancel_requested_at: float | None
    cancel_requested_by: str | None
    cancel_reason: str | None = None
    ended: RunStatus | None = None
    reason: str | None = None
    failed_task: str | None = None
    claim: Claim | None = None
    fence: int = 0
    job_no: int = 1
    job_owed_since: float | None = None
    losses: int = 0
    crashes: int = 0
    parked: bool = False
    gone: bool = False
    archived: bool = False


class SnapshotSizes:
    """The sizes of one run while events are folded into it."""

    def __init__(self, run: Run) -> None:
        self._full, self._slim, self._bare = run.now_full, run.now_slim, run.now_bare
        self._largest = (run.bytes_full, run.bytes_slim, run.bytes_bare)
        self._head: int | None = None
        # By task: the bytes of its name, and of what it adds to a slim and to a bare snapshot.
        self._known: dict[str, tuple[int, int, int]] = {}
        self._changed = False

    def put(self, task: str, old: TaskRecord | None, new: TaskRecord) -> None:
        """A task's record replaces another one, or is its first."""
        known = self._known.get(task)
        name = json_bytes(task) if known is None else known[0]
        slim, bare = _record_bytes(name, new)
        self._known[task] = (name, slim, bare)
        if old is None:
            self.add(slim + _payload_change(NEW_TASK, new), slim, bare)
            return
        _, old_slim, old_bare = (name, *_record_bytes(name, old)) if known is None else known
        self.add(slim - old_slim + _payload_change(old, new), slim - old_slim, bare - old_bare)

    def add(self, full: int, slim: int, bare: int) -> None:
        self._full += full
        self._slim += slim
        self._bare += bare
        self._changed = True

    def after_event(self, before: Run, after: Run, event: e.Event) -> None:
        """Called after each event, when its task records have been put."""
        if after is not before:
            self._run_changed(before, after, event)
        full, slim, bare = self._largest
        if self._full > full or self._slim > slim or self._bare > bare:
            self._largest = (
                self._full if self._full > full else full,  # `max` takes four times as long
                self._slim if self._slim > slim else slim,
                self._bare if self._bare > bare else bare,
            )

    def write_to(self, run: Run, tasks: dict[str, TaskRecord], updated_at: float) -> Run:
        """The run with its sizes, these tasks and this instant."""
        if not self._changed and run.tasks is tasks and run.updated_at == updated_at:
            return run
        self._changed = False
        full, slim, bare = self._largest
        return replace(
            run,
            tasks=tasks,
            updated_at=updated_at,
            now_full=self._full,
            now_slim=self._slim,
            now_bare=self._bare,
            bytes_full=full,
            bytes_slim=slim,
            bytes_bare=bare,
        )

    def _run_changed(self, before: Run, after: Run, event: e.Event) -> None:
        # Outside the tasks, an event of a task changes only `parked`: the rest need not be compared.
        is_task_event = isinstance(event, TASK_EVENTS) and before.parked is after.parked
        if not is_task_event and _head_of(before) != _head_of(after):
            old = _changing_bytes(before) if self._head is None else self._head
            self._head = new = _changing_bytes(after)
            self.add(new - old, new - old, new - old)
        if after.due is not before.due:
            due = _due_change(before.due, after.due, getattr(event, "task", None))
            self.add(due, due, due)
        if after.last_tasks is not before.last_tasks:
            last = _items_bytes(after.last_tasks) - _items_bytes(before.last_tasks)
            self.add(last, last, 0)


def measure_submitted(run: Run, event: e.RunSubmitted) -> Run:
    """A submitted run with its sizes. The graph is left out in the first step."""
    sizes = SnapshotSizes(run)
    fixed = ROOM_BYTES + _head_bytes(run) + json_bytes(run.params)
    lean = json_bytes(named_only(run.graph))
    last = _items_bytes(run.last_tasks)
    sizes.add(fixed + last + json_bytes(run.graph), fixed + last + lean, fixed + lean)
    for name, record in run.tasks.items():
        sizes.put(name, None, record)
    sizes.after_event(run, run, event)
    return sizes.write_to(run, run.tasks, run.updated_at)


def json_bytes(value: object) -> int:
    """Its bytes in the snapshot, with JSON escapes."""
    return len(_encode(value))


def _head_bytes(run: Run) -> int:
    """A snapshot without the parts that are counted separately, and without what `ROOM_BYTES` covers."""
    head = replace(
        run,
        params={},
        graph=None,
        tasks={},
        last_tasks=(),
        due={},
        updated_at=0.0,
        now_full=0,
        now_slim=0,
        now_bare=0,
        bytes_full=0,
        bytes_slim=0,
        bytes_bare=0,
    )
    return json_bytes(snapshot_of(head, max_bytes=_NO_LIMIT))


def _changing_bytes(run: Run) -> int:
    """Differs from one state of a run to another by as much as `_head_bytes`, and costs a fifth of it."""
    cancel = run.cancel
    return json_bytes(
        _Head(
            tags=run.tags,
            worker_id=run.worker_id,
            status=run.status,
            start_time=run.started_at,
            end_time=run.ended_at,
            error=run.error,
            cancel_requested_at=cancel.at if cancel else None,
            cancel_requested_by=cancel.by if cancel else None,
            cancel_reason=cancel.reason if cancel else None,
            ended=run.ended,
            reason=run.reason,
            failed_task=run.failed_task,
            claim=run.claim,
            fence=run.fence,
            job_no=run.job_no,
            job_owed_since=run.job_owed_since,
            losses=run.losses,
            crashes=run.crashes,
            parked=run.parked,
            gone=run.gone,
            archived=run.archived,
        )
    )


def _record_bytes(name: int, record: TaskRecord) -> tuple[int, int]:
    """What a task adds to a slim snapshot and to a bare one; `name`: the bytes of its name."""
    if record is NEW_TASK:
        slim, bare = _NEW_TASK_BYTES
        return slim + 2 * name, bare + name
    is_plain = record.error is None and record.wait is None and not record.skipped
    if is_plain and _kept_of(record) == _NOTHING_KEPT:
        return _plain_record_bytes(name, record)
    return _measured_record(name, record)


def _plain_record_bytes(name: int, record: TaskRecord) -> tuple[int, int]:
    """The same as `_measured_record`, in a third of the time: only the instants are measured."""
    started_at, ended_at = record.started_at, record.ended_at
    duration = None if started_at is None or ended_at is None else (ended_at - started_at) * 1000
    shape = _plain_shape(record.state, record.attempt, record.kept, record.worker_id)
    slim, slim_names, bare, bare_names = shape
    instants = json_bytes((started_at, ended_at, duration)) - _NO_INSTANTS_BYTES
    return slim + slim_names * name + instants, bare + bare_names * name


@lru_cache(maxsize=1024)
def _plain_shape(
    state: TaskStatus, attempt: int, kept: OutputKept | None, worker_id: str | None
) -> tuple[int, int, int, int]:
    """Of a slim and of a bare record: bytes besides name and instants, and how often the name is in it."""
    record = TaskRecord(state=state, attempt=attempt, kept=kept, worker_id=worker_id)
    slim, bare = _measured_record(0, record)
    longer_slim, longer_bare = _measured_record(1, record)
    return slim, longer_slim - slim, bare, longer_bare - bare


def _measured_record(name: int, record: TaskRecord) -> tuple[int, int]:
    state, error, wait = shown_state(record.state), record.error, record.wait
    scalars = (
        state,
        record.started_at,
        record.ended_at,
        duration_ms(record),
        error[:ERROR_SLIM_CHARS] if error else error,
        record.attempt,
        record.kept,
        wait,
    )
    entry = name + len(state) + _ENTRY_BYTES
    slim = entry + name + len(b":,") + _FRAME_BYTES + json_bytes(scalars) - _ARRAY_BYTES
    if record.worker_id is not None:
        slim += _WORKER_ID_BYTES + json_bytes(record.worker_id)
    kept = _kept_of(record)
    if kept != _NOTHING_KEPT:
        members = zip(_KEPT_BYTES, kept, strict=True)
        slim += sum([size + json_bytes(value) for size, value in members if value is not None])
    if record.skipped:
        slim += _SKIPPED_BYTES
    bare = entry
    if record.attempt != usual_attempt(state):
        bare += name + len(b":,") + json_bytes(record.attempt)
    if wait is not None:
        bare += name + len(b":,") + json_bytes(wait)
    if record.state is TaskStatus.READY:
        bare += name + len(b",")
    return slim, bare


_NO_INSTANTS_BYTES = json_bytes((None, None, None))
_NEW_TASK_BYTES = _measured_record(0, NEW_TASK)  # its name is in a slim snapshot twice, in a bare one once


def _payload_change(old: TaskRecord, new: TaskRecord) -> int:
    """The change of what a slim record leaves out. Measures only members that are a new object."""
    change = 0
    if old.output is not new.output:
        change += _value_bytes(new.output) - _value_bytes(old.output)
    if old.inputs is not new.inputs:
        change += _inputs_bytes(new.inputs) - _inputs_bytes(old.inputs)
    before, after = _rare_of(old), _rare_of(new)
    if before == after == _NOTHING_RARE:
        return change
    rare = zip(before, after, _RARE_SIZES, strict=True)
    return change + sum(size_of(other) - size_of(one) for one, other, size_of in rare if one is not other)


def _value_bytes(value: object) -> int:
    return _NULL_BYTES if value is None else json_bytes(value)


def _inputs_bytes(inputs: dict[str, object] | None) -> int:
    return json_bytes(inputs) if inputs else _EMPTY_BYTES


def _error_tail_bytes(error: object) -> int:
    if not isinstance(error, str) or len(error) <= ERROR_SLIM_CHARS:
        return 0
    return json_bytes(error) - json_bytes(error[:ERROR_SLIM_CHARS])


def _member_bytes(name: str, value: object) -> int:
    """Of a member that is in a record only if it has a value."""
    return 0 if value is None else len(name) + _MEMBER_BYTES + json_bytes(value)


def _optional(name: str) -> Callable[[object], int]:
    return lambda value: _member_bytes(name, value)


_RARE_SIZES: tuple[Callable[[object], int], ...] = (
    json_bytes,
    _optional("types"),
    _error_tail_bytes,
    _optional("message"),
    _optional("payload"),
    _optional("by"),
    _optional("comment"),
)


def _due_change(old: dict[str, float], new: dict[str, float], task: str | None) -> int:
    """An event of one task changes only what is due for that task."""
    if not new or task is None:
        return _items_bytes(new) - _items_bytes(old)
    return _due_bytes(new, task) - _due_bytes(old, task)


def _due_bytes(due: dict[str, float], task: str) -> int:
    return json_bytes(task) + 2 + json_bytes(due[task]) if task in due else 0


def _items_bytes(items: Collection[object]) -> int:
    """Each with a comma after it."""
    return json_bytes(items) - 1 if items else 0
