"""Answers about workers, flows, wheels and dead letters. Instants are unix seconds."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class SlotUsageAnswer(TypedDict):
    """What a slot process uses. `cpu`: cores, on average since the measurement before."""

    pid: int
    cpu: float | None
    memory_bytes: int


class WorkerUsageAnswer(TypedDict):
    """What a worker and its slots use together. `cpu`: cores, on average since the measurement before."""

    cpu: float | None
    cpu_cores: int | None
    memory_bytes: int
    slots: list[SlotUsageAnswer]


class WorkerAnswer(TypedDict, total=False):
    """A worker: what it said last, and what the gateway knows about its runs."""

    worker_id: str
    instance_id: str
    state: str
    tags: list[str]
    hidden: bool
    draining: bool
    drain_requested: bool
    problem: str | None
    slots: int
    free_slots: int
    current_run_id: str | None
    current_run_ids: list[str]
    last_run_id: str | None
    last_run_status: str | None
    last_run_started_at: float | None
    last_run_finished_at: float | None
    started_at: float
    last_seen_at: float
    last_heartbeat_at: float
    heartbeat_at: float
    last_fetch_at: float | None
    stopped_at: float | None
    stop_reason: str | None
    usage: WorkerUsageAnswer
    host: str
    pid: int
    versions: dict[str, str | None]
    flows: dict[str, str]
    wheel_sync: dict[str, Any]


class PatchedWorkerAnswer(TypedDict):
    """A worker that was hidden, shown, drained or resumed."""

    worker_id: str
    updated_at: float
    hidden: NotRequired[bool]
    draining: NotRequired[bool]


class TagQueueAnswer(TypedDict):
    """The runs that wait for a worker of one tag, and the live workers of the tag."""

    tag: str
    backlog: int
    backlog_is_more: bool
    oldest_since: float | None
    workers: int
    draining: int
    slots: int
    free_slots: int


class FlowAnswer(TypedDict):
    """A flow that workers announce or that had runs. `durations_sec`: of its latest completed runs."""

    flow_name: str
    description: str
    tags: list[str]
    workers: int
    ended: dict[str, int]
    durations_sec: list[float]
    last_run_id: str | None
    last_status: str | None
    last_tag: str | None
    last_at: float | None
    params: list[dict[str, Any]] | None


class CallerAnswer(TypedDict):
    """Who the gateway takes this client for."""

    tenant_id: str | None
    id: str | None
    principal: str | None
    scopes: list[str]
    cancel_grace_sec: NotRequired[float]
    has_strategies: NotRequired[bool]


class WheelAnswer(TypedDict):
    """A wheel that workers install."""

    name: str
    size_bytes: int
    bucket: str
    nuid: str
    modified: float
    sha256_hex: str
    tags: list[str]
    package: str
    version: str


class WheelChangeAnswer(TypedDict):
    """An upload or a deletion of a wheel, with its caller and address."""

    event_id: str
    occurred_at: float
    action: str
    wheel_name: str
    tags: list[str]
    size_bytes: int | None
    sha256_hex: str | None
    replace: bool | None
    actor: dict[str, str | None]
    source: dict[str, str | None]


class DeletedWheelAnswer(TypedDict):
    """A wheel that was deleted."""

    name: str
    deleted: bool


class DismissalAnswer(TypedDict):
    """Who dismissed a dead letter first, when (unix seconds) and why."""

    at: float
    by: str | None
    note: str | None


class DismissAnswer(TypedDict):
    """A dead letter that was dismissed."""

    letter_id: str
    dismissed: DismissalAnswer


class DeadLetterAnswer(TypedDict):
    """A message that no worker could handle, or a run that failed. Lists leave out `payload`."""

    id: str
    timestamp: float
    reason: str
    error: str | None
    run_id: str | None
    flow_name: str | None
    tag: str | None
    tags: list[str] | None
    worker_id: str | None
    num_delivered: int | None
    subject: str | None
    payload: NotRequired[str | None]
    kind: str
    redriven_as: str | None
    dismissed: DismissalAnswer | None


class DeadLetterPageAnswer(TypedDict):
    """A page of dead letters, the newest first."""

    items: list[DeadLetterAnswer]
    next_cursor: str | None


class RedrivenAnswer(TypedDict):
    """The new run of a dead letter."""

    letter_id: str
    run_id: str
    status: str
