"""What a run may use: its own time, and the leave to start anything at all."""

import asyncio
import math
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from pyoco.core.models import Flow, RunContext, RunStatus, TaskState
from pyoco.dsl.syntax import task

from pyoco_server.engine import Engine, OutcomeStatus, RunOutcome
from pyoco_server.engine.walk.in_flight import RETRY_BACKOFF_MAX_SEC, backoff_sec
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
    assert (outcome.status, outcome.error, outcome.failed_task) == (OutcomeStatus.FAILED, OVER_TIME, None)
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
    assert (outcome.status, outcome.error) == (OutcomeStatus.FAILED, OVER_TIME)
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
    monkeypatch.setattr("pyoco_server.engine.walk.in_flight.RETRY_BACKOFF_FIRST_SEC", 3600.0)
    monkeypatch.setattr("pyoco_server.engine.walk.in_flight.RETRY_BACKOFF_MAX_SEC", 3600.0)
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
    assert (outcome.status, outcome.error) == (OutcomeStatus.FAILED, OVER_TIME)
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
    assert (outcome.status, outcome.error) == (OutcomeStatus.CANCELLED, None)
    engine, context = Engine(), RunContext()
    engine.cancel(context.run_id)
    flow = flow_of(make_task("a", lambda: 1))
    assert engine.run(flow, run_context=context, timeout_sec=1e-9).status is OutcomeStatus.CANCELLED


def test_a_run_in_time_is_not_touched() -> None:
    outcome = Engine().run(flow_of(make_task("a", lambda: 1)), timeout_sec=1e300)
    assert (outcome.status, outcome.results) == (OutcomeStatus.COMPLETED, {"a": 1})


@pytest.mark.parametrize("timeout_sec", [0, -1.0, math.nan])
def test_a_timeout_that_is_none_is_refused(timeout_sec: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Engine().run(flow_of(), timeout_sec=timeout_sec)


def test_a_whole_number_is_told_as_one() -> None:
    outcome = Engine().run(flow_of(make_task("a", Obedient())), timeout_sec=1)
    assert outcome.error == "The run exceeded its timeout of 1s"


# Leave to start


class Leave:
    """Says yes so many times, then no until it is given again."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.asked: list[int] = []
        self.refused = threading.Event()

    def __call__(self) -> bool:
        self.asked.append(threading.get_ident())
        self.times -= 1
        if self.times < 0:
            self.refused.set()
        return self.times >= 0


@contextmanager
def running(engine: Engine, flow: Flow, context: RunContext | None = None) -> Iterator[Future[RunOutcome]]:
    with ThreadPoolExecutor(max_workers=1) as pool:
        yield pool.submit(engine.run, flow, None, context)


def chain_of(count: int) -> Flow:
    tasks = [make_task("t0", lambda: 0)]
    for index in range(1, count):
        tasks.append(make_task(f"t{index}", lambda: 0, [tasks[-1]]))
    return flow_of(*tasks)


def test_without_leave_nothing_more_is_started_and_with_it_the_run_goes_on() -> None:
    diary, leave = Diary(), Leave(2)
    engine = Engine(listener=diary, may_start=leave)
    with running(engine, chain_of(5)) as outcome:
        await_signal(leave.refused)
        assert [name for name, *_ in diary.of("started")] == ["t0", "t1"]
        leave.times = 100
        engine.wake()
        assert outcome.result(timeout=10).status is OutcomeStatus.COMPLETED
    assert [name for name, *_ in diary.of("started")] == ["t0", "t1", "t2", "t3", "t4"]
    assert len(set(leave.asked)) == 1


def test_a_missed_wake_up_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.engine.walk.scheduler.HELD_CHECK_SEC", 0.01)
    leave = Leave(1)
    with running(Engine(may_start=leave), chain_of(3)) as outcome:
        await_signal(leave.refused)
        leave.times = 100
        assert outcome.result(timeout=10).status is OutcomeStatus.COMPLETED


@pytest.mark.parametrize("ends", ["cancel", "abandon"])
def test_a_run_without_leave_can_be_stopped(ends: str) -> None:
    leave, context = Leave(1), RunContext(run_id="r", flow_name="f")
    engine = Engine(may_start=leave)
    with running(engine, chain_of(3), context) as outcome:
        await_signal(leave.refused)
        getattr(engine, ends)("r")
        assert outcome.result(timeout=10).status is OutcomeStatus.CANCELLED


def test_a_run_without_leave_ends_by_its_timeout() -> None:
    leave = Leave(1)
    outcome = Engine(may_start=leave).run(chain_of(3), timeout_sec=0.05)
    assert outcome.status is OutcomeStatus.FAILED


def test_what_was_started_goes_on_and_is_told_without_leave() -> None:
    work, diary, leave = Obedient(), Diary(), Leave(1)
    engine = Engine(listener=diary, may_start=leave)
    flow = flow_of(make_task("a", work), make_task("b", lambda: 1))
    context = RunContext(run_id="r", flow_name="f")
    with running(engine, flow, context) as outcome:
        await_signal(leave.refused)
        await_signal(work.running)
        engine.cancel("r")
        assert outcome.result(timeout=10).results == {"a": "returned"}
    assert [name for name, *_ in diary.of("started")] == ["a"]


def test_each_retry_and_each_iteration_needs_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.engine.walk.in_flight.RETRY_BACKOFF_FIRST_SEC", 0.001)
    retried = flow_of(make_task("a", raising(ValueError("no")), retries=9))

    @task
    def step() -> None:
        return None

    for flow in (retried, Flow() >> step[9]):
        leave = Leave(2)
        engine = Engine(may_start=leave)
        with running(engine, flow, RunContext(run_id="r", flow_name="f")):
            await_signal(leave.refused)
            assert len(leave.asked) in (3, 4)  # twice for the attempt that is held
            engine.cancel("r")


def test_what_is_recorded_needs_no_leave() -> None:
    flow = flow_of(make_task("a", lambda: 1))
    assert Engine(may_start=lambda: False).run(flow, recorded={"a": 1}).status is OutcomeStatus.COMPLETED


# Backoff


@pytest.mark.parametrize(("retries_done", "step_sec"), [(0, 0.1), (1, 0.2), (3, 0.8), (5, 3.2), (6, 5.0)])
def test_a_retry_waits_between_half_of_its_step_and_all_of_it(retries_done: int, step_sec: float) -> None:
    waits = [backoff_sec(retries_done) for _ in range(200)]
    assert step_sec / 2 <= min(waits) < max(waits) <= step_sec
    assert backoff_sec(retries_done, lambda: 0.0) == pytest.approx(step_sec / 2)
    assert backoff_sec(retries_done, lambda: 1.0) == pytest.approx(step_sec)


def test_a_thousandth_retry_waits_no_longer_than_the_longest() -> None:
    assert RETRY_BACKOFF_MAX_SEC / 2 <= backoff_sec(10_000) <= RETRY_BACKOFF_MAX_SEC
