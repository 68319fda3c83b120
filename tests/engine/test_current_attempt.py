"""Wherever code runs on behalf of a task, it is known which attempt at which task that is."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyoco.core.models import RunContext

from pyoco_server.engine import Engine, OutcomeStatus
from pyoco_server.engine.tasks import current_attempt
from pyoco_server.engine.tasks.current_attempt import CURRENT, CurrentAttempt, install_thread_inheritance
from tests.engine.building import DEADLINE_SEC, flow_of, make_task


@pytest.fixture
def inheriting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_attempt, "_is_installed", False)
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.start)
    monkeypatch.setattr(ThreadPoolExecutor, "submit", ThreadPoolExecutor.submit)
    install_thread_inheritance()


def here() -> tuple[str, int] | None:
    """Task and attempt."""
    speaker = CURRENT.get()
    return speaker[:2] if speaker else None


def seen_by(work: Callable[[], Any], **settings: Any) -> Any:
    outcome = Engine().run(flow_of(make_task("a", work, **settings)))
    assert outcome.status is OutcomeStatus.COMPLETED, outcome.error
    return outcome.results["a"]


def in_thread(make: Callable[[Callable[[], None]], threading.Thread]) -> Any:
    """What a thread that is made inside a task sees."""

    def work() -> Any:
        seen: list[Any] = []
        thread = make(lambda: seen.append(here()))
        thread.start()
        thread.join(DEADLINE_SEC)
        return seen

    return seen_by(work)


def test_a_task_is_known_in_its_thread_and_nowhere_else() -> None:
    together = threading.Barrier(2)

    def work() -> Any:
        together.wait(DEADLINE_SEC)
        return here()

    outcome = Engine().run(flow_of(make_task("a", work), make_task("b", work)))
    assert outcome.results == {"a": ("a", 1), "b": ("b", 1)}
    assert here() is None


def test_the_run_is_known_too() -> None:
    context = RunContext(run_id="r7", flow_name="f")
    outcome = Engine().run(flow_of(make_task("a", lambda: CURRENT.get())), run_context=context)
    assert outcome.results == {"a": CurrentAttempt("a", 1, "r7")}


def test_each_attempt_is_known_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.engine.walk.in_flight.RETRY_BACKOFF_FIRST_SEC", 0.001)
    seen: list[Any] = []

    def work() -> list[Any]:
        seen.append(here())
        if len(seen) < 3:
            raise ValueError("again")
        return seen

    assert seen_by(work, retries=2) == [("a", 1), ("a", 2), ("a", 3)]


def test_asyncio_tasks_speak_for_the_task_that_made_them() -> None:
    async def inner() -> Any:
        return here()

    async def work() -> Any:
        return [await asyncio.create_task(inner()), await asyncio.to_thread(here)]

    assert seen_by(work) == [("a", 1), ("a", 1)]


@pytest.mark.usefixtures("inheriting")
def test_a_thread_speaks_for_the_task_that_started_it() -> None:
    assert in_thread(lambda look: threading.Thread(target=look)) == [("a", 1)]
    assert in_thread(lambda look: threading.Timer(0, look)) == [("a", 1)]


@pytest.mark.usefixtures("inheriting")
def test_a_thread_of_a_subclass_with_a_run_of_its_own_speaks_too() -> None:
    class Own(threading.Thread):
        def __init__(self, look: Callable[[], None]) -> None:
            super().__init__()
            self._look = look

        def start(self) -> None:
            super().start()

        def run(self) -> None:
            self._look()

    assert in_thread(Own) == [("a", 1)]


@pytest.mark.usefixtures("inheriting")
def test_a_thread_of_a_thread_speaks_as_well() -> None:
    def nested(look: Callable[[], None]) -> threading.Thread:
        def outer() -> None:
            inner = threading.Thread(target=look)
            inner.start()
            inner.join(DEADLINE_SEC)

        return threading.Thread(target=outer)

    assert in_thread(nested) == [("a", 1)]


@pytest.mark.usefixtures("inheriting")
def test_a_thread_started_outside_of_tasks_speaks_for_nobody_and_nothing_lingers() -> None:
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append(here()))
    thread.start()
    thread.join(DEADLINE_SEC)
    assert (seen, "run" in vars(thread)) == ([None], False)


@pytest.mark.usefixtures("inheriting")
def test_a_thread_that_has_ended_is_not_kept_alive_by_itself() -> None:
    def work() -> Any:
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join(DEADLINE_SEC)
        return weakref.ref(thread)

    gc.disable()
    try:
        assert seen_by(work)() is None
    finally:
        gc.enable()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(max_workers=1) as pool:
        yield pool


@pytest.mark.usefixtures("inheriting")
def test_work_in_a_pool_speaks_for_the_task_that_submitted_it(pool: ThreadPoolExecutor) -> None:
    def work() -> Any:
        return pool.submit(here).result(DEADLINE_SEC)

    first = make_task("first", work)
    second = make_task("second", lambda: list(pool.map(lambda _: here(), range(2))), [first])
    outcome = Engine().run(flow_of(first, second))
    assert outcome.results == {"first": ("first", 1), "second": [("second", 1)] * 2}
    assert pool.submit(here).result(DEADLINE_SEC) is None


@pytest.mark.usefixtures("inheriting")
def test_a_loops_default_pool_speaks_for_the_task() -> None:
    async def work() -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, here)

    assert seen_by(work) == ("a", 1)


@pytest.mark.usefixtures("inheriting")
def test_a_pool_passes_arguments_results_and_errors_as_before(pool: ThreadPoolExecutor) -> None:
    def work(*args: int, fn: str) -> Any:
        return args, fn

    assert pool.submit(work, 1, 2, fn="x").result(DEADLINE_SEC) == ((1, 2), "x")
    with pytest.raises(ZeroDivisionError):
        pool.submit(lambda: 1 / 0).result(DEADLINE_SEC)


@pytest.mark.usefixtures("inheriting")
def test_installing_twice_changes_nothing() -> None:
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit
    install_thread_inheritance()
    assert (threading.Thread.start, ThreadPoolExecutor.submit) == (start, submit)
