"""Runs that a client drives: what may be asked of a task, in which order things are said, how they end."""

import pytest

from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.decide import Reason, decide
from pyoco_server.lifecycle.graph import GraphTask, Join, RetryPolicy
from pyoco_server.lifecycle.run import Run, owes_job
from pyoco_server.lifecycle.status import RunStatus, TaskStatus
from tests.lifecycle.support.alphabet import AT, claim, run_after
from tests.lifecycle.support.graphs import (
    START,
    Led,
    answer,
    asks,
    client_run,
    led,
    lost,
    take,
    task,
    wait_for,
    won,
)
from tests.lifecycle.support.standings import CLAIMED, refused

ANY, DONE = Join.ANY_SUCCESS, Join.ALL_DONE
A, B = task("a"), task("b", "a")


# Beginning


def test_its_tasks_are_there_from_the_beginning_and_nobody_owes_a_job() -> None:
    run = Led(client_run(A, B)).run
    assert [record.state for record in run.tasks.values()] == [TaskStatus.PENDING] * 2
    assert (run.status, owes_job(run), run.job_owed_since) == (RunStatus.PENDING, False, None)
    assert run.last_tasks == ("b",)


def test_the_start_makes_those_ready_that_come_after_nothing() -> None:
    run = led(A, B, wait_for("ok", prompt={"q": "?"}))
    assert run.kinds == ["RunStarted()", "TaskReadied(a)", "TaskReadied(ok)", "TaskWaiting(ok)"]
    assert run.states == {"a": "READY", "b": "PENDING", "ok": "WAITING"}
    assert (run.run.status, run.run.started_at) == (RunStatus.RUNNING, AT)
    wait = run.run.tasks["ok"].wait
    assert wait is not None
    assert (wait.key, wait.prompt, wait.attempt) == ("ok", {"q": "?"}, 1)


def test_a_second_start_and_one_of_a_worker_driven_run_change_nothing() -> None:
    assert led(A).ask(START).said == ()
    assert decide(run_after(), START, AT) == ()
    assert decide(CLAIMED, START, AT) == ()


def test_what_was_carried_over_is_not_run_again() -> None:
    carried = e.TaskSucceeded(at=AT, task="a", attempt=1, started_at=AT, output=1)
    run = Led(client_run(A, B)).ask(c.CarryResults(results=[carried]), START)
    assert run.kinds == ["RunStarted()", "TaskReadied(b)"]
    assert Led(client_run(A)).ask(c.CarryResults(results=[carried]), START).run.status is RunStatus.COMPLETED


def test_once_started_it_is_neither_discarded_nor_claimed_nor_requeued() -> None:
    run = led(A).run
    assert refused(run, c.DiscardRun(reason="x")) is Reason.CLAIMED
    assert refused(run, claim()) is Reason.WRONG_DRIVER
    assert refused(run, c.RequeueRun(job_no=1, reason="x")) is Reason.WRONG_DRIVER


# One task


def test_a_task_is_taken_reports_and_succeeds() -> None:
    run = led(A).ask(take("a"), c.ReportProgress(task="a", progress=42, message="x" * 999))
    record = run.run.tasks["a"]
    assert (record.state, record.attempt, record.worker_id, record.progress) == ("RUNNING", 1, "w", 42)
    assert record.message == "x" * 200
    run.ask(won("a", {"n": 1}))
    assert run.kinds == ["TaskSucceeded(a)", "RunCompleted()"]
    record = run.run.tasks["a"]
    assert (record.output, record.worker_id, record.ready_at) == ({"n": 1}, "w", AT)
    assert run.run.status is RunStatus.COMPLETED


def test_taking_it_twice_is_one_taking() -> None:
    run = led(A).ask(take("a"))
    assert run.ask(take("a")).said == ()
    assert refused(run.run, take("a", worker_id="other")) is Reason.TASK_STATUS
    assert refused(run.run, take("a", attempt=2)) is Reason.TASK_STATUS


@pytest.mark.parametrize("attempt", [0, 2, -1])
def test_the_attempt_has_to_be_the_next_one(attempt: int) -> None:
    assert refused(led(A).run, take("a", attempt=attempt)) is Reason.ATTEMPT


def test_a_task_goes_back_to_work_with_what_the_answer_brought() -> None:
    run = led(A).ask(take("a"), asks("a"))
    assert run.states == {"a": "WAITING"}
    run.ask(answer("a", payload={"yes": 1}, by="ann"))
    record = run.run.tasks["a"]
    assert (record.state, record.payload, record.by, record.wait) == ("RUNNING", {"yes": 1}, "ann", None)
    assert run.ask(asks("a", "again"), won("a")).states == {"a": "SUCCEEDED"}


def test_a_wait_succeeds_with_what_the_answer_brought() -> None:
    run = led(wait_for("ok", wait_key="key"), task("b", "ok")).ask(answer("ok", "key", payload=[1]))
    assert run.kinds == ["TaskResumed(ok)", "TaskSucceeded(ok)", "TaskReadied(b)"]
    assert run.run.tasks["ok"].output == [1]


