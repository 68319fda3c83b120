"""Events and commands for histories of client-driven runs: one task, then a wait that needs no success."""

from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.graph import Join, OnTimeout, RetryPolicy
from tests.lifecycle.support.alphabet import AT, claim, start
from tests.lifecycle.support.graphs import answer, asks, client_run, lost, take, task, wait_for, won

# When time is told to pass: everything of these runs is due by then.
LATER = AT + 1000

A = task("a", retry=RetryPolicy(max_attempts=2, backoff_sec=5), timeout_sec=60)
B = wait_for("b", "a", join=Join.ALL_DONE, wait_timeout_sec=60, on_timeout=OnTimeout.SUCCEED)
SUBMITTED = client_run(A, B)

CLIENT_EVENTS: tuple[e.Event, ...] = (
    SUBMITTED,
    e.RunDiscarded(at=AT, reason="no job"),
    e.RunStarted(at=AT),
    e.RunClaimed(at=AT, worker_id="w1", instance_id="w1-i", fence=1),
    e.TaskReadied(at=AT, task="a"),
    e.TaskReadied(at=AT, task="b"),
    e.TaskStarted(at=AT, task="a", attempt=1, worker_id="w", deadline_at=AT + 60),
    e.TaskStarted(at=AT, task="a", attempt=2, worker_id="v"),
    e.TaskProgressed(at=AT, task="a", progress=50.0, message="half"),
    e.TaskWaiting(at=AT, task="a", attempt=1, wait_key="k", time_left_sec=60.0),
    e.TaskWaiting(at=AT, task="b", attempt=1, wait_key="b", deadline_at=AT + 60),
    e.TaskResumed(at=AT, task="a", payload="yes", deadline_at=AT + 60),
    e.TaskResumed(at=AT, task="b", rejected=True, comment="no", by="ann"),
    e.TaskSucceeded(at=AT, task="a", attempt=1, started_at=AT, output=1),
    e.TaskSucceeded(at=AT, task="b", attempt=1, started_at=AT),
    e.TaskFailed(
        at=AT, task="a", attempt=1, started_at=AT, error="x", code="E", will_retry=True, retry_at=AT + 5
    ),
    e.TaskFailed(at=AT, task="b", attempt=1, started_at=AT, error="no", code="REJECTED"),
    e.TaskCancelled(at=AT, task="b"),
    e.RunCompleted(at=AT),
    e.RunFailed(at=AT, reason="execution_error", error="a: x", task="a"),
    e.CancelRequested(at=AT, by="ann"),
    e.RunCancelled(at=AT),
    e.RunArchived(at=AT),
    e.RunErased(at=AT),
)

CLIENT_COMMANDS: tuple[c.Command, ...] = (
    c.SubmitRun(submission=SUBMITTED),
    c.StartRun(),
    c.CarryResults(results=[e.TaskSucceeded(at=AT, task="a", attempt=1, started_at=AT, output=1)]),
    c.DiscardRun(reason="no job"),
    take("a"),
    take("a", attempt=2),
    take("b"),
    c.ReportProgress(task="a", progress=50.0, message="half"),
    asks("a"),
    answer("a", payload="yes", by="ann"),
    answer("a", rejected=True, comment="no"),
    answer("b", "b", payload=[1]),
    answer("b", "b", rejected=True),
    answer("b", "wrong"),
    won("a", output=1),
    won("b"),
    lost("a"),
    lost("b"),
    take("unknown"),
    c.PassTime(),
    c.CancelRun(by="ann"),
    c.ConfirmCancelled(),
    c.ArchiveRun(by="ann"),
    c.EraseRun(),
    claim(1),
    start(1, "a"),
    c.CompleteRun(fence=1),
    c.RequeueRun(job_no=1, reason="owed"),
)
