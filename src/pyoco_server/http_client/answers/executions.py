"""Answers about executions, graphs, jobs and approvals."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class ReasonAnswer(TypedDict):
    """A reason as a word, and in words."""

    reason: str
    message: str
    nodeId: NotRequired[str]


class RefusedCommandAnswer(TypedDict):
    """A command that was refused, and why."""

    command: str
    reason: str
    at: str
    nodeId: NotRequired[str]
    by: NotRequired[str]
    correlationId: NotRequired[str]


class WhyAnswer(TypedDict):
    """Why an execution is where it is, in words."""

    summary: str
    reasons: list[ReasonAnswer]
    refused: list[RefusedCommandAnswer]


class CommandAnswer(TypedDict):
    """An accepted command."""

    executionId: str
    command: str
    accepted: bool
    correlationId: str
    idempotencyKey: str


class ErrorAnswer(TypedDict, total=False):
    """Why an execution or a node failed."""

    code: str
    message: str
    nodeId: str


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
    error: ErrorAnswer | None
    startedAt: str | None
    endedAt: str | None


class ExecutionSummaryAnswer(TypedDict):
    """An execution, as lists show it."""

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
    error: ErrorAnswer | None


class ExecutionAnswer(ExecutionSummaryAnswer):
    """An execution, as `GET /executions/{executionId}` shows it."""

    input: dict[str, Any]
    nodes: list[ExecutionNode]


class ExecutionPageAnswer(TypedDict):
    """A page of executions."""

    executions: list[ExecutionSummaryAnswer]
    nextCursor: NotRequired[str]


class ActorAnswer(TypedDict):
    """Who or what caused an event."""

    kind: str
    id: str | None


class ExecutionEvent(TypedDict, total=False):
    """An event of an execution."""

    eventId: str
    executionId: str
    seq: int
    type: str
    occurredAt: str
    actor: ActorAnswer
    correlationId: str
    causationId: str
    schemaVersion: int
    payload: dict[str, Any]
    hash: str


class VerifiedAnswer(TypedDict):
    """Whether the chain of events and the stored state are as they should be."""

    ok: bool
    events: int
    head: str
    problems: list[str]


class GraphNodeAnswer(TypedDict, total=False):
    """A task of a graph."""

    id: str
    type: str
    after: list[str]
    join: str
    retry: dict[str, Any]
    timeoutSec: float | None
    prompt: dict[str, Any] | None
    waitKey: str | None
    waitTimeoutSec: float | None
    onTimeout: str


class GraphAnswer(TypedDict):
    """A version of a registered graph."""

    graphId: str
    version: int
    createdAt: str
    digest: str
    nodes: list[GraphNodeAnswer]


class GraphSummaryAnswer(TypedDict):
    """A registered graph, as lists show it."""

    graphId: str
    version: int
    createdAt: str
    digest: str
    nodeCount: int


class GraphPageAnswer(TypedDict):
    """A page of registered graphs."""

    graphs: list[GraphSummaryAnswer]
    nextCursor: NotRequired[str]


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


class ApprovalPageAnswer(TypedDict):
    """A page of tasks that wait for an answer."""

    items: list[ApprovalAnswer]
    next_cursor: str | None


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


class JobPageAnswer(TypedDict):
    """A page of jobs."""

    jobs: list[JobAnswer]
    nextToken: NotRequired[str]
