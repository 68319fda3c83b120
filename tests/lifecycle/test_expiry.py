"""Runs with `expires_at`: one that has not started by then ends CANCELLED. One that has started goes on."""

import pytest

from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle.decide import Reason, Refused, decide
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run, due_at
from pyoco_server.lifecycle.snapshot import run_of, snapshot_of
from pyoco_server.lifecycle.status import RunStatus
from tests.lifecycle.support.alphabet import AT, claim, loss, run_after, submitted

EXPIRES_AT = AT + 10
PASS = c.PassTime()


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
