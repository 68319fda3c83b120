"""The state of one run, into which events are folded. Values only; rules are elsewhere.

`bytes_full`, `bytes_slim` and `bytes_bare` are the largest sizes so far (see `snapshot_size`). They, and
not the current sizes, decide what a stored snapshot leaves out: so folding a commit over a stored snapshot
and folding the whole log give the same bytes.
"""

from enum import IntEnum
from typing import NewType

import msgspec
from msgspec.structs import replace

from pyoco_server.json_value import JsonObject, JsonValue
from pyoco_server.lifecycle.graph import Graph, OnTimeout
from pyoco_server.lifecycle.status import Driver, OutputKept, RunStatus, TaskStatus

RunId = NewType("RunId", str)

# Characters kept of a run's error (the log has all of it), and of a task's error in a slim snapshot.
ERROR_CHARS_MAX = 4096
ERROR_SLIM_CHARS = 200
# Characters kept of a progress message. Only the latest message is kept.
MESSAGE_CHARS_MAX = 200


class Lack(IntEnum):
    """What a copy of a run leaves out to fit its limit. Each step includes those before it."""

    NOTHING = 0
    PAYLOADS = 1  # inputs, outputs, tracebacks and long errors of tasks, and the graph
    RECORDS = 2  # everything of a task except its state, and the list of last tasks
    TASKS = 3


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    worker_id: str
    instance_id: str
    fence: int
    claimed_at: float


class CancelAsked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    at: float
    by: str | None = None
    reason: str | None = None


class Wait(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    key: str
    since: float
    attempt: int
    prompt: JsonObject | None = None
    deadline_at: float | None = None
    on_timeout: OnTimeout = OnTimeout.FAIL


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    state: TaskStatus = TaskStatus.PENDING
    attempt: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    error: str | None = None
    traceback: str | None = None
    inputs: JsonObject | None = None
    output: JsonValue = None
    kept: OutputKept | None = None
    types: JsonObject | None = None
    wait: Wait | None = None
    waited_since: float | None = None  # also when the wait is over
    # The following are of client-driven runs, except the answer to a wait (`payload`, `by`, `comment`).
    ready_at: float | None = None
    worker_id: str | None = None
    progress: float | None = None
    message: str | None = None
    time_left_sec: float | None = None  # of its timeout, while it waits
    code: str | None = None  # of the error
    payload: JsonValue = None
    by: str | None = None
    comment: str | None = None
    # CANCELLED because of how other tasks ended, not with the run.
    skipped: bool = False


# A task of which nothing but its name is known.
NEW_TASK = TaskRecord()


class Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    run_id: RunId
    flow_name: str
    params: JsonObject
    tag: str
    tags: tuple[str, ...]
    submitted_at: float
    updated_at: float
    tenant_id: str | None = None
    api_key_id: str | None = None
    workflow_yaml_sha256: str | None = None
    workflow_yaml_bytes: int | None = None
    correlation_id: str | None = None
    traceparent: str | None = None
    retry_of: str | None = None
    retry_from: str | None = None
    start_at: float | None = None
    expires_at: float | None = None
    schedule_id: str | None = None
    batch_id: str | None = None
    driver: Driver = Driver.WORKER
    # Without its tasks if the run lacks payloads.
    graph: Graph | None = None
    ended: RunStatus | None = None
    started_at: float | None = None
    ended_at: float | None = None
    error: str | None = None
    reason: str | None = None
    failed_task: str | None = None
    cancel: CancelAsked | None = None
    claim: Claim | None = None
    worker_id: str | None = None
    fence: int = 0
    job_no: int = 1
    job_owed_since: float | None = None
    losses: int = 0
    crashes: int = 0
    parked: bool = False
    gone: bool = False
    archived: bool = False
    # In the order of their first event. Empty when the copy lacks them: then only the log has them.
    tasks: dict[str, TaskRecord] = {}
    # Tasks that no other task needs, as far as plans name them. Left out with the records.
    last_tasks: tuple[str, ...] = ()
    # By task: the instant at which time alone changes something. Follows from events, not from the tasks.
    due: dict[str, float] = {}
    # By task: its open wait. The same as in the tasks, for copies of the run that leave the tasks out.
    waits: dict[str, Wait] = {}
    # Largest and current size of its snapshot at each step; not known for steps before `lacks`.
    bytes_full: int = 0
    bytes_slim: int = 0
    bytes_bare: int = 0
    now_full: int = 0
    now_slim: int = 0
    now_bare: int = 0
    lacks: Lack = Lack.NOTHING

    @property
    def tasks_dropped(self) -> bool:
        return self.lacks is Lack.TASKS

    @property
    def status(self) -> RunStatus:
        if self.ended is not None:
            return self.ended
        if self.cancel is not None:
            return RunStatus.CANCELLING
        return RunStatus.PENDING if self.started_at is None else RunStatus.RUNNING

    @property
    def stage(self) -> RunStatus:
        """Like `status`, but without CANCELLING: how far it has come."""
        if self.ended is not None:
            return self.ended
        return RunStatus.PENDING if self.started_at is None else RunStatus.RUNNING

    @property
    def is_terminal(self) -> bool:
        return self.ended is not None


def without_sizes(run: Run) -> Run:
    """For comparing runs of which one was only shown (`reduce.fold_unmeasured`)."""
    return replace(run, bytes_full=0, bytes_slim=0, bytes_bare=0, now_full=0, now_slim=0, now_bare=0)


def is_delayed(run: Run) -> bool:
    """Its first job is not published before `start_at`."""
    return run.start_at is not None and run.job_no == 1 and owes_job(run)


def is_expired(run: Run, at: float) -> bool:
    """It was to start before `at`, and did not."""
    if run.expires_at is None or run.started_at is not None or run.is_terminal:
        return False
    return run.cancel is None and run.expires_at <= at


def due_at(run: Run) -> float | None:
    """The earliest instant at which time alone changes it."""
    instants = list(run.due.values())
    if run.expires_at is not None and is_expired(run, run.expires_at):
        instants.append(run.expires_at)
    return min(instants, default=None)


def has_no_worker(run: Run) -> bool:
    """It has started and has no worker: its worker was lost, or it waits for one to continue it."""
    return run.started_at is not None and owes_job(run)


def owes_job(run: Run) -> bool:
    """A worker must claim it, and workers claim only runs that have a job in the queue."""
    is_free = run.ended is None and not run.parked and run.claim is None
    return is_free and run.driver is Driver.WORKER
