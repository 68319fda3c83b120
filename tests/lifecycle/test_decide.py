"""Submitting, claiming, losing, requeuing, reporting: when it is allowed, what happens then, why not."""

import pytest

from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.decide import Reason, Refused, decide_all
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run, owes_job
from pyoco_server.lifecycle.status import LossCause, RunStatus, TaskStatus
from tests.lifecycle.support.alphabet import (
    AT,
    COMMANDS,
    claim,
    fail,
    loss,
    run_after,
    start,
    submitted,
    succeed,
    wait,
)
from tests.lifecycle.support.graphs import answer, led, take, task, wait_for, won
from tests.lifecycle.support.standings import (
    ASKED,
    CANCEL,
    CANCELLED,
    CLAIMED,
    COMPLETE,
    COMPLETED,
    DISCARDED,
    ERASED,
    FAIL,
    FAILED,
    PARK,
    PARKED,
    PENDING,
    WAITING,
    accepted,
    after,
    decided,
    refused,
)

OF_WORKER: tuple[c.WorkerCommand, ...] = (
    c.PlanTasks(fence=1, tasks=["a"]),
    start(1, "a"),
    succeed(1, "a"),
    fail(1, "a"),
    c.SkipTask(fence=1, task="a"),
    wait(1, "a"),
    PARK,
    COMPLETE,
    FAIL,
)


# Submitting and discarding


def test_a_submission_begins_a_run_that_owes_job_number_one() -> None:
    submission = submitted()
    assert decided(None, c.SubmitRun(submission=submission)) == (submission,)
    assert (PENDING.status, PENDING.job_no, PENDING.job_owed_since) == (RunStatus.PENDING, 1, AT)
    assert owes_job(PENDING)


def test_a_submission_may_start_with_results_of_an_earlier_run() -> None:
    result = e.TaskSucceeded(at=AT, task="a", attempt=1, started_at=AT, output=1)
    asked = c.SubmitRun(submission=submitted(), results=[result])
    assert decided(None, asked) == (submitted(), result)


@pytest.mark.parametrize("run", [PENDING, CLAIMED, COMPLETED, DISCARDED, ERASED])
def test_a_run_is_submitted_once(run: Run) -> None:
    assert refused(run, c.SubmitRun(submission=submitted())) is Reason.EXISTS


@pytest.mark.parametrize("command", COMMANDS, ids=repr)
def test_what_was_never_submitted_is_unknown(command: c.Command) -> None:
    expected = None if isinstance(command, c.SubmitRun) else Reason.UNKNOWN
    assert refused(None, command) is expected


def test_discarding_a_run_nobody_claimed_makes_it_gone() -> None:
    assert (DISCARDED.gone, DISCARDED.ended, DISCARDED.reason) == (True, RunStatus.FAILED, "discarded")
    assert not owes_job(DISCARDED)


@pytest.mark.parametrize("run", [CLAIMED, PARKED, run_after(claim(), loss(1))])
def test_a_discard_loses_to_a_claim(run: Run) -> None:
    assert refused(run, c.DiscardRun(reason="no job")) is Reason.CLAIMED


@pytest.mark.parametrize("run", [COMPLETED, FAILED, CANCELLED])
def test_a_run_that_is_over_is_not_discarded(run: Run) -> None:
    assert refused(run, c.DiscardRun(reason="no job")) is Reason.TERMINAL


def test_a_claim_loses_to_a_discard() -> None:
    assert refused(DISCARDED, claim()) is Reason.GONE


# Claiming


def test_a_claim_gives_the_next_fence_and_owes_no_job() -> None:
    assert decided(PENDING, claim()) == (e.RunClaimed(at=AT, worker_id="w1", instance_id="w1-i", fence=1),)
    assert (CLAIMED.status, CLAIMED.worker_id, CLAIMED.started_at) == (RunStatus.RUNNING, "w1", AT)
    assert CLAIMED.job_owed_since is None


def test_a_second_claim_has_a_higher_fence() -> None:
    again = after(CLAIMED, loss(1), claim(2, "w2"))
    assert again.claim is not None
    assert (again.fence, again.claim.fence, again.claim.worker_id) == (2, 2, "w2")


@pytest.mark.parametrize(
    ("run", "job_no", "reason"),
    [
        (CLAIMED, 1, Reason.CLAIMED),
        (PENDING, 2, Reason.OTHER_JOB),
        (run_after(claim(), loss(1)), 1, Reason.OTHER_JOB),
        (PARKED, 1, Reason.PARKED),
        (ASKED, 1, Reason.CANCEL_REQUESTED),
        (CANCELLED, 1, Reason.TERMINAL),
        (COMPLETED, 1, Reason.TERMINAL),
    ],
)
def test_a_claim_is_refused_with_its_reason(run: Run, job_no: int, reason: Reason) -> None:
    assert refused(run, claim(job_no, "w2")) is reason


