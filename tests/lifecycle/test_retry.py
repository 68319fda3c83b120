"""Another try of a run: when it may be made, and what it begins with."""

from typing import Any

import pytest
from msgspec.structs import replace

from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.retry import carry_over, checkpoints, results, retry_refused
from pyoco_server.lifecycle.run import Run, owes_job
from pyoco_server.lifecycle.snapshot import run_of, snapshot_of
from pyoco_server.lifecycle.status import LossCause, OutputKept, RunStatus, TaskStatus
from tests.lifecycle.support.alphabet import AT, claim, fail, run_after, start, submitted, succeed
from tests.lifecycle.support.standings import (
    ASKED,
    CANCEL,
    CANCELLED,
    CLAIMED,
    COMPLETED,
    DISCARDED,
    ERASED,
    FAIL,
    FAILED,
    PARKED,
    PENDING,
    WAITING,
    after,
    decided,
    refused,
)

HALF_DONE = run_after(
    claim(),
    c.PlanTasks(fence=1, tasks=["a", "b", "c"]),
    start(1, "a", inputs={"x": 1}),
    succeed(1, "a", output={"n": 1}),
    start(1, "b"),
    fail(1, "b"),
    FAIL,
)


def carry(run: Run) -> c.CarryResults:
    return c.CarryResults(results=[event for one in checkpoints(run).items() for event in carry_over(*one)])


RETRY = run_after(carry(HALF_DONE), submission=submitted(run_id="r2", retry_of="r1"))


@pytest.mark.parametrize("run", [PENDING, CLAIMED, WAITING, PARKED, ASKED])
def test_a_run_that_lives_is_not_tried_again(run: Run) -> None:
    assert retry_refused(run) is Reason.NOT_TERMINAL


@pytest.mark.parametrize("run", [COMPLETED, FAILED, CANCELLED])
def test_a_run_that_is_over_may_be_tried_again_however_it_ended(run: Run) -> None:
    assert retry_refused(run) is None


@pytest.mark.parametrize("run", [DISCARDED, ERASED])
def test_a_run_that_is_gone_is_not_tried_again(run: Run) -> None:
    assert retry_refused(run) is Reason.GONE


def test_a_retry_begins_with_what_had_succeeded_and_owes_the_rest() -> None:
    assert (RETRY.retry_of, RETRY.status, RETRY.job_no) == ("r1", RunStatus.PENDING, 1)
    assert owes_job(RETRY)
    assert RETRY.tasks == {"a": HALF_DONE.tasks["a"]}
    assert RETRY.tasks["a"].inputs == {"x": 1}


def test_a_retry_that_is_claimed_goes_on_from_there() -> None:
    done = after(RETRY, claim(), succeed(1, "b"), c.CompleteRun(fence=1))
    assert done.status is RunStatus.COMPLETED
    assert {name: record.state for name, record in done.tasks.items()} == {
        "a": TaskStatus.SUCCEEDED,
        "b": TaskStatus.SUCCEEDED,
    }


def test_a_retry_can_be_cancelled_before_anybody_has_it_and_keeps_its_results() -> None:
    over = after(RETRY, CANCEL)
    assert over.status is RunStatus.CANCELLED
    assert over.tasks == RETRY.tasks


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (None, Reason.UNKNOWN),
        (CLAIMED, Reason.CLAIMED),
        (ASKED, Reason.CANCEL_REQUESTED),
        (CANCELLED, Reason.TERMINAL),
        (COMPLETED, Reason.TERMINAL),
        (ERASED, Reason.GONE),
    ],
)
def test_results_are_carried_only_into_a_run_that_nobody_has_touched(run: Run | None, reason: Reason) -> None:
    assert refused(run, carry(HALF_DONE)) is reason


def test_a_run_that_was_claimed_once_takes_no_results_any_more() -> None:
    lost = after(
        CLAIMED,
        c.ReportLoss(fence=1, cause=LossCause.HANDED_BACK, losses_max=9, crashes_max=9),
    )
    assert refused(lost, carry(HALF_DONE)) is Reason.CLAIMED


