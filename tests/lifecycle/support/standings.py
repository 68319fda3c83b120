"""Runs as they may stand, one of each, and ways to ask something of them."""

from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.decide import Decision, Reason, Refused, decide, decide_all
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run
from tests.lifecycle.support.alphabet import AT, claim, run_after, start, wait

FAIL = c.FailRun(fence=1, reason="execution_error", error="boom", task="a")
COMPLETE = c.CompleteRun(fence=1)
CANCEL = c.CancelRun(by="ann", reason="enough")
PARK = c.ParkRun(fence=1, waiting=["b"])
RESUME = c.ResumeTask(task="b", wait_key="k", payload="yes", by="ann")

PENDING = run_after()
CLAIMED = run_after(claim())
WAITING = run_after(claim(), wait(1, "b"))
PARKED = run_after(claim(), wait(1, "b"), PARK)
ASKED = run_after(claim(), start(1, "a"), CANCEL)
COMPLETED = run_after(claim(), COMPLETE)
FAILED = run_after(claim(), FAIL)
CANCELLED = run_after(CANCEL)
DISCARDED = run_after(c.DiscardRun(reason="no job"))
ERASED = run_after(claim(), COMPLETE, c.EraseRun())


def refused(run: Run | None, command: c.Command) -> Reason | None:
    decision = decide(run, command, AT)
    return decision.reason if isinstance(decision, Refused) else None


def decided(run: Run | None, command: c.Command) -> tuple[e.Event, ...]:
    return accepted(decide(run, command, AT))


def accepted(decision: Decision) -> tuple[e.Event, ...]:
    assert not isinstance(decision, Refused), decision
    return decision


def after(run: Run | None, *asked: c.Command) -> Run:
    result = fold(run, accepted(decide_all(run, asked, AT)))
    assert result is not None
    return result
