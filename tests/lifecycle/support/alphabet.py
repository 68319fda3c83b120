"""Concrete events and commands to write histories with. Every instant is the same, so equal states meet."""

from typing import Any

from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.decide import Refused, decide_all
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import LossCause

AT = 1000.0


def submitted(**changes: Any) -> e.RunSubmitted:
    said: dict[str, Any] = {
        "at": AT,
        "run_id": "r1",
        "flow_name": "main",
        "params": {"x": 1},
        "tag": "default",
        "tags": ["blue"],
    }
    return e.RunSubmitted(**(said | changes))


def claim(job_no: int = 1, worker_id: str = "w1") -> c.ClaimRun:
    return c.ClaimRun(worker_id=worker_id, instance_id=f"{worker_id}-i", job_no=job_no)


def loss(
    fence: int,
    cause: LossCause = LossCause.WORKER_LOST,
    *,
    losses_max: int = 2,
    crashes_max: int = 2,
    detail: str | None = None,
) -> c.ReportLoss:
    return c.ReportLoss(
        fence=fence, cause=cause, losses_max=losses_max, crashes_max=crashes_max, detail=detail
    )


def start(fence: int, task: str, attempt: int = 1, inputs: dict[str, Any] | None = None) -> c.StartTask:
    return c.StartTask(fence=fence, task=task, attempt=attempt, inputs=inputs)


def succeed(fence: int, task: str, attempt: int = 1, output: Any = "done") -> c.SucceedTask:
    return c.SucceedTask(fence=fence, task=task, attempt=attempt, started_at=AT, ended_at=AT, output=output)


def fail(
    fence: int, task: str, attempt: int = 1, error: str = "boom", *, will_retry: bool = False
) -> c.FailTask:
    return c.FailTask(
        fence=fence,
        task=task,
        attempt=attempt,
        started_at=AT,
        ended_at=AT,
        error=error,
        will_retry=will_retry,
    )


def wait(
    fence: int, task: str, attempt: int = 1, key: str = "k", deadline_at: float | None = None
) -> c.PutTaskWaiting:
    return c.PutTaskWaiting(fence=fence, task=task, attempt=attempt, wait_key=key, deadline_at=deadline_at)


def run_after(*asked: c.Command, submission: e.RunSubmitted | None = None) -> Run:
    """A run that was submitted and then asked all this, none of it in vain."""
    decision = decide_all(None, (c.SubmitRun(submission=submission or submitted()), *asked), AT)
    assert not isinstance(decision, Refused), decision
    run = fold(None, decision)
    assert run is not None
    return run


EVENTS: tuple[e.Event, ...] = (
    submitted(),
    submitted(run_id="r2", params={}, tags=[]),
    e.RunDiscarded(at=AT, reason="no job"),
    e.RunClaimed(at=AT, worker_id="w1", instance_id="w1-i", fence=1),
    e.RunClaimed(at=AT, worker_id="w2", instance_id="w2-i", fence=2),
    e.RunLost(at=AT, fence=1, cause=LossCause.WORKER_LOST),
    e.RunLost(at=AT, fence=2, cause=LossCause.HANDED_BACK),
    e.RunRequeued(at=AT, reason="owed"),
    e.TasksPlanned(at=AT, tasks=["a", "b"]),
    e.TaskStarted(at=AT, task="a", attempt=1),
    e.TaskStarted(at=AT, task="a", attempt=2),
    e.TaskSucceeded(at=AT, task="a", attempt=1, started_at=AT, output=1),
    e.TaskSucceeded(at=AT, task="a", attempt=2, started_at=AT, output=2),
    e.TaskFailed(at=AT, task="a", attempt=1, started_at=AT, error="again", will_retry=True),
    e.TaskFailed(at=AT, task="b", attempt=1, started_at=AT, error="boom"),
    e.TaskCancelled(at=AT, task="b"),
    e.TaskWaiting(at=AT, task="b", attempt=1, wait_key="k"),
    e.TaskResumed(at=AT, task="b", payload="yes"),
    e.RunParked(at=AT),
    e.RunCompleted(at=AT),
    e.RunFailed(at=AT, reason="execution_error", error="boom", task="b"),
    e.CancelRequested(at=AT, by="ann", reason="enough"),
    e.CancelRequested(at=AT, by="bob"),
    e.RunCancelled(at=AT),
    e.TagAdded(at=AT, tag="red"),
    e.TagRemoved(at=AT, tag="red"),
    e.RunErased(at=AT),
    e.UnknownEvent(at=AT, name="RunTeleported"),
)


def _of_worker(fence: int) -> tuple[c.Command, ...]:
    return (
        start(fence, "a", attempt=fence),
        succeed(fence, "a", attempt=fence),
        wait(fence, "b", attempt=fence, deadline_at=AT + fence),
        c.ParkRun(fence=fence, waiting=["b"]),
        c.CompleteRun(fence=fence),
        c.ConfirmCancelled(fence=fence),
        loss(fence, LossCause.WORKER_LOST),
    )


COMMANDS: tuple[c.Command, ...] = (
    c.SubmitRun(submission=submitted()),
    c.CarryResults(results=[e.TaskSucceeded(at=AT, task="a", attempt=1, started_at=AT, output=1)]),
    c.DiscardRun(reason="no job"),
    claim(1, "w1"),
    claim(2, "w2"),
    claim(3, "w1"),
    *_of_worker(1),
    *_of_worker(2),
    loss(1, LossCause.SLOT_CRASHED),
    loss(2, LossCause.HANDED_BACK),
    c.RequeueRun(job_no=1, reason="owed"),
    c.RequeueRun(job_no=2, reason="owed"),
    c.PlanTasks(fence=1, tasks=["a", "b"]),
    fail(1, "a", will_retry=True),
    fail(1, "b"),
    c.SkipTask(fence=1, task="b"),
    c.FailRun(fence=1, reason="execution_error", error="boom", task="b"),
    c.ResumeTask(task="b", wait_key="k", payload="yes"),
    c.ResumeTask(task="b", wait_key="wrong"),
    c.CancelRun(by="ann", reason="enough"),
    c.CancelRun(),
    c.ConfirmCancelled(),
    c.AddTag(tag="red", tags_max=2),
    c.AddTag(tag="green", tags_max=2),
    c.RemoveTag(tag="red"),
    c.EraseRun(by="ann"),
    c.StartRun(),
    c.TakeTask(task="a", attempt=1, worker_id="w"),
    c.SucceedClientTask(task="a"),
    c.ResumeTask(task="b", wait_key="k", rejected=True, comment="no"),
    c.PassTime(),
)
