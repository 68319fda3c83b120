"""What each event makes of a run and of its tasks, also where no sensible log would have it."""

import pytest

from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.reduce import fold, reduce
from pyoco_server.lifecycle.run import ERROR_CHARS_MAX, Run, TaskRecord
from pyoco_server.lifecycle.status import LossCause, RunStatus, TaskStatus
from tests.lifecycle.support.alphabet import AT, EVENTS, submitted

CLAIM = e.RunClaimed(at=AT, worker_id="w1", instance_id="w1-i", fence=1)


def folded(*events: e.Event) -> Run:
    run = fold(None, (submitted(), CLAIM, *events))
    assert run is not None
    return run


def task(*events: e.Event) -> TaskRecord:
    return folded(*events).tasks["a"]


def started(attempt: int, at: float = AT) -> e.TaskStarted:
    return e.TaskStarted(at=at, task="a", attempt=attempt, inputs={"n": attempt})


def succeeded(attempt: int, output: object = "done") -> e.TaskSucceeded:
    return e.TaskSucceeded(at=AT + 1, task="a", attempt=attempt, started_at=AT, output=output)


def failed(attempt: int, *, will_retry: bool = False) -> e.TaskFailed:
    return e.TaskFailed(
        at=AT + 1, task="a", attempt=attempt, started_at=AT, error="boom", will_retry=will_retry
    )


def waiting(attempt: int, key: str = "k") -> e.TaskWaiting:
    return e.TaskWaiting(at=AT, task="a", attempt=attempt, wait_key=key)


# The run


@pytest.mark.parametrize(
    "event", [event for event in EVENTS if not isinstance(event, e.RunSubmitted)], ids=repr
)
def test_nothing_but_a_submission_begins_a_run(event: e.Event) -> None:
    assert reduce(None, event) is None


def test_a_second_submission_does_not_begin_it_anew() -> None:
    run = folded()
    assert reduce(run, submitted(run_id="r2", params={"x": 2})) is run


def test_an_unknown_event_changes_nothing() -> None:
    run = folded()
    assert reduce(run, e.UnknownEvent(at=AT + 9, name="RunTeleported")) is run


@pytest.mark.parametrize("fence", [0, 1])
def test_a_claim_with_an_old_fence_is_ignored(fence: int) -> None:
    free = folded(e.RunLost(at=AT, fence=1, cause=LossCause.HANDED_BACK))
    late = e.RunClaimed(at=AT, worker_id="w2", instance_id="w2-i", fence=fence)
    assert reduce(free, late) is free


def test_a_claim_of_a_claimed_run_is_ignored() -> None:
    run = folded()
    assert reduce(run, e.RunClaimed(at=AT, worker_id="w2", instance_id="w2-i", fence=2)) is run


def test_a_loss_of_another_claim_is_ignored() -> None:
    run = folded()
    assert reduce(run, e.RunLost(at=AT, fence=2, cause=LossCause.WORKER_LOST)) is run


def test_the_first_cancel_request_stands() -> None:
    run = folded(e.CancelRequested(at=AT, by="ann"), e.CancelRequested(at=AT + 1, by="bob"))
    assert run.cancel is not None
    assert (run.cancel.at, run.cancel.by) == (AT, "ann")


def test_it_starts_with_the_first_claim_and_not_with_the_second() -> None:
    lost = e.RunLost(at=AT + 1, fence=1, cause=LossCause.WORKER_LOST)
    again = e.RunClaimed(at=AT + 2, worker_id="w2", instance_id="w2-i", fence=2)
    run = folded(lost, again)
    assert (run.started_at, run.worker_id) == (AT, "w2")


def test_the_clock_of_a_slow_machine_does_not_turn_updated_at_back() -> None:
    assert folded(started(1, at=AT + 5), e.TagAdded(at=AT - 5, tag="red")).updated_at == AT + 5


def test_a_live_run_that_is_erased_ends_cancelled_and_leaves_nothing_under_way() -> None:
    run = folded(started(1), e.TasksPlanned(at=AT, tasks=["b"]), e.RunErased(at=AT + 1))
    assert (run.ended, run.ended_at, run.gone) == (RunStatus.CANCELLED, AT + 1, True)
    assert {record.state for record in run.tasks.values()} == {TaskStatus.CANCELLED}
    assert (run.claim, run.job_owed_since) == (None, None)


def test_a_completed_run_keeps_branches_that_were_never_taken() -> None:
    run = folded(e.TasksPlanned(at=AT, tasks=["a", "b", "c"]), succeeded(1), e.RunCompleted(at=AT))
    assert [record.state for record in run.tasks.values()] == [
        TaskStatus.SUCCEEDED,
        TaskStatus.PENDING,
        TaskStatus.PENDING,
    ]