# Losing


def test_a_loss_frees_the_run_and_owes_a_new_job() -> None:
    lost = after(run_after(claim(), start(1, "a")), loss(1))
    assert (lost.claim, lost.losses, lost.job_no, lost.job_owed_since) == (None, 1, 2, AT)
    assert lost.tasks["a"].state is TaskStatus.PENDING


def test_waiting_tasks_go_on_waiting_when_their_worker_is_lost() -> None:
    assert after(WAITING, loss(1)).tasks["b"].state is TaskStatus.WAITING


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (PENDING, Reason.FENCED),
        (PARKED, Reason.FENCED),
        (after(CLAIMED, loss(1), claim(2)), Reason.FENCED),
        (COMPLETED, Reason.TERMINAL),
        (DISCARDED, Reason.GONE),
    ],
)
def test_only_the_holder_of_the_claim_can_be_lost(run: Run, reason: Reason) -> None:
    assert refused(run, loss(1)) is reason


def test_the_last_worker_it_may_lose_ends_it_as_max_deliver() -> None:
    once = after(CLAIMED, loss(1, losses_max=2), claim(2))
    twice = after(once, loss(2, losses_max=2, detail="lease of w1 expired"))
    assert (twice.ended, twice.reason) == (RunStatus.FAILED, "max_deliver")
    assert twice.error == "lost 2 workers: lease of w1 expired"
    assert not owes_job(twice)


def test_the_last_crash_it_may_cause_ends_it_as_execution_error_naming_the_detail() -> None:
    once = after(CLAIMED, loss(1, LossCause.SLOT_CRASHED, crashes_max=2), claim(2))
    twice = after(once, loss(2, LossCause.SLOT_CRASHED, crashes_max=2, detail="signal 11"))
    assert (twice.ended, twice.reason) == (RunStatus.FAILED, "execution_error")
    assert twice.error == "crashed its process 2 times: signal 11"


def test_without_a_detail_the_error_ends_with_the_count() -> None:
    assert after(CLAIMED, loss(1, losses_max=1)).error == "lost 1 workers"


def test_losses_and_crashes_are_counted_apart() -> None:
    run = after(CLAIMED, loss(1), claim(2), loss(2, LossCause.SLOT_CRASHED))
    assert (run.ended, run.losses, run.crashes) == (None, 1, 1)


def test_handing_back_counts_for_neither() -> None:
    run = CLAIMED
    for fence in range(1, 10):
        handed_back = loss(fence, LossCause.HANDED_BACK, losses_max=1, crashes_max=1)
        run = after(run, handed_back, claim(fence + 1))
    assert (run.ended, run.losses, run.crashes, run.job_no) == (None, 0, 0, 10)


@pytest.mark.parametrize("cause", list(LossCause))
def test_a_loss_with_a_cancel_asked_ends_cancelled_and_owes_no_job(cause: LossCause) -> None:
    given = decided(ASKED, loss(1, cause, losses_max=1, crashes_max=1))
    assert given == (e.RunLost(at=AT, fence=1, cause=cause), e.RunCancelled(at=AT))
    ended = fold(ASKED, given)
    assert ended is not None
    assert (ended.ended, ended.error, ended.job_owed_since) == (RunStatus.CANCELLED, None, None)
    assert not owes_job(ended)


# Requeuing


def test_requeuing_numbers_a_new_job() -> None:
    run = after(PENDING, c.RequeueRun(job_no=1, reason="owed"))
    assert (run.job_no, run.job_owed_since) == (2, AT)
    assert refused(run, claim(1)) is Reason.OTHER_JOB
    assert refused(run, claim(2)) is None


@pytest.mark.parametrize(
    ("run", "job_no", "reason"),
    [
        (PENDING, 2, Reason.OTHER_JOB),
        (CLAIMED, 1, Reason.CLAIMED),
        (PARKED, 1, Reason.PARKED),
        (ASKED, 1, Reason.CANCEL_REQUESTED),
        (CANCELLED, 1, Reason.TERMINAL),
    ],
)
def test_requeuing_is_refused_with_its_reason(run: Run, job_no: int, reason: Reason) -> None:
    assert refused(run, c.RequeueRun(job_no=job_no, reason="owed")) is reason


# What a worker reports


@pytest.mark.parametrize("command", OF_WORKER, ids=repr)
@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (PENDING, Reason.FENCED),
        (run_after(claim(), loss(1)), Reason.FENCED),
        (run_after(claim(), loss(1), claim(2)), Reason.FENCED),
        (PARKED, Reason.FENCED),
        (ASKED, Reason.CANCEL_REQUESTED),
        (COMPLETED, Reason.TERMINAL),
        (CANCELLED, Reason.TERMINAL),
        (ERASED, Reason.GONE),
    ],
)
def test_a_worker_makes_progress_only_with_the_present_claim(
    run: Run, reason: Reason, command: c.WorkerCommand
) -> None:
    assert refused(run, command) is reason


