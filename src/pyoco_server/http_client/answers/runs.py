"""Answers about runs, their tasks and logs. Instants are unix seconds."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from pyoco_server.http_client.answers.executions import GraphNodeAnswer


class SubmittedRunAnswer(TypedDict):
    """A run that was stored and queued."""

    run_id: str
    status: str


class RetriedRunAnswer(SubmittedRunAnswer):
    """A new run that executes what another one has not done."""

    retry_of: str
    retry_from: NotRequired[str]


class TaskRecordAnswer(TypedDict):
    """What a task got and returned, and how it ended. Instants are unix seconds."""

    state: str
    started_at: float | None
    ended_at: float | None
    duration_ms: float | None
    error: str | None
    traceback: str | None
    inputs: dict[str, Any]
    output: Any
    artifacts: dict[str, Any]
    attempt: int
    kept: NotRequired[str | None]
    wait: NotRequired[dict[str, Any] | None]
    types: NotRequired[dict[str, Any]]
    ready_at: NotRequired[float]
    worker_id: NotRequired[str]
    progress: NotRequired[float]
    message: NotRequired[str]
    time_left_sec: NotRequired[float]
    waited_since: NotRequired[float]
    code: NotRequired[str]
    payload: NotRequired[Any]
    by: NotRequired[str]
    comment: NotRequired[str]
    skipped: NotRequired[bool]


class RunAnswer(TypedDict, total=False):
    """A run, as `GET /runs/{run_id}` shows it. Lists leave out `params` and `tasks`, unless asked for them.

    Instants are unix seconds.
    """

    run_id: str
    flow_name: str
    status: str
    params: dict[str, Any]
    tag: str
    tags: list[str]
    tasks: dict[str, str]
    tasks_truncated: bool
    task_records: dict[str, TaskRecordAnswer]
    task_records_truncated: bool
    error: str | None
    worker_id: str | None
    worker_alive: bool
    waiting_for: list[str]
    submitted_at: float
    start_at: float
    expires_at: float
    start_time: float | None
    end_time: float | None
    updated_at: float
    heartbeat_at: float
    cancel_requested_at: float | None
    cancel_requested_by: str | None
    cancel_reason: str
    retry_of: str
    retry_from: str
    schedule_id: str
    tenant_id: str | None
    api_key_id: str | None
    workflow_yaml_sha256: str | None
    workflow_yaml_bytes: int | None


class RunPageAnswer(TypedDict):
    """A page of runs."""

    items: list[RunAnswer]
    next_cursor: str | None


class RunTasksAnswer(TypedDict):
    """The tasks of a run with their records."""

    run_id: str
    flow_name: str
    status: str
    tasks: dict[str, str]
    task_records: dict[str, TaskRecordAnswer]
    task_records_truncated: bool


class RunChangeData(TypedDict):
    """The run after the change. `ts`: when the gateway sent it."""

    run_id: str
    snapshot: NotRequired[RunAnswer]
    ts: NotRequired[float]


class RunChangeAnswer(TypedDict):
    """A change of a run that is watched."""

    event: str
    data: RunChangeData


class MinuteAnswer(TypedDict):
    """How many runs began and ended in the minute that begins at `at`."""

    at: int
    submitted: int
    completed: int
    failed: int
    cancelled: int


class RunNumbersAnswer(TypedDict):
    """Numbers of runs by status; `waiting`: the RUNNING ones that wait for an answer or an instant."""

    counts: dict[str, int]
    waiting: int
    minutes: list[MinuteAnswer]
    ts: float


class RunGraphAnswer(TypedDict):
    """The tasks of a run, and which tasks come before them."""

    run_id: str
    nodes: list[GraphNodeAnswer]
    ordered: bool


class LogLineAnswer(TypedDict, total=False):
    """A line that a run printed, or a notice about the run."""

    timestamp: str
    message: str
    seq: int
    task: str | None
    stream: str | None
    level: str | None
    attempt: int | None


class LogSearchAnswer(TypedDict):
    """How far a search came. `paused_by`: the limit that it reached."""

    to_line: int
    lines: int
    paused_by: str | None


class LogPageAnswer(TypedDict):
    """A page of lines. `next_token` continues after it."""

    entries: list[LogLineAnswer]
    next_token: str
    complete: bool
    truncated: bool
    searched: NotRequired[LogSearchAnswer]
