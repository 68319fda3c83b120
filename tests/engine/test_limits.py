"""What a run may use: its own time, and the leave to start anything at all."""

import asyncio
import math
import threading

import pytest
from pyoco.core.models import Flow, RunContext, RunStatus, TaskState
from pyoco.dsl.syntax import task

from pyoco_server.engine import Engine, Status
from pyoco_server.engine.backoff import RETRY_BACKOFF_MAX_SEC, backoff_sec
from tests.engine.building import (
    DEADLINE_SEC,
    Background,
    Diary,
    Obedient,
    await_signal,
    flow_of,
    make_task,
    raising,
)

TIMEOUT_SEC = 0.3  # long enough for tasks to have started on a busy machine
OVER_TIME = f"The run exceeded its timeout of {TIMEOUT_SEC}s"


def test_a_run_over_its_time_fails_and_its_tasks_are_asked_to_return() -> None:
    diary = Diary()
    obedient, failing = Obedient(), Obedient(ValueError("I saw it"))
    first = make_task("first", obedient)
    flow = flow_of(first, make_task("other", failing), make_task("after", lambda: 1, [first]))
    context = RunContext()
    outcome = Engine(listener=diary).run(flow, run_context=context, timeout_sec=TIMEOUT_SEC)
    assert (outcome.status, outcome.error, outcome.failed_task) == (Status.FAILED, OVER_TIME, None)
    assert outcome.results == {"first": "returned"}
    assert sorted(diary.of("cancelled")) == [("after",), ("other",)]
    assert diary.of("failed") == []
    assert context.status is RunStatus.FAILED


def test_a_task_that_does_not_return_in_the_grace_is_left_behind() -> None:
    let_go = threading.Event()
    context = RunContext()
    flow = flow_of(make_task("stubborn", lambda: let_go.wait(DEADLINE_SEC)))
    outcome = Engine().run(flow, run_context=context, timeout_sec=TIMEOUT_SEC)
    let_go.set()
    assert (outcome.status, outcome.error) == (Status.FAILED, OVER_TIME)
    assert context.tasks == {"stubborn": TaskState.CANCELLED}
    assert outcome.context.is_cancelled


def test_a_coroutine_is_cancelled_where_it_awaits() -> None:
    ended = threading.Event()

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    outcome = Engine().run(flow_of(make_task("a", wait_for_ever)), timeout_sec=TIMEOUT_SEC)
    assert (outcome.error, ended.is_set()) == (OVER_TIME, True)


def test_a_retry_that_waits_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.engine.backoff.RETRY_BACKOFF_FIRST_SEC", 3600.0)
    monkeypatch.setattr("pyoco_server.engine.backoff.RETRY_BACKOFF_MAX_SEC", 3600.0)
    diary = Diary()
    flow = flow_of(make_task("a", raising(ValueError("again")), retries=5))
    outcome = Engine(listener=diary).run(flow, timeout_sec=TIMEOUT_SEC)
    assert outcome.error == OVER_TIME
    assert diary.of("cancelled") == [("a",)]


def test_loops_end_with_the_time_too() -> None:
    @task
    def step() -> None:
        return None

    context = RunContext()
    flow = Flow() >> step[10_000_000]
    outcome = Engine().run(flow, run_context=context, timeout_sec=TIMEOUT_SEC)
    assert (outcome.status, outcome.error) == (Status.FAILED, OVER_TIME)
    assert context.tasks["step"] is TaskState.CANCELLED


def test_a_task_inside_a_loop_is_stopped_when_the_time_is_up() -> None:
    work = Obedient()
    stopped = task(lambda ctx: work(ctx))
    stopped.task.name = "stopped"
    context = RunContext()
    outcome = Engine().run(Flow() >> stopped[5], run_context=context, timeout_sec=TIMEOUT_SEC)
    assert outcome.error == OVER_TIME
    assert context.tasks == {"stopped": TaskState.CANCELLED, "stopped[0]": TaskState.SUCCEEDED}


