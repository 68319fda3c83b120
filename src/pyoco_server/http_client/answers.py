"""Types of what the gateway answers, for readers of handles. An answer may have more members than named
here.
"""

from __future__ import annotations

from typing import Any, TypedDict


class LogLineAnswer(TypedDict, total=False):
    """A line that a run printed, or a notice about the run."""

    timestamp: str
    message: str
    seq: int
    task: str | None
    stream: str | None
    level: str | None
    attempt: int | None


class RunAnswer(TypedDict, total=False):
    """A run, as `GET /runs/{run_id}` shows it."""

    run_id: str
    flow_name: str
    status: str
    params: dict[str, Any]
    tag: str
    tags: list[str]
    tasks: dict[str, str]
    error: str | None
    retry_of: str | None
    created_at: float
    updated_at: float
    task_records: dict[str, Any]


class WhyAnswer(TypedDict):
    """Why an execution is where it is, in words."""

    summary: str
    reasons: list[dict[str, Any]]
    refused: list[dict[str, Any]]


class ApprovalAnswer(TypedDict):
    """A task that waits for an answer."""

    run_id: str
    task: str
    wait_key: str
    prompt: dict[str, Any] | None
    since: float
    deadline_at: float | None
    flow_name: str
    tag: str


class CommandAnswer(TypedDict):
    """An accepted command."""

    executionId: str
    command: str
    accepted: bool
    correlationId: str
    idempotencyKey: str


class ExecutionNode(TypedDict):
    """A task of an execution."""

    nodeId: str
    status: str
    canceledByExecution: bool
    attempt: int
    workerId: str | None
    progress: float | None
    message: str | None
    waitKey: str | None
    prompt: dict[str, Any] | None
    input: Any
    output: Any
    error: dict[str, Any] | None
    startedAt: str | None
    endedAt: str | None


class ExecutionAnswer(TypedDict):
    """An execution, as `GET /executions/{executionId}` shows it."""

    executionId: str
    status: str
    graphId: str
    graphVersion: int | None
    driver: str
    createdAt: str
    startedAt: str | None
    endedAt: str | None
    cancelRequestedAt: str | None
    archived: bool
    error: dict[str, Any] | None
    input: dict[str, Any]
    nodes: list[ExecutionNode]


class ExecutionEvent(TypedDict, total=False):
    """An event of an execution."""

    eventId: str
    executionId: str
    seq: int
    type: str
    occurredAt: str
    actor: dict[str, Any]
    correlationId: str
    causationId: str
    schemaVersion: int
    payload: dict[str, Any]
    hash: str


class JobAnswer(TypedDict, total=False):
    """A job, as `GET /jobs/{id}` shows it."""

    id: str
    status: str
    flow: str
    tags: list[str]
    createdAt: str
    startedAt: str | None
    completedAt: str | None
    progress: float | None
    result: Any
    error: Any


class ScheduleAnswer(TypedDict, total=False):
    """A schedule."""

    schedule_id: str
    flow_name: str
    tag: str
    status: str
    schedule_type: str
    cron: str | None
    interval_seconds: float | None
    run_at: float | None
    timezone: str | None
    next_at: float | None
    last_at: float | None
    last_run_id: str | None
    last_status: str | None
    upcoming: list[float]
    dispatch_count: int
    last_error: str | None


class DismissalAnswer(TypedDict):
    """Who dismissed a dead letter first, when (unix seconds) and why."""

    at: float
    by: str | None
    note: str | None


class DismissAnswer(TypedDict):
    """A dead letter that was dismissed."""

    letter_id: str
    dismissed: DismissalAnswer


class AnsweredApproval(TypedDict):
    """An approval that was answered. `decision`: `approve` or `reject`; instants are unix seconds."""

    run_id: str
    task: str
    flow_name: str
    tag: str
    prompt: dict[str, object] | None
    since: float | None
    decision: str
    by: str | None
    comment: str | None
    answered_at: float


class ApprovalHistoryAnswer(TypedDict):
    """A page of answers, the latest first."""

    items: list[AnsweredApproval]
    next_cursor: str | None


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
