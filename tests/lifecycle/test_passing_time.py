"""What time alone brings: deadlines of attempts and waits, ends of backoffs, expiry. Time is an argument."""

import pytest

from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle.decide import Reason, Refused, decide
from pyoco_server.lifecycle.graph import BACKOFF_SEC_MAX, Join, OnTimeout, RetryPolicy
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run, due_at, owes_job
from pyoco_server.lifecycle.snapshot import run_of, snapshot_of
from pyoco_server.lifecycle.status import RunStatus
from tests.lifecycle.support.alphabet import AT, claim, loss, run_after, start, submitted
from tests.lifecycle.support.graphs import PASS, Led, answer, asks, led, lost, take, task, wait_for, won
from tests.lifecycle.support.standings import refused

TIMED = task("a", timeout_sec=10)


def put_waiting(name: str = "ok", on_timeout: OnTimeout = OnTimeout.FAIL, sec: float | None = 5) -> c.Command:
    return c.PutTaskWaiting(
        fence=1,
        task=name,
        attempt=1,
        wait_key="k",
        deadline_at=None if sec is None else AT + sec,
        on_timeout=on_timeout,
    )


def worker_run(*asked: c.Command) -> Led:
    return Led(submitted()).ask(claim(), *asked)


def park(*names: str) -> c.ParkRun:
    return c.ParkRun(fence=1, waiting=list(names))


# Client-driven


def test_nothing_is_due_before_its_instant() -> None:
    run = led(TIMED).ask(take("a"))
    assert run.run.due == {"a": AT + 10}
    assert decide(run.run, PASS, AT + 9.999) == ()


def test_an_attempt_that_takes_too_long_fails_and_is_tried_again_as_usual() -> None:
    run = led(task("a", timeout_sec=10, retry=RetryPolicy(max_attempts=2, backoff_sec=3))).ask(take("a"))
    run.ask(PASS, after_sec=11)
    assert (run.kinds, run.run.due) == (["TaskFailed(a)"], {"a": AT + 14})
    assert run.run.tasks["a"].code == "ERR_TIMEOUT"
    assert run.ask(PASS, after_sec=14).kinds == ["TaskReadied(a)"]
    run.ask(take("a", 2), after_sec=14)
    assert run.ask(PASS, after_sec=24).kinds == ["TaskFailed(a)", "RunFailed(a)"]
    assert run.run.due == {}


def test_waiting_does_not_use_up_the_timeout_of_a_task() -> None:
    run = led(TIMED).ask(take("a")).ask(asks("a"), after_sec=4)
    assert (run.run.due, run.run.tasks["a"].time_left_sec) == ({}, 6.0)
    run.ask(answer("a"), after_sec=1000)
    assert run.run.due == {"a": AT + 1006}
    assert run.ask(PASS, after_sec=1006).run.status is RunStatus.FAILED


def test_a_late_answer_to_an_overdue_task_leaves_it_no_time() -> None:
    run = led(TIMED).ask(take("a")).ask(asks("a"), after_sec=99)
    assert run.ask(answer("a"), after_sec=200).run.due == {"a": AT + 200}


@pytest.mark.parametrize(
    ("on_timeout", "said", "status"),
    [
        (OnTimeout.FAIL, ["TaskFailed(ok)", "TaskCancelled(b)", "RunFailed(ok)"], RunStatus.FAILED),
        (OnTimeout.SUCCEED, ["TaskSucceeded(ok)", "TaskReadied(b)"], RunStatus.RUNNING),
    ],
)
def test_a_wait_that_nobody_answers_comes_to_what_the_graph_says(
    on_timeout: OnTimeout, said: list[str], status: RunStatus
) -> None:
    run = led(wait_for("ok", wait_timeout_sec=5, on_timeout=on_timeout), task("b", "ok"))
    run.ask(PASS, after_sec=5)
    assert (run.kinds, run.run.status) == (said, status)
    assert (run.run.tasks["ok"].output, run.run.tasks["ok"].attempt) == (None, 1)