def test_results_may_come_in_several_commits() -> None:
    first, *rest = carry(HALF_DONE).results
    run = run_after(c.CarryResults(results=[first]), submission=submitted(run_id="r2", retry_of="r1"))
    assert fold(run, decided(run, c.CarryResults(results=rest))) == RETRY


@pytest.mark.parametrize("kept", [kind for kind in OutputKept if kind not in ("stored", "referenced")])
def test_a_result_that_nobody_could_give_to_the_next_task_is_made_again(kept: OutputKept) -> None:
    record = replace(HALF_DONE.tasks["a"], kept=kept)
    assert checkpoints(replace(HALF_DONE, tasks={"a": record})) == {}


def test_whose_retry_it_is_survives_the_snapshot() -> None:
    assert run_of(snapshot_of(RETRY, max_bytes=2**30)) == RETRY


# What a run has come to


def with_last(*last: str, **outputs: Any) -> Run:
    plan = c.PlanTasks(fence=1, tasks=list(outputs), last=list(last) or None)
    done = [succeed(1, name, output=output) for name, output in outputs.items()]
    return run_after(claim(), plan, *done, c.CompleteRun(fence=1))


def shown(run: Run) -> dict[str, Any]:
    return {name: record.output for name, record in results(run).items()}


def test_the_result_is_that_of_the_task_nothing_waits_for() -> None:
    assert shown(with_last("b", a=1, b=2, c=3)) == {"b": 2}


def test_several_last_tasks_have_a_result_each() -> None:
    assert shown(with_last("a", "c", a=1, b=2, c=3)) == {"a": 1, "c": 3}


def test_a_last_task_that_was_never_executed_has_none() -> None:
    run = run_after(
        claim(),
        c.PlanTasks(fence=1, tasks=["a", "b"], last=["a", "b"]),
        succeed(1, "a"),
        c.CompleteRun(fence=1),
    )
    assert list(results(run)) == ["a"]


def test_where_nobody_said_which_is_the_last_it_is_the_one_that_ended_last() -> None:
    run = with_last(a=1, b=2)
    later = replace(run.tasks["a"], ended_at=AT + 1)
    assert shown(replace(run, tasks=run.tasks | {"a": later})) == {"a": 1}


def test_of_tasks_that_ended_at_one_instant_it_is_the_one_that_was_planned_last() -> None:
    run = with_last(a=1, b=2, c=3)
    assert len({record.ended_at for record in run.tasks.values()}) == 1
    assert shown(run) == {"c": 3}


def test_a_run_without_tasks_has_no_result() -> None:
    assert results(COMPLETED) == {}


def test_the_last_tasks_survive_the_snapshot_and_go_with_the_tasks() -> None:
    run = with_last("b", "a", a=1, b=2)
    assert run.last_tasks == ("b", "a")
    assert run_of(snapshot_of(run, max_bytes=2**30)) == run
    small = run_of(snapshot_of(run, max_bytes=1))
    assert (small.tasks, small.last_tasks, small.tasks_dropped) == ({}, (), True)
    planned = e.TasksPlanned(at=AT, tasks=["x"], last=["x"])
    live = run_after(claim(), c.PlanTasks(fence=1, tasks=["a"], last=["a"]))
    folded = fold(run_of(snapshot_of(live, max_bytes=1)), (planned,))
    assert folded is not None
    assert snapshot_of(folded, max_bytes=1) == snapshot_of(fold(live, (planned,)) or live, max_bytes=1)


def test_a_plan_in_portions_names_its_last_tasks_in_each() -> None:
    run = run_after(
        claim(),
        c.PlanTasks(fence=1, tasks=["a"], last=["a"]),
        c.PlanTasks(fence=1, tasks=["b"], last=["b", "a"]),
    )
    assert run.last_tasks == ("a", "b")