def test_a_cancel_that_came_before_wins() -> None:
    let_go, running = threading.Event(), threading.Event()

    def stubborn() -> None:
        running.set()
        let_go.wait(DEADLINE_SEC)

    with Background(Engine(), flow_of(make_task("a", stubborn)), timeout_sec=3600.0) as run:
        await_signal(running)
        run.cancel()
        run.abandon()
        outcome = run.outcome()
        let_go.set()
    assert (outcome.status, outcome.error) == (Status.CANCELLED, None)
    engine, context = Engine(), RunContext()
    engine.cancel(context.run_id)
    flow = flow_of(make_task("a", lambda: 1))
    assert engine.run(flow, run_context=context, timeout_sec=1e-9).status is Status.CANCELLED


def test_a_run_in_time_is_not_touched() -> None:
    outcome = Engine().run(flow_of(make_task("a", lambda: 1)), timeout_sec=1e300)
    assert (outcome.status, outcome.results) == (Status.COMPLETED, {"a": 1})


@pytest.mark.parametrize("timeout_sec", [0, -1.0, math.nan])
def test_a_timeout_that_is_none_is_refused(timeout_sec: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Engine().run(flow_of(), timeout_sec=timeout_sec)


def test_a_whole_number_is_told_as_one() -> None:
    outcome = Engine().run(flow_of(make_task("a", Obedient())), timeout_sec=1)
    assert outcome.error == "The run exceeded its timeout of 1s"


# Leave to start


def test_without_leave_nothing_more_is_started() -> None:
    diary = Diary()
    asked: list[int] = []

    def may_start() -> bool:
        asked.append(threading.get_ident())
        return len(asked) < 3

    tasks = [make_task("t0", lambda: 0)]
    for index in range(1, 5):
        tasks.append(make_task(f"t{index}", lambda: 0, [tasks[-1]]))
    outcome = Engine(listener=diary, may_start=may_start).run(flow_of(*tasks))
    assert (outcome.status, outcome.error) == (Status.ABANDONED, "the worker has not been heard of")
    assert [name for name, *_ in diary.of("started")] == ["t0", "t1"]
    assert diary.of("cancelled") == []  # nobody listens: the run is not ours any more
    assert set(asked) == {threading.get_ident()}


def test_a_run_without_leave_waits_for_what_it_has_started() -> None:
    work = Obedient()
    answers = iter([True, False])

    def may_start() -> bool:
        answer = next(answers)
        if not answer:
            await_signal(work.running)
        return answer

    outcome = Engine(may_start=may_start).run(flow_of(make_task("a", work), make_task("b", lambda: 1)))
    assert (outcome.status, outcome.results) == (Status.ABANDONED, {"a": "returned"})


def test_each_retry_and_each_iteration_needs_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.engine.backoff.RETRY_BACKOFF_FIRST_SEC", 0.001)
    asked: list[bool] = []

    def may_start() -> bool:
        asked.append(True)
        return len(asked) <= 2

    retried = flow_of(make_task("a", raising(ValueError("no")), retries=9))
    assert Engine(may_start=may_start).run(retried).status is Status.ABANDONED
    assert len(asked) == 3
    asked.clear()

    @task
    def step() -> None:
        return None

    assert Engine(may_start=may_start).run(Flow() >> step[9]).status is Status.ABANDONED
    assert len(asked) == 3


def test_what_is_recorded_needs_no_leave() -> None:
    flow = flow_of(make_task("a", lambda: 1))
    assert Engine(may_start=lambda: False).run(flow, recorded={"a": 1}).status is Status.COMPLETED


# Backoff


@pytest.mark.parametrize(("retries_done", "step_sec"), [(0, 0.1), (1, 0.2), (3, 0.8), (5, 3.2), (6, 5.0)])
def test_a_retry_waits_between_half_of_its_step_and_all_of_it(retries_done: int, step_sec: float) -> None:
    waits = [backoff_sec(retries_done) for _ in range(200)]
    assert step_sec / 2 <= min(waits) < max(waits) <= step_sec
    assert backoff_sec(retries_done, lambda: 0.0) == pytest.approx(step_sec / 2)
    assert backoff_sec(retries_done, lambda: 1.0) == pytest.approx(step_sec)


def test_a_thousandth_retry_waits_no_longer_than_the_longest() -> None:
    assert RETRY_BACKOFF_MAX_SEC / 2 <= backoff_sec(10_000) <= RETRY_BACKOFF_MAX_SEC