def test_a_wait_is_tried_again_if_the_graph_says_so() -> None:
    run = led(wait_for("ok", wait_timeout_sec=5, retry=RetryPolicy(max_attempts=2)))
    assert run.ask(PASS, after_sec=5).kinds == ["TaskFailed(ok)", "TaskReadied(ok)", "TaskWaiting(ok)"]
    assert run.run.due == {"ok": AT + 10}


def test_several_that_are_due_are_seen_to_in_their_order_and_the_end_comes_last() -> None:
    run = led(
        task("a", timeout_sec=7), wait_for("ok", wait_timeout_sec=5), task("z", "a", "ok", join=Join.ALL_DONE)
    )
    run.ask(take("a"), PASS, after_sec=0).ask(PASS, after_sec=9)
    assert run.kinds == ["TaskFailed(ok)", "TaskFailed(a)", "TaskReadied(z)"]
    alone = led(task("a", timeout_sec=7), wait_for("ok", wait_timeout_sec=5)).ask(take("a"))
    assert alone.ask(PASS, after_sec=9).kinds == ["TaskFailed(ok)", "TaskFailed(a)", "RunFailed(a)"]


@pytest.mark.parametrize("ended", [won("a"), lost("a"), c.CancelRun()])
def test_what_has_ended_is_not_due_any_more(ended: c.Command) -> None:
    assert led(TIMED, task("z")).ask(take("a"), ended).run.due == {}


def test_a_backoff_grows_and_has_a_limit() -> None:
    retry = RetryPolicy(max_attempts=1000, backoff_sec=0.5, factor=3)
    assert [retry.after_sec(attempt) for attempt in (1, 2, 3)] == [0.5, 1.5, 4.5]
    assert RetryPolicy(backoff_sec=1, factor=100).after_sec(1000) == BACKOFF_SEC_MAX


# Worker-driven


def test_a_worker_driven_wait_that_times_out_unparks_the_run_for_a_new_job() -> None:
    run = worker_run(put_waiting(), park("ok"))
    assert (run.run.parked, run.run.due) == (True, {"ok": AT + 5})
    run.ask(PASS, after_sec=5)
    assert run.kinds == ["TaskFailed(ok)"]
    assert (run.run.parked, owes_job(run.run), run.run.job_no, run.run.due) == (False, True, 2, {})
    assert run.run.tasks["ok"].code == "ERR_TIMEOUT"


def test_a_worker_driven_wait_may_succeed_by_its_timeout() -> None:
    run = worker_run(put_waiting(on_timeout=OnTimeout.SUCCEED), park("ok")).ask(PASS, after_sec=6)
    record = run.run.tasks["ok"]
    assert (record.state, record.output, record.kept, record.started_at) == ("SUCCEEDED", None, "stored", AT)


def test_a_worker_that_holds_the_run_keeps_it_when_a_wait_times_out() -> None:
    run = worker_run(start(1, "a"), put_waiting()).ask(PASS, after_sec=5)
    assert (run.run.claim is not None, run.run.job_no) == (True, 1)


def test_a_wait_found_again_by_the_next_claimant_keeps_its_time() -> None:
    run = worker_run(put_waiting(), park("ok"))
    before = run.run.tasks["ok"].wait
    other = worker_run(put_waiting(), put_waiting("other"), park("ok", "other")).ask(
        c.ResumeTask(task="other", wait_key="k")
    )
    other.ask(claim(2)).ask(
        c.PutTaskWaiting(fence=2, task="ok", attempt=1, wait_key="k", deadline_at=AT + 99), after_sec=3
    )
    assert other.said == ()
    assert (other.run.tasks["ok"].wait, other.run.due) == (before, {"ok": AT + 5})


def test_a_wait_that_was_answered_meanwhile_is_not_waited_for_again() -> None:
    run = worker_run(put_waiting()).ask(c.ResumeTask(task="ok", wait_key="k", payload=1))
    assert run.ask(put_waiting()).said == ()
    assert (run.run.tasks["ok"].output, run.run.due) == (1, {})


def test_a_rejected_wait_of_a_parked_run_fails_and_owes_a_job() -> None:
    run = worker_run(put_waiting(sec=None), park("ok"))
    run.ask(c.ResumeTask(task="ok", wait_key="k", rejected=True, comment="no", by="ann"))
    assert run.kinds == ["TaskResumed(ok)", "TaskFailed(ok)"]
    assert (run.run.tasks["ok"].code, run.run.tasks["ok"].error, run.run.job_no) == ("REJECTED", "no", 2)
    assert owes_job(run.run)


