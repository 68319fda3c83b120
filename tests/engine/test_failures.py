"""What user code can do to the engine: raise, exit, recurse, hang, be slow, be async."""

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyoco.core.context import Context
from pyoco.core.models import Flow, RunContext, TaskState
from pyoco.dsl.syntax import task

from pyoco_server.engine import ERROR_BYTES_MAX, TRACEBACK_BYTES_MAX, Engine, Machine, OutcomeStatus
from pyoco_server.engine.tasks.failure import describe, try_call
from tests.engine.building import (
    DEADLINE_SEC,
    Diary,
    await_signal,
    flow_of,
    machine_timed_from,
    make_task,
    raising,
)


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.engine.walk.in_flight.RETRY_BACKOFF_FIRST_SEC", 0.001)


def flaky(failures: int) -> Callable[[], str]:
    left = [failures]

    def work() -> str:
        if left[0]:
            left[0] -= 1
            raise ValueError(f"{left[0]} left")
        return "done"

    return work


def test_a_failure_fails_the_run_with_error_task_and_the_authors_traceback() -> None:
    outcome = Engine().run(flow_of(make_task("a", raising(ValueError("the reason")))))
    assert (outcome.status, outcome.error, outcome.failed_task) == (OutcomeStatus.FAILED, "the reason", "a")
    assert outcome.traceback is not None
    assert "building.py" in outcome.traceback
    assert "attempt.py" not in outcome.traceback


def test_a_failure_stops_siblings_without_waiting_for_stubborn_ones() -> None:
    diary = Diary()
    let_go = threading.Event()
    both_run = threading.Barrier(3)
    seen: list[bool] = []

    def obedient(ctx: Context) -> None:
        both_run.wait(DEADLINE_SEC)
        while not ctx.is_cancelled:
            time.sleep(0.001)
        seen.append(True)

    def stubborn() -> None:
        both_run.wait(DEADLINE_SEC)
        let_go.wait(DEADLINE_SEC)

    def failing() -> None:
        both_run.wait(DEADLINE_SEC)
        raise ValueError("no")

    bad = make_task("bad", failing)
    after = make_task("after", lambda: None, [bad])
    context = RunContext()
    flow = flow_of(bad, after, make_task("obedient", obedient), make_task("stubborn", stubborn))
    outcome = Engine(listener=diary).run(flow, run_context=context)
    let_go.set()
    assert (outcome.status, outcome.failed_task, seen) == (OutcomeStatus.FAILED, "bad", [True])
    assert diary.of("cancelled") == [("after",), ("stubborn",)]
    assert context.tasks["obedient"] is TaskState.SUCCEEDED
    assert outcome.context.is_cancelled  # for the one that was left behind


@pytest.mark.parametrize(
    "exc", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()]
)
def test_no_exception_of_user_code_ends_the_engine(exc: BaseException) -> None:
    bad = make_task("bad", raising(exc), fail_policy="isolate")
    diary = Diary()
    outcome = Engine(listener=diary, parallelism=1).run(flow_of(bad, make_task("good", lambda: 1)))
    assert (outcome.status, outcome.results) == (OutcomeStatus.COMPLETED, {"good": 1})
    assert len(diary.of("failed")[0][2]) > 20


def test_a_recursion_error_is_a_failure() -> None:
    def deeper() -> Any:
        return deeper()

    outcome = Engine().run(flow_of(make_task("a", deeper)))
    assert outcome.status is OutcomeStatus.FAILED
    assert "recursion" in (outcome.error or "")


def test_huge_and_broken_messages_are_cut_to_valid_text() -> None:
    outcome = Engine().run(flow_of(make_task("a", raising(ValueError("é\udcff" * 100_000)))))
    assert outcome.error is not None
    assert outcome.traceback is not None
    assert len(outcome.error.encode()) <= ERROR_BYTES_MAX
    assert len(outcome.traceback.encode()) <= TRACEBACK_BYTES_MAX


def test_an_exception_that_cannot_be_shown_is_still_a_failure() -> None:
    class Shy(Exception):
        def __str__(self) -> str:
            raise SystemExit

    assert "Shy" in (Engine().run(flow_of(make_task("a", raising(Shy())))).error or "")


def test_an_exception_without_text_is_named() -> None:
    assert Engine().run(flow_of(make_task("a", raising(ValueError())))).error == "ValueError"


@pytest.mark.usefixtures("quick_retries")
def test_a_task_is_retried_as_often_as_it_says() -> None:
    diary = Diary()
    context = RunContext()
    outcome = Engine(listener=diary).run(flow_of(make_task("a", flaky(2), retries=2)), run_context=context)
    assert outcome.results == {"a": "done"}
    assert diary.of("failed") == [("a", 1, "1 left", True), ("a", 2, "0 left", True)]
    assert [(name, attempt) for name, attempt, _ in diary.of("started")] == [("a", 1), ("a", 2), ("a", 3)]
    assert context.task_records["a"].error is None


@pytest.mark.usefixtures("quick_retries")
def test_the_last_failure_counts_when_retries_are_used_up() -> None:
    diary = Diary()
    outcome = Engine(listener=diary).run(flow_of(make_task("a", flaky(9), retries=1)))
    assert (outcome.status, outcome.error) == (OutcomeStatus.FAILED, "7 left")
    assert [will_retry for *_, will_retry in diary.of("failed")] == [True, False]


