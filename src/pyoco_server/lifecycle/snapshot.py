"""A run as it is stored and shown: the snapshot of appendix F, its summary, and the conversion back.

A snapshot that is too large leaves things out in steps: first payloads of tasks (inputs, outputs, tracebacks)
and the graph, then the records, then the tasks themselves. The step is the first at which the run has always
fitted the limit (the `bytes_*` of `Run`), and never an earlier step than that of the copy it is made from.
"""

from collections.abc import Mapping

import msgspec

from pyoco_server.json_value import JsonObject
from pyoco_server.lifecycle.graph import Graph, named_only
from pyoco_server.lifecycle.run import (
    CancelAsked,
    Claim,
    Lack,
    Run,
    RunId,
    TaskRecord,
    Wait,
    has_no_worker,
)
from pyoco_server.lifecycle.snapshot_record import SnapshotRecord, record_from, record_of, shown_state
from pyoco_server.lifecycle.status import Driver, OutputKept, RunStatus, TaskStatus

Sizes = tuple[int, int, int, int, int, int]

# These have a result that is not in the record.
_ELSEWHERE = frozenset({OutputKept.REFERENCED, OutputKept.TOO_LARGE})
_TRIED = frozenset({TaskStatus.RUNNING, TaskStatus.SUCCEEDED, TaskStatus.FAILED})


