"""Facts about a run, in the past tense. What is stored is a sequence of these and nothing else.

Every event carries the instant it is about (`at`, unix seconds). Adding a member with a default is
compatible; changing the meaning of one is a new event. A type this version does not know is read as
`UnknownEvent` and changes nothing, so that an old gateway can run beside a new one.
"""

import msgspec

from pyoco_server.json_value import JsonObject, JsonValue
from pyoco_server.lifecycle.graph import Graph, OnTimeout
from pyoco_server.lifecycle.status import Driver, LossCause, OutputKept


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=True, omit_defaults=True):
    at: float


class RunSubmitted(_Event, frozen=True, kw_only=True, omit_defaults=True):
    run_id: str
    flow_name: str
    params: JsonObject
    tag: str
    tags: list[str]
    tenant_id: str | None = None
    api_key_id: str | None = None
    workflow_yaml: str | None = None
    workflow_yaml_sha256: str | None = None
    workflow_yaml_bytes: int | None = None
    correlation_id: str | None = None
    traceparent: str | None = None
    retry_of: str | None = None  # the run that this one retries
    retry_from: str | None = None  # this task of that run and everything after it are executed again
    start_at: float | None = None  # not before this instant
    expires_at: float | None = None  # not at or after this instant
    schedule_id: str | None = None  # the schedule that started it
    batch_id: str | None = None  # the batch that it was submitted in
    driver: Driver = Driver.WORKER
    graph: Graph | None = None  # of a client-driven run


class RunDiscarded(_Event, frozen=True, kw_only=True, omit_defaults=True):
    """Its submission failed before any caller got its id."""

    reason: str


class RunStarted(_Event, frozen=True, kw_only=True, omit_defaults=True):
    """A client has started it. (A claim starts a worker-driven run.)"""


class RunClaimed(_Event, frozen=True, kw_only=True, omit_defaults=True):
    worker_id: str
    instance_id: str
    fence: int


class RunLost(_Event, frozen=True, kw_only=True, omit_defaults=True):
    """The claim with this fence has ended, the run has not."""

    fence: int
    cause: LossCause
    detail: str | None = None


class RunRequeued(_Event, frozen=True, kw_only=True, omit_defaults=True):
    """A new job was published, because the last one seems to be lost or was delivered too often."""

    reason: str


class TasksPlanned(_Event, frozen=True, kw_only=True, omit_defaults=True):
    """`last`: tasks that no other task needs; their results are the run's. None: not known.

    `needs`, `any_of`: the edges of the flow: the tasks that each task needs, and those that need only one.
    """

    tasks: list[str]
    last: list[str] | None = None
    needs: dict[str, list[str]] | None = None
    any_of: list[str] | None = None


class TaskReadied(_Event, frozen=True, kw_only=True, omit_defaults=True):
    """A client may take the task."""

    task: str


class TaskStarted(_Event, frozen=True, kw_only=True, omit_defaults=True):
    """`worker_id`: who executes it. `deadline_at`: of a client-driven run; then the attempt fails."""

    task: str
    attempt: int
    inputs: JsonObject | None = None
    worker_id: str | None = None
    deadline_at: float | None = None


class TaskProgressed(_Event, frozen=True, kw_only=True, omit_defaults=True):
    """`progress`: 0 to 100."""

    task: str
    progress: float
    message: str | None = None


class TaskSucceeded(_Event, frozen=True, kw_only=True, omit_defaults=True):
    task: str
    attempt: int
    started_at: float
    output: JsonValue = None
    kept: OutputKept = OutputKept.STORED
    types: JsonObject | None = None  # types of the output that its JSON does not show


class TaskFailed(_Event, frozen=True, kw_only=True, omit_defaults=True):
    task: str
    attempt: int
    started_at: float
    error: str
    traceback: str | None = None
    will_retry: bool = False
    code: str | None = None
    retry_at: float | None = None  # with `will_retry`: not before this instant


class TaskCancelled(_Event, frozen=True, kw_only=True, omit_defaults=True):
    """It will not run, because of how other tasks ended."""

    task: str


class TaskWaiting(_Event, frozen=True, kw_only=True, omit_defaults=True):
    task: str
    attempt: int
    wait_key: str
    prompt: JsonObject | None = None
    deadline_at: float | None = None
    on_timeout: OnTimeout = OnTimeout.FAIL  # its outcome at `deadline_at`
    time_left_sec: float | None = None  # of the task's own timeout, which is paused during a wait


class TaskResumed(_Event, frozen=True, kw_only=True, omit_defaults=True):
    """Its wait was answered. `deadline_at`: of a task that continues, from the time it had left."""

    task: str
    payload: JsonValue = None
    by: str | None = None
    rejected: bool = False
    comment: str | None = None
    deadline_at: float | None = None


class RunParked(_Event, frozen=True, kw_only=True, omit_defaults=True):
    """Only waits are left: the worker has released the run."""


class RunCompleted(_Event, frozen=True, kw_only=True, omit_defaults=True):
    """`notices`: the run has printed nothing, and no line of its log is stored. Readers make the lines from
    its events, in the format of this number. 0: the log is stored.
    """

    notices: int = 0


class RunFailed(_Event, frozen=True, kw_only=True, omit_defaults=True):
    """`notices`: see `RunCompleted`."""

    reason: str
    error: str
    task: str | None = None
    notices: int = 0


class CancelRequested(_Event, frozen=True, kw_only=True, omit_defaults=True):
    by: str | None = None
    reason: str | None = None


class RunCancelled(_Event, frozen=True, kw_only=True, omit_defaults=True):
    pass


class RunArchived(_Event, frozen=True, kw_only=True, omit_defaults=True):
    """An ended run is archived: lists without archived runs do not show it."""

    by: str | None = None


class TagAdded(_Event, frozen=True, kw_only=True, omit_defaults=True):
    tag: str


class TagRemoved(_Event, frozen=True, kw_only=True, omit_defaults=True):
    tag: str


class RunErased(_Event, frozen=True, kw_only=True, omit_defaults=True):
    by: str | None = None


class UnknownEvent(_Event, frozen=True, kw_only=True, omit_defaults=True):
    """Written by a newer version."""

    name: str


Event = (
    RunSubmitted
    | RunDiscarded
    | RunStarted
    | RunClaimed
    | RunLost
    | RunRequeued
    | TasksPlanned
    | TaskReadied
    | TaskStarted
    | TaskProgressed
    | TaskSucceeded
    | TaskFailed
    | TaskCancelled
    | TaskWaiting
    | TaskResumed
    | RunParked
    | RunCompleted
    | RunFailed
    | CancelRequested
    | RunCancelled
    | RunArchived
    | TagAdded
    | TagRemoved
    | RunErased
    | UnknownEvent
)
