"""Parking, resuming, cancelling, tagging, erasing: when it is allowed, what happens then, why not."""

import pytest

from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run, owes_job
from pyoco_server.lifecycle.status import RunStatus, TaskStatus
from tests.lifecycle.support.alphabet import AT, COMMANDS, claim, loss, run_after, start, succeed, wait
from tests.lifecycle.support.standings import (
    ASKED,
    CANCEL,
    CANCELLED,
    CLAIMED,
    COMPLETE,
    COMPLETED,
    DISCARDED,
    ERASED,
    FAILED,
    PARK,
    PARKED,
    PENDING,
    RESUME,
    WAITING,
    after,
    decided,
    refused,
)

# Waiting, parking, resuming


def test_parking_lets_go_of_the_run_and_owes_no_job() -> None:
    assert (PARKED.parked, PARKED.claim, PARKED.status) == (True, None, RunStatus.RUNNING)
    assert not owes_job(PARKED)


def test_resuming_a_parked_run_owes_a_new_job() -> None:
    resumed = after(PARKED, RESUME)
    assert (resumed.parked, resumed.job_no, resumed.job_owed_since) == (False, 2, AT)
    assert (resumed.tasks["b"].state, resumed.tasks["b"].output) == (TaskStatus.SUCCEEDED, "yes")
    assert refused(resumed, claim(2, "w2")) is None


def test_resuming_under_a_claim_owes_none() -> None:
    resumed = after(WAITING, RESUME)
    assert (resumed.job_no, resumed.job_owed_since, resumed.claim) == (1, None, WAITING.claim)


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (CLAIMED, Reason.UNKNOWN_TASK),
        (run_after(claim(), start(1, "b")), Reason.NOT_WAITING),
        (run_after(claim(), wait(1, "b", key="other")), Reason.WAIT_KEY),
        (after(PARKED, RESUME), Reason.NOT_WAITING),
        (after(WAITING, CANCEL), Reason.CANCEL_REQUESTED),
        (after(PARKED, CANCEL), Reason.TERMINAL),
    ],
)
def test_resuming_is_refused_with_its_reason(run: Run, reason: Reason) -> None:
    assert refused(run, RESUME) is reason


def test_a_resume_that_came_before_the_park_is_not_slept_over() -> None:
    """Under a claim a resume owes no job; if the worker could park now, nobody would ever go on."""
    assert refused(after(WAITING, RESUME), PARK) is Reason.NOT_WAITING


@pytest.mark.parametrize(
    "run", [CLAIMED, run_after(claim(), start(1, "b")), run_after(claim(), wait(1, "a"))]
)
def test_a_run_is_parked_only_over_waits_that_are_open(run: Run) -> None:
    assert refused(run, PARK) is Reason.NOT_WAITING


def test_a_run_is_not_parked_over_nothing() -> None:
    assert refused(WAITING, c.ParkRun(fence=1, waiting=[])) is Reason.NOT_WAITING


def test_a_loop_that_is_under_way_as_a_whole_does_not_hinder_parking() -> None:
    """Its iteration waits: `a[0]`, say; the task `a` is RUNNING until its loop has ended."""
    assert after(run_after(claim(), start(1, "a"), wait(1, "b")), PARK).parked


def test_tasks_behind_a_wait_do_not_hinder_parking() -> None:
    run = after(CLAIMED, c.PlanTasks(fence=1, tasks=["a", "b", "c"]), succeed(1, "a"), wait(1, "b"), PARK)
    assert run.parked


# Cancelling


@pytest.mark.parametrize("run", [PENDING, PARKED, run_after(claim(), loss(1))])
def test_a_cancel_of_a_run_that_nobody_holds_ends_it_in_the_same_commit(run: Run) -> None:
    asked = e.CancelRequested(at=AT, by="ann", reason="enough")
    assert decided(run, CANCEL) == (asked, e.RunCancelled(at=AT))


def test_a_cancel_of_a_claimed_run_asks_its_worker_first() -> None:
    assert decided(CLAIMED, CANCEL) == (e.CancelRequested(at=AT, by="ann", reason="enough"),)
    assert ASKED.status is RunStatus.CANCELLING
    assert ASKED.cancel is not None
    assert (ASKED.cancel.by, ASKED.cancel.reason) == ("ann", "enough")


@pytest.mark.parametrize("run", [ASKED, COMPLETED, FAILED, CANCELLED])
def test_a_cancel_with_nothing_to_do_is_accepted_without_an_event(run: Run) -> None:
    assert decided(run, CANCEL) == ()