class Core(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What decisions need beyond the members of the contract. `commits`, `log_seq`: its place in the log."""

    commits: int = 0
    log_seq: int = 0
    ended: RunStatus | None = None
    claim: Claim | None = None
    fence: int = 0
    job_no: int = 1
    job_owed_since: float | None = None
    losses: int = 0
    crashes: int = 0
    parked: bool = False
    gone: bool = False
    reason: str | None = None
    failed_task: str | None = None
    cancel_reason: str | None = None
    correlation_id: str | None = None
    traceparent: str | None = None
    retry_of: str | None = None
    retry_from: str | None = None
    start_at: float | None = None
    expires_at: float | None = None
    schedule_id: str | None = None
    batch_id: str | None = None
    last_tasks: tuple[str, ...] = ()
    # What the snapshot leaves out, and the sizes of the run: current and largest, each full, slim, bare.
    # None in a snapshot of a version that measured in another way: the run is then folded from the log.
    lacks: Lack = Lack.NOTHING
    sizes: Sizes | None = None
    driver: Driver = Driver.WORKER
    graph: Graph | None = None
    archived: bool = False
    due: dict[str, float] = {}
    # Of tasks without a record: unusual attempt numbers, open waits, and which are READY.
    attempts: dict[str, int] = {}
    waits: dict[str, Wait] = {}
    ready: tuple[str, ...] = ()


_NO_CORE = Core()


class RunSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    run_id: str
    flow_name: str
    status: RunStatus
    params: JsonObject
    tasks: dict[str, TaskStatus]
    heartbeat_at: float
    updated_at: float
    tag: str
    tags: list[str]
    worker_id: str | None
    submitted_at: float
    start_time: float | None
    end_time: float | None
    error: str | None
    cancel_requested_at: float | None
    cancel_requested_by: str | None
    tenant_id: str | None
    api_key_id: str | None
    workflow_yaml_sha256: str | None
    workflow_yaml_bytes: int | None
    task_records: dict[str, SnapshotRecord]
    task_records_truncated: bool
    tasks_truncated: bool
    pyoco: Core


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    run_id: str
    flow_name: str
    tag: str
    tags: list[str]
    tenant_id: str | None
    api_key_id: str | None
    status: RunStatus
    submitted_at: float
    updated_at: float
    heartbeat_at: float
    start_time: float | None
    end_time: float | None
    worker_id: str | None
    error: str | None
    cancel_requested_at: float | None
    # Keys of its open waits, where they are known: a snapshot without tasks does not have them.
    waiting_for: list[str] | msgspec.UnsetType = msgspec.UNSET
    # Only false: the run has started and has no worker.
    worker_alive: bool | msgspec.UnsetType = msgspec.UNSET
    # Of a run that a schedule has started.
    schedule_id: str | msgspec.UnsetType = msgspec.UNSET
    # Of a run that retries another one.
    retry_of: str | msgspec.UnsetType = msgspec.UNSET


def summary_of(run: Run) -> RunSummary:
    return RunSummary(
        run_id=run.run_id,
        flow_name=run.flow_name,
        tag=run.tag,
        tags=list(run.tags),
        tenant_id=run.tenant_id,
        api_key_id=run.api_key_id,
        status=run.status,
        submitted_at=run.submitted_at,
        updated_at=run.updated_at,
        heartbeat_at=run.updated_at,
        start_time=run.started_at,
        end_time=run.ended_at,
        worker_id=run.worker_id,
        error=run.error,
        cancel_requested_at=run.cancel.at if run.cancel else None,
        worker_alive=False if has_no_worker(run) else msgspec.UNSET,
        schedule_id=msgspec.UNSET if run.schedule_id is None else run.schedule_id,
        retry_of=msgspec.UNSET if run.retry_of is None else run.retry_of,
    )


def snapshot_of(run: Run, *, max_bytes: int, commits: int = 0, log_seq: int = 0) -> RunSnapshot:
    lacks = max(run.lacks, lack_for(run, max_bytes))
    return _snapshot(run, lacks, _core(run, lacks, max_bytes, commits, log_seq), records=True)


def shown_of(run: Run, *, records: bool) -> RunSnapshot:
    """What is known of the run, to be shown: without `pyoco`, and only on request with `task_records`."""
    return _snapshot(run, run.lacks, _NO_CORE, records=records)


def _snapshot(run: Run, lacks: Lack, core: Core, *, records: bool) -> RunSnapshot:
    tasks = {} if lacks is Lack.TASKS else run.tasks
    recorded = tasks if records and lacks < Lack.RECORDS else {}
    slim = lacks is Lack.PAYLOADS
    return RunSnapshot(
        run_id=run.run_id,
        flow_name=run.flow_name,
        status=run.status,
        params=run.params,
        tasks={name: shown_state(record.state) for name, record in tasks.items()},
        heartbeat_at=run.updated_at,
        updated_at=run.updated_at,
        tag=run.tag,
        tags=list(run.tags),
        worker_id=run.worker_id,
        submitted_at=run.submitted_at,
        start_time=run.started_at,
        end_time=run.ended_at,
        error=run.error,
        cancel_requested_at=run.cancel.at if run.cancel else None,
        cancel_requested_by=run.cancel.by if run.cancel else None,
        tenant_id=run.tenant_id,
        api_key_id=run.api_key_id,
        workflow_yaml_sha256=run.workflow_yaml_sha256,
        workflow_yaml_bytes=run.workflow_yaml_bytes,
        task_records={name: record_of(record, slim=slim) for name, record in recorded.items()},
        task_records_truncated=lacks > Lack.NOTHING or any(one.kept in _ELSEWHERE for one in tasks.values()),
        tasks_truncated=lacks is Lack.TASKS,
        pyoco=core,
    )


def run_of(snapshot: RunSnapshot) -> Run:
    """The inverse of `snapshot_of`, except for what that left out."""
    core = snapshot.pyoco
    cancel = None
    if snapshot.cancel_requested_at is not None:
        by = snapshot.cancel_requested_by
        cancel = CancelAsked(at=snapshot.cancel_requested_at, by=by, reason=core.cancel_reason)
    tasks = _tasks_from(snapshot)
    now_full, now_slim, now_bare, bytes_full, bytes_slim, bytes_bare = core.sizes or (0,) * 6
    return Run(
        run_id=RunId(snapshot.run_id),
        flow_name=snapshot.flow_name,
        params=snapshot.params,
        tag=snapshot.tag,
        tags=tuple(snapshot.tags),
        submitted_at=snapshot.submitted_at,
        updated_at=snapshot.updated_at,
        tenant_id=snapshot.tenant_id,
        api_key_id=snapshot.api_key_id,
        workflow_yaml_sha256=snapshot.workflow_yaml_sha256,
        workflow_yaml_bytes=snapshot.workflow_yaml_bytes,
        correlation_id=core.correlation_id,
        traceparent=core.traceparent,
        retry_of=core.retry_of,
        retry_from=core.retry_from,
        start_at=core.start_at,
        expires_at=core.expires_at,
        schedule_id=core.schedule_id,
        batch_id=core.batch_id,
        ended=core.ended,
        started_at=snapshot.start_time,
        ended_at=snapshot.end_time,
        error=snapshot.error,
        reason=core.reason,
        failed_task=core.failed_task,
        cancel=cancel,
        claim=core.claim,
        worker_id=snapshot.worker_id,
        fence=core.fence,
        job_no=core.job_no,
        job_owed_since=core.job_owed_since,
        losses=core.losses,
        crashes=core.crashes,
        parked=core.parked,
        gone=core.gone,
        archived=core.archived,
        driver=core.driver,
        graph=core.graph,
        due=core.due,
        tasks=tasks,
        waits={name: record.wait for name, record in tasks.items() if record.wait},
        last_tasks=core.last_tasks,
        bytes_full=bytes_full,
        bytes_slim=bytes_slim,
        bytes_bare=bytes_bare,
        now_full=now_full,
        now_slim=now_slim,
        now_bare=now_bare,
        lacks=core.lacks,
    )


def compact_run_snapshot(snapshot: Mapping[str, object], *, max_bytes: int) -> dict[str, object]:
    """Fit a snapshot made elsewhere (a plain mapping) into `max_bytes`; `tasks` stay. 0 means no limit."""
    fitted = dict(snapshot)
    if max_bytes <= 0 or len(msgspec.json.encode(fitted)) <= max_bytes:
        if not fitted.get("task_records_truncated"):  # otherwise it already lacked records
            fitted.pop("task_records_truncated", None)
        return fitted
    return fitted | {"task_records": {}, "task_records_truncated": True}


def usual_attempt(shown: TaskStatus) -> int:
    """The attempt number of a task in this state that has never failed or lost its worker."""
    return 1 if shown in _TRIED else 0


def lack_for(run: Run, max_bytes: int) -> Lack:
    """The first step that fits. A copy may lack more: it was made under a lower limit."""
    if run.bytes_full <= max_bytes:
        return Lack.NOTHING
    if run.bytes_slim <= max_bytes:
        return Lack.PAYLOADS
    return Lack.RECORDS if run.bytes_bare <= max_bytes else Lack.TASKS


def _sizes(run: Run, lacks: Lack, max_bytes: int) -> Sizes:
    """Of steps before `lacks` only the fact that they did not fit: a copy at that step has no more."""
    now = (run.now_full, run.now_slim, run.now_bare)
    most = (run.bytes_full, run.bytes_slim, run.bytes_bare)
    if lacks is Lack.NOTHING:
        return (*now, *most)
    full, slim, bare = (0 if step < lacks else size for step, size in enumerate(now))
    most_full, most_slim, most_bare = (
        min(size, max_bytes + 1) if step < lacks else size for step, size in enumerate(most)
    )
    return full, slim, bare, most_full, most_slim, most_bare


def _core(run: Run, lacks: Lack, max_bytes: int, commits: int, log_seq: int) -> Core:
    bare = run.tasks if lacks is Lack.RECORDS else {}
    return Core(
        commits=commits,
        log_seq=log_seq,
        ended=run.ended,
        claim=run.claim,
        fence=run.fence,
        job_no=run.job_no,
        job_owed_since=run.job_owed_since,
        losses=run.losses,
        crashes=run.crashes,
        parked=run.parked,
        gone=run.gone,
        reason=run.reason,
        failed_task=run.failed_task,
        cancel_reason=run.cancel.reason if run.cancel else None,
        correlation_id=run.correlation_id,
        traceparent=run.traceparent,
        retry_of=run.retry_of,
        retry_from=run.retry_from,
        start_at=run.start_at,
        expires_at=run.expires_at,
        schedule_id=run.schedule_id,
        batch_id=run.batch_id,
        last_tasks=() if lacks >= Lack.RECORDS else run.last_tasks,
        lacks=lacks,
        sizes=_sizes(run, lacks, max_bytes),
        attempts={name: one.attempt for name, one in bare.items() if one.attempt != _usual(one)},
        waits={name: record.wait for name, record in bare.items() if record.wait},
        ready=tuple(name for name, record in bare.items() if record.state is TaskStatus.READY),
        driver=run.driver,
        graph=named_only(run.graph) if lacks > Lack.NOTHING else run.graph,
        archived=run.archived,
        due={} if lacks is Lack.TASKS else run.due,
    )


def _tasks_from(snapshot: RunSnapshot) -> dict[str, TaskRecord]:
    ready = frozenset(snapshot.pyoco.ready)
    return {name: _task_from(snapshot, name, name in ready) for name in snapshot.tasks}


def _task_from(snapshot: RunSnapshot, name: str, ready: bool) -> TaskRecord:
    if (shown := snapshot.task_records.get(name)) is not None:
        return record_from(shown)
    wait = snapshot.pyoco.waits.get(name)
    state = TaskStatus.WAITING if wait else TaskStatus.READY if ready else snapshot.tasks[name]
    attempt = snapshot.pyoco.attempts.get(name, usual_attempt(snapshot.tasks[name]))
    return TaskRecord(state=state, attempt=attempt, wait=wait)


def _usual(record: TaskRecord) -> int:
    return usual_attempt(shown_state(record.state))
