"""Cancel wins: before the run, between tasks, inside tasks, and when a task never returns."""

import asyncio
import threading
import time

import pytest
from pyoco.core.models import RunContext, RunStatus, TaskState
from pyoco.dsl.syntax import task

from pyoco_server.engine import Cancelled, Engine, OutcomeStatus
from pyoco_server.engine.tasks.context import EngineContext
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


def test_a_cancel_before_the_run_executes_nothing() -> None:
    diary = Diary()
    engine = Engine(listener=diary)
    context = RunContext()
    engine.cancel(context.run_id)
    engine.cancel(context.run_id)
    outcome = engine.run(flow_of(make_task("a", raising(AssertionError("executed")))), run_context=context)
    assert outcome.status is OutcomeStatus.CANCELLED
    assert diary.entries == [("planned", "a"), ("cancelled", "a")]
    assert context.tasks == {"a": TaskState.CANCELLED}


def test_a_context_that_is_already_cancelling_executes_nothing() -> None:
    context = RunContext(status=RunStatus.CANCELLING)
    outcome = Engine().run(flow_of(make_task("a", raising(AssertionError("executed")))), run_context=context)
    assert outcome.status is OutcomeStatus.CANCELLED
    assert context.status is RunStatus.CANCELLED


def test_a_cancel_of_an_unknown_run_is_fine_and_does_not_touch_others() -> None:
    engine = Engine()
    for number in range(3000):
        engine.cancel(f"unknown-{number}")
    assert engine.run(flow_of(make_task("a", lambda: 1))).status is OutcomeStatus.COMPLETED


def test_a_running_task_sees_the_cancel_and_nothing_starts_after_it() -> None:
    diary = Diary()
    work = Obedient()
    first = make_task("first", work)
    second = make_task("second", raising(AssertionError("executed")), [first])
    with Background(Engine(listener=diary), flow_of(first, second)) as run:
        await_signal(work.running)
        run.cancel()
        run.cancel()
        outcome = run.outcome()
    assert outcome.status is OutcomeStatus.CANCELLED
    assert outcome.results == {"first": "returned"}
    assert diary.of("cancelled") == [("second",)]
    assert run.context.tasks == {"first": TaskState.SUCCEEDED, "second": TaskState.CANCELLED}
    assert outcome.error is None


def test_a_cancel_during_the_last_task_ends_cancelled() -> None:
    work = Obedient()
    with Background(Engine(), flow_of(make_task("only", work))) as run:
        await_signal(work.running)
        run.cancel()
        assert run.outcome().status is OutcomeStatus.CANCELLED


def test_a_task_that_raises_because_of_the_cancel_is_cancelled_and_not_failed() -> None:
    diary = Diary()
    work = Obedient(ValueError("I was told to stop"))
    with Background(Engine(listener=diary), flow_of(make_task("a", work, retries=3))) as run:
        await_signal(work.running)
        run.cancel()
        assert run.outcome().status is OutcomeStatus.CANCELLED
    assert diary.of("failed") == []
    assert diary.of("cancelled") == [("a",)]


def test_an_async_task_is_cancelled_where_it_awaits() -> None:
    running, ended = threading.Event(), threading.Event()

    async def wait_for_ever() -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with Background(Engine(), flow_of(make_task("a", wait_for_ever))) as run:
        await_signal(running)
        run.cancel()
        assert run.outcome().status is OutcomeStatus.CANCELLED
    assert ended.is_set()


def test_a_task_that_does_not_return_is_waited_for_until_the_run_is_abandoned() -> None:
    diary = Diary()
    running, let_go, came_back = threading.Event(), threading.Event(), threading.Event()

    def stubborn() -> str:
        running.set()
        let_go.wait(DEADLINE_SEC)
        came_back.set()
        return "too late"

    with Background(Engine(listener=diary), flow_of(make_task("a", stubborn))) as run:
        await_signal(running)
        run.cancel()
        assert not run.is_over
        run.abandon()
        outcome = run.outcome()
        let_go.set()
        await_signal(came_back)
    assert outcome.status is OutcomeStatus.CANCELLED
    assert outcome.context.results == {}
    assert outcome.context.is_cancelled
    assert diary.of("cancelled") == [("a",)]