def test_a_no_is_final_whatever_the_retries() -> None:
    again = RetryPolicy(max_attempts=5)
    run = led(wait_for("ok", retry=again), task("b", "ok")).ask(
        answer("ok", "ok", rejected=True, comment="not today", by="ann")
    )
    assert run.kinds == ["TaskResumed(ok)", "TaskFailed(ok)", "TaskCancelled(b)", "RunFailed(ok)"]
    record = run.run.tasks["ok"]
    assert (record.code, record.error, record.by, record.comment) == (
        "REJECTED",
        "not today",
        "ann",
        "not today",
    )
    assert run.run.error == "ok: not today"
    assert led(A).ask(take("a"), asks("a"), answer("a", rejected=True)).run.tasks["a"].error == "rejected"


def test_a_failed_attempt_is_tried_again_at_once_or_after_its_backoff() -> None:
    at_once = led(task("a", retry=RetryPolicy(max_attempts=2))).ask(take("a"), lost("a"))
    assert at_once.kinds == ["TaskFailed(a)", "TaskReadied(a)"]
    assert at_once.ask(take("a", 2), lost("a")).kinds == ["TaskFailed(a)", "RunFailed(a)"]
    later = led(task("a", retry=RetryPolicy(max_attempts=3, backoff_sec=2, factor=3))).ask(
        take("a"), lost("a")
    )
    assert (later.kinds, later.run.due) == (["TaskFailed(a)"], {"a": AT + 2})
    assert refused(later.run, take("a", 2)) is Reason.TASK_STATUS
    later.ask(c.PassTime(), after_sec=2).ask(take("a", 2), lost("a"))
    assert later.run.due == {"a": AT + 6}


REFUSED = [
    (led(A).run, won("a"), Reason.TASK_STATUS),
    (led(A).run, lost("a"), Reason.TASK_STATUS),
    (led(A).run, asks("a"), Reason.TASK_STATUS),
    (led(A).run, c.ReportProgress(task="a", progress=1), Reason.TASK_STATUS),
    (Led(client_run(A)).run, take("a"), Reason.TASK_STATUS),
    (led(A).ask(take("a"), asks("a")).run, c.ReportProgress(task="a", progress=1), Reason.TASK_STATUS),
    (led(A).ask(take("a"), asks("a")).run, asks("a"), Reason.TASK_STATUS),
    (led(A).ask(take("a"), asks("a")).run, take("a"), Reason.TASK_STATUS),
    (led(A).ask(take("a"), asks("a")).run, answer("a", "other"), Reason.WAIT_KEY),
    (led(A).ask(take("a")).run, answer("a"), Reason.NOT_WAITING),
    (led(A, B).ask(take("a"), won("a")).run, won("a"), Reason.TASK_STATUS),
    (led(A).run, take("z"), Reason.UNKNOWN_TASK),
    (led(A).ask(c.CancelRun()).run, take("z"), Reason.UNKNOWN_TASK),
    (led(A).ask(c.CancelRun()).run, take("a"), Reason.TERMINAL),
    (led(A).ask(c.CancelRun()).run, START, Reason.TERMINAL),
    (run_after(claim(), c.PlanTasks(fence=1, tasks=["a"])), take("a"), Reason.WRONG_DRIVER),
    (
        run_after(claim(), c.PlanTasks(fence=1, tasks=["a"]), c.CancelRun()),
        take("a"),
        Reason.CANCEL_REQUESTED,
    ),
    (run_after(claim(), c.CancelRun()), START, Reason.CANCEL_REQUESTED),
    (led(A).run, c.ArchiveRun(), Reason.NOT_TERMINAL),
    (led(A).run, c.CompleteRun(fence=1), Reason.FENCED),
]


@pytest.mark.parametrize(("run", "command", "reason"), REFUSED)
def test_a_command_out_of_place_is_refused_with_its_reason(
    run: Run, command: c.Command, reason: Reason
) -> None:
    assert refused(run, command) is reason


# Cancelling and putting away


def test_a_cancel_is_over_in_one_commit_and_keeps_what_was_done() -> None:
    run = led(A, B, wait_for("ok"), task("c")).ask(take("a"), won("a", 1), take("c"), c.CancelRun())
    assert run.kinds == ["CancelRequested()", "RunCancelled()"]
    assert run.states == {"a": "SUCCEEDED", "b": "CANCELLED", "ok": "CANCELLED", "c": "CANCELLED"}
    assert (run.run.status, run.run.due) == (RunStatus.CANCELLED, {})
    assert not any(record.skipped for record in run.run.tasks.values())
    assert run.ask(c.CancelRun()).said == ()


def test_a_run_that_is_over_is_put_away_once() -> None:
    run = led(A).ask(c.CancelRun(), c.ArchiveRun(by="ann"))
    assert run.kinds == ["RunArchived()"]
    assert run.run.archived
    assert run.ask(c.ArchiveRun()).said == ()