def test_a_park_is_refused_when_an_answer_was_not_heard_of() -> None:
    run = worker_run(put_waiting("x"), put_waiting("y")).ask(c.ResumeTask(task="x", wait_key="k"))
    assert refused(run.run, park("x", "y")) is Reason.NOT_WAITING
    assert refused(run.run, park()) is Reason.NOT_WAITING
    assert refused(run.run, park("unknown")) is Reason.NOT_WAITING
    # What is RUNNING is the worker's to say: a loop is, as a whole, while its iteration waits.
    assert run.ask(start(1, "a"), park("y")).run.parked
    assert worker_run(put_waiting("x"), park("x")).run.parked


def test_time_does_not_move_a_run_that_is_over_or_asked_to_stop() -> None:
    asked = worker_run(put_waiting(), c.CancelRun())
    assert refused(asked.run, PASS) is Reason.CANCEL_REQUESTED
    assert asked.run.due == {}
    assert refused(run_after(c.CancelRun()), PASS) is Reason.TERMINAL


# Expiry

EXPIRES_AT = AT + 10


def expiring(*asked: c.Command) -> Run:
    return run_after(*asked, submission=submitted(expires_at=EXPIRES_AT))


def after(run: Run, command: c.Command, at: float) -> Run:
    decided = decide(run, command, at)
    assert not isinstance(decided, Refused), decided
    later = fold(run, decided)
    assert later is not None
    return later


def test_before_its_instant_nothing_is_due() -> None:
    assert due_at(expiring()) == EXPIRES_AT
    assert decide(expiring(), PASS, EXPIRES_AT - 0.001) == ()


@pytest.mark.parametrize("late_sec", [0, 1, 1e6])
def test_a_run_that_has_not_started_is_cancelled_at_its_instant(late_sec: float) -> None:
    ended = after(expiring(), PASS, EXPIRES_AT + late_sec)
    assert ended.ended is RunStatus.CANCELLED
    assert ended.cancel is not None
    assert (ended.cancel.reason, ended.cancel.by) == ("expired", None)
    assert due_at(ended) is None


@pytest.mark.parametrize("late_sec", [0, 1e6])
def test_no_worker_may_claim_it_then(late_sec: float) -> None:
    assert decide(expiring(), claim(), EXPIRES_AT + late_sec) == Refused(Reason.EXPIRED)


def test_a_claim_before_the_instant_is_a_start() -> None:
    started = after(expiring(), claim(), EXPIRES_AT - 0.001)
    assert due_at(started) is None
    assert decide(started, PASS, EXPIRES_AT + 1) == ()


def test_a_run_that_has_lost_its_worker_does_not_expire() -> None:
    lost = expiring(claim(), loss(1))
    assert due_at(lost) is None
    assert decide(lost, PASS, EXPIRES_AT + 1) == ()
    assert not isinstance(decide(lost, claim(job_no=2), EXPIRES_AT + 1), Refused)


def test_an_earlier_cancel_keeps_its_reason() -> None:
    cancelled = expiring(c.CancelRun(by="ann", reason="enough"))
    assert due_at(cancelled) is None
    assert decide(cancelled, PASS, EXPIRES_AT + 1) == Refused(Reason.TERMINAL)
    assert cancelled.cancel is not None
    assert cancelled.cancel.reason == "enough"


def test_a_run_without_the_instant_never_expires() -> None:
    run = run_after()
    assert due_at(run) is None
    assert decide(run, PASS, AT + 1e9) == ()


def test_after_the_start_only_waits_are_due() -> None:
    put = c.PutTaskWaiting(fence=1, task="a", attempt=1, wait_key="k", deadline_at=AT + 50)
    assert due_at(expiring(claim(), put)) == AT + 50


def test_the_instant_is_in_the_snapshot() -> None:
    assert run_of(snapshot_of(expiring(), max_bytes=100_000)).expires_at == EXPIRES_AT