@pytest.mark.parametrize(
    ("command", "event"),
    [
        (c.PlanTasks(fence=1, tasks=["a"]), e.TasksPlanned(at=AT, tasks=["a"])),
        (
            start(1, "a", 2, {"x": 1}),
            e.TaskStarted(at=AT, task="a", attempt=2, inputs={"x": 1}, worker_id="w1"),
        ),
        (
            c.StartTask(fence=1, task="a", attempt=1, started_at=5.0),
            e.TaskStarted(at=5.0, task="a", attempt=1, worker_id="w1"),
        ),
        (
            c.SucceedTask(fence=1, task="a", attempt=1, started_at=5.0, ended_at=6.0, output=[1]),
            e.TaskSucceeded(at=6.0, task="a", attempt=1, started_at=5.0, output=[1]),
        ),
        (
            c.FailTask(
                fence=1, task="a", attempt=1, started_at=5.0, ended_at=6.0, error="E", will_retry=True
            ),
            e.TaskFailed(at=6.0, task="a", attempt=1, started_at=5.0, error="E", will_retry=True),
        ),
        (c.SkipTask(fence=1, task="a"), e.TaskCancelled(at=AT, task="a")),
        (wait(1, "a"), e.TaskWaiting(at=AT, task="a", attempt=1, wait_key="k")),
        (COMPLETE, e.RunCompleted(at=AT)),
        (FAIL, e.RunFailed(at=AT, reason="execution_error", error="boom", task="a")),
    ],
)
def test_what_the_holder_reports_is_written_down(command: c.Command, event: e.Event) -> None:
    assert decided(CLAIMED, command) == (event,)


def test_a_failed_run_names_its_reason_error_and_task() -> None:
    assert (FAILED.ended, FAILED.reason, FAILED.error, FAILED.failed_task) == (
        RunStatus.FAILED,
        "execution_error",
        "boom",
        "a",
    )


# Several at once


def test_several_commands_are_judged_one_on_the_other() -> None:
    decision = decide_all(PENDING, (claim(), start(1, "a"), succeed(1, "a"), COMPLETE), AT)
    assert [type(event) for event in accepted(decision)] == [
        e.RunClaimed,
        e.TaskStarted,
        e.TaskSucceeded,
        e.RunCompleted,
    ]


def test_one_refusal_refuses_all() -> None:
    assert decide_all(CLAIMED, (start(1, "a"), COMPLETE, succeed(1, "a")), AT) == Refused(Reason.TERMINAL)


@pytest.mark.parametrize(
    ("between", "reason"), [(CANCEL, Reason.CANCEL_REQUESTED), (loss(1), Reason.FENCED), (PARK, None)]
)
def test_a_report_after_a_report_is_judged_on_what_came_between(
    between: c.Command, reason: Reason | None
) -> None:
    decision = decide_all(CLAIMED, (start(1, "a"), succeed(1, "a"), between, start(1, "b")), AT)
    assert isinstance(decision, Refused)
    assert reason in (None, decision.reason)


def test_a_report_of_another_claim_is_refused_after_one_of_the_present_claim() -> None:
    decision = decide_all(CLAIMED, (start(1, "a"), succeed(1, "a"), start(2, "b")), AT)
    assert decision == Refused(Reason.FENCED)


def test_no_command_gives_no_event() -> None:
    assert decide_all(CLAIMED, (), AT) == ()


def test_a_run_can_begin_and_end_in_one_commit() -> None:
    ended = after(None, c.SubmitRun(submission=submitted()), CANCEL)
    assert ended.ended is RunStatus.CANCELLED


OF_CLIENTS = (
    (led(task("a")).run, won("a")),
    (led(task("a")).run, take("a", attempt=2)),
    (led(task("a")).run, take("z")),
    (led(task("a")).run, claim()),
    (led(wait_for("w", prompt={"answer_schema": {"type": "integer"}})).run, answer("w", "w", payload="a")),
)


def test_every_reason_of_refusal_is_reached_by_some_command() -> None:
    expired = run_after(submission=submitted(expires_at=AT))
    runs = (None, PENDING, CLAIMED, WAITING, PARKED, ASKED, COMPLETED, DISCARDED, expired)
    tags_full = c.AddTag(tag="red", tags_max=1)
    wrong_key = c.ResumeTask(task="b", wait_key="wrong")
    asked = (*COMMANDS, tags_full, wrong_key)
    assert {refused(run, command) for run in runs for command in asked} | {
        refused(run, command) for run, command in OF_CLIENTS
    } == {None, *Reason}