# What follows an end


def ended(*tasks: GraphTask, **how: str) -> Led:
    """Started, and its tasks ended as named, in this order."""
    run = led(*tasks)
    for name, end in how.items():
        run.ask(take(name), won(name) if end == "won" else lost(name))
    return run


@pytest.mark.parametrize(
    ("join", "ends", "state"),
    [
        (Join.ALL_SUCCESS, {"a": "won"}, "PENDING"),
        (Join.ALL_SUCCESS, {"a": "won", "b": "won"}, "READY"),
        (Join.ALL_SUCCESS, {"a": "lost"}, "CANCELLED"),
        (ANY, {"a": "lost"}, "PENDING"),
        (ANY, {"a": "won"}, "READY"),
        (ANY, {"a": "lost", "b": "won"}, "READY"),
        (ANY, {"a": "lost", "b": "lost"}, "CANCELLED"),
        (DONE, {"a": "lost"}, "PENDING"),
        (DONE, {"a": "won", "b": "lost"}, "READY"),
        (DONE, {"a": "lost", "b": "lost"}, "READY"),
    ],
)
def test_a_join_opens_or_can_never_open(join: Join, ends: dict[str, str], state: str) -> None:
    run = ended(A, task("b"), task("c", "a", "b", join=join), task("z"), **ends)
    assert run.states["c"] == state
    assert run.run.tasks["c"].skipped is (state == "CANCELLED")


def test_what_can_never_run_goes_on_to_what_comes_after_it() -> None:
    run = ended(
        A, task("b", "a"), task("c", "b"), task("d", "c", join=DONE), wait_for("w", "a", join=DONE), a="lost"
    )
    assert run.kinds == [
        "TaskFailed(a)",
        "TaskCancelled(b)",
        "TaskCancelled(c)",
        "TaskReadied(d)",
        "TaskReadied(w)",
        "TaskWaiting(w)",
    ]


def test_what_never_runs_is_counted_in_whatever_order_the_graph_names_it() -> None:
    run = ended(task("d", "b", "c", join=DONE), task("c", "b"), task("b", "a"), A, a="lost")
    assert run.kinds == ["TaskFailed(a)", "TaskCancelled(b)", "TaskCancelled(c)", "TaskReadied(d)"]


@pytest.mark.parametrize(
    ("tasks", "ends", "status", "blamed"),
    [
        ((A, B), {"a": "won", "b": "won"}, "COMPLETED", None),
        ((A, B), {"a": "lost"}, "FAILED", "a"),
        ((A, B), {"a": "won", "b": "lost"}, "FAILED", "b"),
        # Another branch ends well, but nothing has forgiven the failure.
        ((A, task("z")), {"a": "lost", "z": "won"}, "FAILED", "a"),
        ((A, task("b", "a", join=DONE)), {"a": "lost", "b": "won"}, "COMPLETED", None),
        ((A, task("b", "a", join=DONE)), {"a": "lost", "b": "lost"}, "FAILED", "b"),
        (
            (A, task("z"), task("c", "a", "z", join=ANY)),
            {"a": "lost", "z": "won", "c": "won"},
            "COMPLETED",
            None,
        ),
        ((A, task("z"), task("c", "a", "z", join=ANY)), {"a": "lost", "z": "lost"}, "FAILED", "a"),
        # Forgiven by way of one that could never run.
        ((A, B, task("c", "b", join=DONE)), {"a": "lost", "c": "won"}, "COMPLETED", None),
        ((A, B, task("c", "b", join=DONE), task("d", "b")), {"a": "lost", "c": "won"}, "COMPLETED", None),
    ],
)
def test_the_end_is_told_from_the_last_tasks_and_what_was_forgiven(
    tasks: tuple[GraphTask, ...], ends: dict[str, str], status: str, blamed: str | None
) -> None:
    run = ended(*tasks, **ends).run
    assert (run.status.value, run.failed_task) == (status, blamed)


def test_it_goes_on_until_every_task_has_ended() -> None:
    run = ended(A, task("b", "a"), task("z"), a="lost")
    assert run.run.status is RunStatus.RUNNING
    assert run.ask(take("z"), won("z")).kinds == ["TaskSucceeded(z)", "RunFailed(a)"]


def test_a_late_success_of_one_to_be_tried_again_does_not_ready_it_early() -> None:
    slow = RetryPolicy(max_attempts=2, backoff_sec=60)
    run = ended(A, task("b"), task("c", "a", "b", join=ANY, retry=slow), a="won")
    run.ask(take("c"), lost("c"), take("b"), won("b"))
    assert run.states["c"] == "PENDING"
    assert run.ask(c.PassTime(), after_sec=60).states["c"] == "READY"


def test_a_long_chain_falls_without_recursion() -> None:
    chain = [task("t0"), *(task(f"t{n}", f"t{n - 1}") for n in range(1, 1000))]
    run = ended(*chain, t0="lost")
    assert (len(run.said), run.run.status) == (1001, RunStatus.FAILED)