def test_a_failed_run_cancels_what_did_not_finish() -> None:
    run = folded(
        e.TasksPlanned(at=AT, tasks=["a", "b", "c"]),
        failed(1),
        e.TaskWaiting(at=AT, task="b", attempt=1, wait_key="k"),
        e.RunFailed(at=AT + 2, reason="execution_error", error="boom"),
    )
    assert [record.state for record in run.tasks.values()] == [
        TaskStatus.FAILED,
        TaskStatus.CANCELLED,
        TaskStatus.CANCELLED,
    ]
    assert (run.tasks["b"].wait, run.tasks["b"].ended_at) == (None, AT + 2)


def test_of_a_long_error_the_run_keeps_the_beginning() -> None:
    run = folded(e.RunFailed(at=AT, reason="execution_error", error="é" * 100_000))
    assert run.error == "é" * ERROR_CHARS_MAX


# Its tasks


def test_planned_tasks_stand_in_their_order_and_are_not_planned_twice() -> None:
    run = folded(e.TasksPlanned(at=AT, tasks=["b", "a"]), started(1), e.TasksPlanned(at=AT, tasks=["a", "c"]))
    assert list(run.tasks) == ["b", "a", "c"]
    assert run.tasks["a"].state is TaskStatus.RUNNING


def test_a_task_nobody_planned_is_known_once_it_starts() -> None:
    assert task(started(1)) == TaskRecord(state=TaskStatus.RUNNING, attempt=1, started_at=AT, inputs={"n": 1})


def test_a_second_start_of_the_same_attempt_changes_nothing() -> None:
    assert task(started(1), started(1, at=AT + 5)) == task(started(1))
    assert task(started(1), succeeded(1), started(1)) == task(started(1), succeeded(1))


def test_a_success_keeps_the_inputs_of_its_start() -> None:
    record = task(started(1), succeeded(1))
    assert (record.state, record.output, record.inputs) == (TaskStatus.SUCCEEDED, "done", {"n": 1})
    assert (record.started_at, record.ended_at) == (AT, AT + 1)


def test_a_late_success_of_an_older_attempt_changes_nothing() -> None:
    assert task(started(1), started(2), succeeded(1)) == task(started(1), started(2))


def test_the_first_success_of_an_attempt_stands() -> None:
    assert task(succeeded(1, "first"), succeeded(1, "second")).output == "first"


def test_a_failure_after_a_success_changes_nothing() -> None:
    assert task(succeeded(1), failed(1)) == task(succeeded(1))


def test_a_success_after_the_last_failure_of_that_attempt_changes_nothing() -> None:
    assert task(failed(1), succeeded(1)) == task(failed(1))


def test_a_task_that_will_be_tried_again_is_pending_with_its_error() -> None:
    record = task(started(1), failed(1, will_retry=True))
    assert (record.state, record.error, record.attempt) == (TaskStatus.PENDING, "boom", 1)
    assert task(started(1), failed(1, will_retry=True), started(2)).error is None


def test_a_finished_task_is_not_skipped() -> None:
    assert task(succeeded(1), e.TaskCancelled(at=AT, task="a")) == task(succeeded(1))


def test_a_lost_worker_leaves_finished_and_waiting_tasks_as_they_are() -> None:
    run = folded(
        succeeded(1),
        e.TaskWaiting(at=AT, task="b", attempt=1, wait_key="k"),
        e.TaskStarted(at=AT, task="c", attempt=3),
        e.RunLost(at=AT, fence=1, cause=LossCause.WORKER_LOST),
    )
    assert [record.state for record in run.tasks.values()] == [
        TaskStatus.SUCCEEDED,
        TaskStatus.WAITING,
        TaskStatus.PENDING,
    ]
    assert run.tasks["c"].attempt == 3


def test_a_wait_of_an_older_attempt_changes_nothing() -> None:
    assert task(started(2), waiting(1)) == task(started(2))


def test_a_finished_task_does_not_wait() -> None:
    assert task(succeeded(1), waiting(1)) == task(succeeded(1))


def test_a_task_that_does_not_wait_is_not_resumed() -> None:
    assert task(started(1), e.TaskResumed(at=AT, task="a", payload=1)) == task(started(1))


def test_task_events_after_a_cancel_request_change_no_task() -> None:
    asked = (started(1), e.CancelRequested(at=AT))
    late = (succeeded(1), e.TasksPlanned(at=AT, tasks=["b"]), e.TaskStarted(at=AT, task="c", attempt=1))
    assert folded(*asked, *late).tasks == folded(*asked).tasks