def test_a_waiting_retry_does_not_keep_a_thread_from_others() -> None:
    order: list[str] = []
    bad = make_task("a", flaky(1), retries=1)
    good = make_task("b", lambda: order.append("b"))
    last = make_task("c", lambda: order.append("c"), [bad])
    Engine(parallelism=1).run(flow_of(bad, good, last))
    assert order == ["b", "c"]


def test_a_timeout_ends_the_wait_tells_the_task_and_ignores_what_it_returns() -> None:
    diary = Diary()
    begun, came_back = threading.Event(), threading.Event()

    def slow(ctx: Context) -> str:
        begun.set()
        while not ctx.is_cancelled:
            time.sleep(0.001)
        came_back.set()
        return "too late"

    late = make_task("late", slow, timeout_sec=0.05, fail_policy="isolate", retries=3)
    other = make_task("other", lambda: came_back.wait(DEADLINE_SEC))
    outcome = Engine(listener=diary, machine=machine_timed_from(begun)).run(flow_of(late, other))
    assert outcome.status is OutcomeStatus.COMPLETED
    assert outcome.results == {"other": True}
    assert diary.of("failed") == [("late", 1, "Task 'late' exceeded timeout of 0.05s", False)]
    assert not outcome.context.is_cancelled


def test_a_timeout_of_a_stop_task_fails_the_run() -> None:
    let_go = threading.Event()
    outcome = Engine().run(flow_of(make_task("a", lambda: let_go.wait(DEADLINE_SEC), timeout_sec=0.02)))
    let_go.set()
    assert (outcome.status, outcome.failed_task) == (OutcomeStatus.FAILED, "a")


def test_the_thread_of_a_timed_out_task_is_replaced() -> None:
    let_go = threading.Event()
    stuck = make_task("a", lambda: let_go.wait(DEADLINE_SEC), timeout_sec=0.02, fail_policy="isolate")
    outcome = Engine(parallelism=1).run(flow_of(stuck, make_task("b", lambda: "ran")))
    let_go.set()
    assert outcome.results == {"b": "ran"}


def test_the_time_of_a_task_begins_with_its_start_and_not_while_it_waits_for_a_thread() -> None:
    time_of_slow = threading.Event()
    machine = Machine(stopwatch=lambda: 0.6 if time_of_slow.is_set() else 0.0)
    slow = make_task("a", time_of_slow.set)
    quick = make_task("b", lambda: 1, timeout_sec=0.5)
    flow = flow_of(slow, quick)
    assert Engine(parallelism=1, machine=machine).run(flow).status is OutcomeStatus.COMPLETED
    assert time_of_slow.is_set()


def test_a_timeout_counts_inside_loops_too() -> None:
    diary = Diary()
    let_go = threading.Event()
    waiting = task(lambda: let_go.wait(DEADLINE_SEC))
    waiting.task.name, waiting.task.timeout_sec = "waiting", 0.02
    outcome = Engine(listener=diary).run(Flow() >> waiting[3])
    let_go.set()
    error = "Task 'waiting[0]' exceeded timeout of 0.02s"
    assert (outcome.status, outcome.error) == (OutcomeStatus.FAILED, error)
    assert [entry[:3] for entry in diary.of("failed")] == [("waiting[0]", 1, error), ("waiting", 1, error)]


def test_no_retry_begins_after_the_time_of_the_task_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in ("RETRY_BACKOFF_FIRST_SEC", "RETRY_BACKOFF_MAX_SEC"):
        monkeypatch.setattr(f"pyoco_server.engine.walk.in_flight.{setting}", 4 * DEADLINE_SEC)
    diary = Diary()
    once = make_task("a", flaky(1), retries=1, timeout_sec=DEADLINE_SEC)
    outcome = Engine(listener=diary).run(flow_of(once))
    assert outcome.status is OutcomeStatus.FAILED
    assert diary.of("failed") == [("a", 1, "0 left", False)]


def test_a_timeout_longer_than_any_clock_is_no_problem() -> None:
    assert (
        Engine().run(flow_of(make_task("a", lambda: 1, timeout_sec=1e300))).status is OutcomeStatus.COMPLETED
    )


def test_async_tasks_are_awaited_each_on_its_own_loop() -> None:
    together = threading.Barrier(2)
    loops: set[int] = set()

    async def work(ctx: Context) -> int:
        await asyncio.sleep(0)
        loops.add(id(asyncio.get_running_loop()))
        together.wait(DEADLINE_SEC)
        return 7

    outcome = Engine().run(flow_of(make_task("a", work), make_task("b", work)))
    assert outcome.results == {"a": 7, "b": 7}
    assert len(loops) == 2


def test_a_timed_out_async_task_is_cancelled() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    engine = Engine(machine=machine_timed_from(begun))
    assert engine.run(flow_of(make_task("a", work, timeout_sec=0.02))).status is OutcomeStatus.FAILED
    await_signal(ended)


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


class Data:
    """Stands for a large value of a task."""


@pytest.mark.usefixtures("without_collector")
def test_an_error_that_was_caught_keeps_no_data_of_user_code() -> None:
    kept: list[weakref.ref[Data]] = []

    def fail() -> None:
        data = Data()
        kept.append(weakref.ref(data))
        raise ValueError("defect")

    failure = try_call(fail, on_error=describe)
    assert failure is not None
    assert failure.error == "defect"
    assert kept[0]() is None