def test_the_holder_confirms_a_cancel() -> None:
    ended = after(ASKED, c.ConfirmCancelled(fence=1))
    assert (ended.ended, ended.tasks["a"].state) == (RunStatus.CANCELLED, TaskStatus.CANCELLED)


@pytest.mark.parametrize(
    ("run", "fence", "reason"),
    [
        (run_after(claim(), loss(1), claim(2), CANCEL), 1, Reason.FENCED),
        (ASKED, 0, Reason.FENCED),
        (ASKED, None, Reason.CLAIMED),
        (CLAIMED, 1, Reason.NO_CANCEL_REQUESTED),
        (PENDING, None, Reason.NO_CANCEL_REQUESTED),
    ],
)
def test_a_confirmation_is_refused_with_its_reason(run: Run, fence: int | None, reason: Reason) -> None:
    assert refused(run, c.ConfirmCancelled(fence=fence)) is reason


def test_a_confirmation_without_a_fence_ends_what_nobody_holds() -> None:
    asked = fold(PENDING, (e.CancelRequested(at=AT),))
    assert decided(asked, c.ConfirmCancelled()) == (e.RunCancelled(at=AT),)
    assert refused(asked, c.ConfirmCancelled(fence=1)) is Reason.FENCED


@pytest.mark.parametrize("run", [COMPLETED, FAILED, CANCELLED])
def test_a_confirmation_after_the_end_is_accepted_without_an_event(run: Run) -> None:
    assert decided(run, c.ConfirmCancelled(fence=1)) == ()


def test_a_late_completion_does_not_undo_a_cancel() -> None:
    assert refused(ASKED, COMPLETE) is Reason.CANCEL_REQUESTED
    ended = fold(ASKED, (e.RunCompleted(at=AT),))
    assert ended is not None
    assert ended.ended is RunStatus.CANCELLED


def test_a_late_failure_does_not_undo_a_cancel_and_leaves_no_error() -> None:
    ended = fold(ASKED, (e.RunFailed(at=AT, reason="execution_error", error="boom"),))
    assert ended is not None
    assert (ended.ended, ended.error, ended.reason) == (RunStatus.CANCELLED, None, None)


def test_what_succeeded_before_the_cancel_is_kept() -> None:
    run = after(CLAIMED, c.PlanTasks(fence=1, tasks=["a", "b", "c"]), succeed(1, "a", output=42))
    ended = after(run, start(1, "b"), CANCEL, c.ConfirmCancelled(fence=1))
    assert ended.tasks["a"] == run.tasks["a"]
    assert {name: record.state for name, record in ended.tasks.items()} == {
        "a": TaskStatus.SUCCEEDED,
        "b": TaskStatus.CANCELLED,
        "c": TaskStatus.CANCELLED,
    }


# Tags and erasing


@pytest.mark.parametrize("run", [PENDING, CLAIMED, ASKED, PARKED, COMPLETED, CANCELLED])
def test_a_run_can_be_tagged_however_it_stands(run: Run) -> None:
    tagged = after(run, c.AddTag(tag="red", tags_max=2))
    assert tagged.tags == ("blue", "red")
    assert after(tagged, c.RemoveTag(tag="blue")).tags == ("red",)


def test_a_tag_it_has_is_not_added_and_one_it_has_not_is_not_removed() -> None:
    assert decided(PENDING, c.AddTag(tag="blue", tags_max=1)) == ()
    assert decided(PENDING, c.RemoveTag(tag="red")) == ()


def test_more_tags_than_allowed_are_refused() -> None:
    assert refused(PENDING, c.AddTag(tag="red", tags_max=1)) is Reason.TOO_MANY_TAGS


@pytest.mark.parametrize("run", [COMPLETED, FAILED, CANCELLED])
def test_a_run_that_is_over_can_be_erased(run: Run) -> None:
    erased = after(run, c.EraseRun(by="ann"))
    assert (erased.gone, erased.ended) == (True, run.ended)


@pytest.mark.parametrize("run", [PENDING, CLAIMED, PARKED, ASKED])
def test_a_live_run_is_not_erased(run: Run) -> None:
    assert refused(run, c.EraseRun()) is Reason.NOT_TERMINAL


@pytest.mark.parametrize("command", COMMANDS, ids=repr)
@pytest.mark.parametrize("run", [DISCARDED, ERASED])
def test_what_is_gone_is_left_alone(run: Run, command: c.Command) -> None:
    expected = Reason.EXISTS if isinstance(command, c.SubmitRun) else Reason.GONE
    assert refused(run, command) is expected