def test_a_cancel_ends_the_wait_for_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.engine.walk.in_flight.RETRY_BACKOFF_FIRST_SEC", 3600.0)
    monkeypatch.setattr("pyoco_server.engine.walk.in_flight.RETRY_BACKOFF_MAX_SEC", 3600.0)
    failed = threading.Event()

    class Signal(Diary):
        def task_failed(self, *args: object) -> None:
            failed.set()

    flow = flow_of(make_task("a", raising(ValueError("again")), retries=5))
    with Background(Engine(listener=Signal()), flow) as run:
        await_signal(failed)
        run.cancel()
        assert run.outcome().status is OutcomeStatus.CANCELLED
    assert run.context.tasks == {"a": TaskState.CANCELLED}


def test_a_cancel_reaches_a_run_that_waits_for_an_acknowledgement() -> None:
    succeeded = threading.Event()

    class Silent(Diary):
        def task_succeeded(self, *args: object) -> None:
            succeeded.set()

    a = make_task("a", lambda: 1)
    with Background(Engine(listener=Silent()), flow_of(a, make_task("b", lambda: 1, [a]))) as run:
        await_signal(succeeded)
        run.cancel()
        assert run.outcome().status is OutcomeStatus.CANCELLED


def test_a_cancel_from_inside_a_callback_is_honoured_at_once() -> None:
    context = RunContext()

    class Cancelling(Diary):
        def task_started(self, *args: object) -> None:
            engine.cancel(context.run_id)

    engine = Engine(listener=Cancelling(), parallelism=4)
    started: list[str] = []
    tasks = [make_task(name, lambda name=name: started.append(name)) for name in "abcd"]
    assert engine.run(flow_of(*tasks), run_context=context).status is OutcomeStatus.CANCELLED
    assert len(started) <= 1


def test_cancelling_one_run_leaves_another_of_the_same_engine_alone() -> None:
    engine = Engine()
    work, finish = Obedient(), threading.Event()
    other_running = threading.Event()

    def other() -> bool:
        other_running.set()
        return finish.wait(DEADLINE_SEC)

    with (
        Background(engine, flow_of(make_task("a", work))) as cancelled,
        Background(engine, flow_of(make_task("a", other))) as untouched,
    ):
        await_signal(work.running)
        await_signal(other_running)
        cancelled.cancel()
        assert cancelled.outcome().status is OutcomeStatus.CANCELLED
        finish.set()
        assert untouched.outcome().status is OutcomeStatus.COMPLETED


def test_a_task_stops_where_it_asks_whether_it_should() -> None:
    diary = Diary()
    running = threading.Event()

    def work(ctx: EngineContext) -> None:
        running.set()
        give_up_at = time.monotonic() + DEADLINE_SEC
        while time.monotonic() < give_up_at:
            try:
                ctx.raise_if_cancelled()
                time.sleep(0.001)
            except Exception:
                raise AssertionError("a broad except must not swallow it") from None

    with Background(Engine(listener=diary), flow_of(make_task("a", work, retries=3))) as run:
        await_signal(running)
        run.cancel()
        assert run.outcome().status is OutcomeStatus.CANCELLED
    assert (diary.of("failed"), diary.of("cancelled")) == ([], [("a",)])


def test_a_coroutine_may_raise_cancelled_too() -> None:
    diary = Diary()
    running = threading.Event()

    async def work(ctx: EngineContext) -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            ctx.raise_if_cancelled()

    with Background(Engine(listener=diary), flow_of(make_task("a", work))) as run:
        await_signal(running)
        run.cancel()
        assert run.outcome().status is OutcomeStatus.CANCELLED
    assert diary.of("cancelled") == [("a",)]


def test_asking_without_a_cancel_does_nothing() -> None:
    outcome = Engine().run(flow_of(make_task("a", lambda ctx: ctx.raise_if_cancelled())))
    assert outcome.status is OutcomeStatus.COMPLETED


def test_cancelled_without_a_cancel_is_a_failure_that_says_so() -> None:
    outcome = Engine().run(flow_of(make_task("a", raising(Cancelled()))))
    assert outcome.status is OutcomeStatus.FAILED
    assert outcome.error == "The task raised Cancelled, but no cancel had been asked for"


def test_calling_a_task_object_inside_a_task_executes_nothing() -> None:
    """pyoco's task objects return themselves, so there is no boundary at which a cancel could be noticed."""
    executed: list[str] = []

    @task
    def inner() -> None:
        executed.append("inner")

    assert inner() is inner
    assert Engine().run(flow_of(make_task("a", lambda: inner() and None))).status is OutcomeStatus.COMPLETED
    assert executed == []
