"""Requests to change a run, in the imperative. `decide.py` accepts or refuses them.

Commands of a worker carry the fence of its claim, so that a worker that has lost the run cannot write.
Commands of clients carry none: they depend on the state of the task alone.
Limits (of losses, of tags) are members of the command: the core reads no configuration.
"""

import msgspec

from pyoco_server.json_value import JsonObject, JsonValue
from pyoco_server.lifecycle.events import RunSubmitted, TaskStarted, TaskSucceeded
from pyoco_server.lifecycle.graph import OnTimeout
from pyoco_server.lifecycle.status import LossCause, OutputKept


class _Command(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    """Tagged, because the process that executes a run sends its commands to the worker that commits them."""


class SubmitRun(_Command, frozen=True, kw_only=True):
    """`results`: of tasks that an earlier run executed. See `CarryResults`."""

    submission: RunSubmitted
    results: list[TaskStarted | TaskSucceeded] = []


class CarryResults(_Command, frozen=True, kw_only=True):
    """Reuse results of an earlier run that did not fit into the commit of the submission."""

    results: list[TaskStarted | TaskSucceeded]


class DiscardRun(_Command, frozen=True, kw_only=True):
    reason: str


class ClaimRun(_Command, frozen=True, kw_only=True):
    worker_id: str
    instance_id: str
    job_no: int


class ReportLoss(_Command, frozen=True, kw_only=True):
    fence: int
    cause: LossCause
    losses_max: int
    crashes_max: int
    detail: str | None = None


class RequeueRun(_Command, frozen=True, kw_only=True):
    job_no: int
    reason: str


class PlanTasks(_Command, frozen=True, kw_only=True):
    fence: int
    tasks: list[str]
    last: list[str] | None = None
    needs: dict[str, list[str]] | None = None
    any_of: list[str] | None = None
    planned_at: float | None = None


class StartTask(_Command, frozen=True, kw_only=True):
    fence: int
    task: str
    attempt: int
    inputs: JsonObject | None = None
    started_at: float | None = None


class SucceedTask(_Command, frozen=True, kw_only=True):
    fence: int
    task: str
    attempt: int
    started_at: float
    ended_at: float
    output: JsonValue = None
    kept: OutputKept = OutputKept.STORED
    types: JsonObject | None = None


class FailTask(_Command, frozen=True, kw_only=True):
    fence: int
    task: str
    attempt: int
    started_at: float
    ended_at: float
    error: str
    traceback: str | None = None
    will_retry: bool = False


class SkipTask(_Command, frozen=True, kw_only=True):
    """The task will not run, because of how other tasks ended."""

    fence: int
    task: str
    skipped_at: float | None = None


class PutTaskWaiting(_Command, frozen=True, kw_only=True):
    fence: int
    task: str
    attempt: int
    wait_key: str
    prompt: JsonObject | None = None
    deadline_at: float | None = None
    on_timeout: OnTimeout = OnTimeout.FAIL
    waiting_since: float | None = None


class ParkRun(_Command, frozen=True, kw_only=True):
    """`waiting`: the waits without an answer, as the worker has them. Refused if one has an answer."""

    fence: int
    waiting: list[str]


class ResumeTask(_Command, frozen=True, kw_only=True):
    """Answer a wait of a run of either driver. `rejected`: the task fails, with the comment as its error."""

    task: str
    wait_key: str
    payload: JsonValue = None
    by: str | None = None
    rejected: bool = False
    comment: str | None = None


class StartRun(_Command, frozen=True, kw_only=True):
    """Start a client-driven run. Gives no events for a worker-driven run: a claim starts it."""


class TakeTask(_Command, frozen=True, kw_only=True):
    task: str
    attempt: int
    worker_id: str


class ReportProgress(_Command, frozen=True, kw_only=True):
    task: str
    progress: float
    message: str | None = None


class PutWaiting(_Command, frozen=True, kw_only=True):
    task: str
    wait_key: str
    prompt: JsonObject | None = None


class SucceedClientTask(_Command, frozen=True, kw_only=True):
    task: str
    output: JsonValue = None


class FailClientTask(_Command, frozen=True, kw_only=True):
    task: str
    code: str
    message: str


class PassTime(_Command, frozen=True, kw_only=True):
    """Apply the time of the decision: tasks past their deadline end, tasks past their backoff are readied."""


class ArchiveRun(_Command, frozen=True, kw_only=True):
    by: str | None = None


class CompleteRun(_Command, frozen=True, kw_only=True):
    """`notices`: see the event `RunCompleted`."""

    fence: int
    notices: int = 0


class FailRun(_Command, frozen=True, kw_only=True):
    fence: int
    reason: str
    error: str
    task: str | None = None
    notices: int = 0


class CancelRun(_Command, frozen=True, kw_only=True):
    by: str | None = None
    reason: str | None = None


class ConfirmCancelled(_Command, frozen=True, kw_only=True):
    """The worker has stopped. Without a fence: no worker holds the run, so none has to stop."""

    fence: int | None = None


class AddTag(_Command, frozen=True, kw_only=True):
    tag: str
    tags_max: int


class RemoveTag(_Command, frozen=True, kw_only=True):
    tag: str


class EraseRun(_Command, frozen=True, kw_only=True):
    by: str | None = None


ClientCommand = TakeTask | ReportProgress | PutWaiting | SucceedClientTask | FailClientTask
# Deciding on these needs more than a stored snapshot may contain.
NeedsAllTasks = StartRun | ClientCommand | ResumeTask | PassTime
# The most frequent first: `isinstance` checks them in this order.
WorkerCommand = (
    SucceedTask
    | StartTask
    | PlanTasks
    | CompleteRun
    | FailTask
    | SkipTask
    | PutTaskWaiting
    | ParkRun
    | FailRun
)
Command = (
    SubmitRun
    | CarryResults
    | DiscardRun
    | ClaimRun
    | ReportLoss
    | RequeueRun
    | WorkerCommand
    | StartRun
    | ClientCommand
    | ResumeTask
    | PassTime
    | ArchiveRun
    | CancelRun
    | ConfirmCancelled
    | AddTag
    | RemoveTag
    | EraseRun
)
