"""Ready tasks begin in one thread, and get threads of their own when that takes long."""

import asyncio
import math
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from pyoco.core.context import Context
from pyoco.core.models import RunContext

from pyoco_server.engine import Engine, Machine, OutcomeStatus
from pyoco_server.engine.tasks.current_attempt import CURRENT
from pyoco_server.engine.walk.grouping import Grouping
from tests.engine.building import (
    DEADLINE_SEC,
    Background,
    Diary,
    Obedient,
    await_signal,
    flow_of,
    machine_timed_from,
    make_task,
    raising,
)

NEVER = math.inf


class Places:
    """Which thread has called each task, in their order."""

    def __init__(self) -> None:
        self.called: dict[str, int] = {}

    def task(self, name: str, then: Callable[[], Any] = lambda: None, **settings: Any) -> Any:
        def work() -> Any:
            self.called[name] = threading.get_ident()
            return then()

        return make_task(name, work, **settings)


def awaiting(event: threading.Event) -> Callable[[], None]:
    return lambda: await_signal(event)


# One thread


def test_quick_tasks_side_by_side_share_a_thread_that_is_not_the_callers() -> None:
    places, diary = Places(), Diary()
    flow = flow_of(*(places.task(f"t{index}") for index in range(8)))
    outcome = Engine(listener=diary, recruit_after_sec=NEVER).run(flow)
    assert outcome.status is OutcomeStatus.COMPLETED
    assert list(places.called) == [f"t{index}" for index in range(8)]  # in the order of their starts
    assert len(set(places.called.values())) == 1
    assert threading.get_ident() not in places.called.values()
    assert diary.threads == {threading.get_ident()}


def test_no_more_tasks_are_reported_as_started_than_may_run_at_once() -> None:
    diary = Diary()
    Engine(listener=diary, parallelism=3, recruit_after_sec=NEVER).run(
        flow_of(*(make_task(f"t{index}", lambda: None) for index in range(10)))
    )
    running, most = 0, 0
    for kind, *_ in diary.entries:
        running += {"started": 1, "succeeded": -1}.get(kind, 0)
        most = max(most, running)
    assert most == 3


def test_each_task_of_a_group_knows_which_one_it_is() -> None:
    flow = flow_of(*(make_task(f"t{index}", CURRENT.get) for index in range(4)))
    results = Engine(recruit_after_sec=NEVER).run(flow).results
    assert {name: getattr(current, "task", None) for name, current in results.items()} == {
        name: name for name in results
    }


def test_coroutines_of_a_group_are_awaited_each_on_its_own_loop() -> None:
    async def loop_id() -> asyncio.AbstractEventLoop:
        await asyncio.sleep(0)
        return asyncio.get_running_loop()

    flow = flow_of(*(make_task(f"t{index}", loop_id) for index in range(4)))
    loops = Engine(recruit_after_sec=NEVER).run(flow).results.values()
    assert len({id(loop) for loop in loops}) == 4


# Threads are recruited


def test_a_task_that_waits_for_another_one_of_its_group_gets_it() -> None:
    event = threading.Event()
    flow = flow_of(make_task("a", awaiting(event)), make_task("b", event.set))
    assert Engine().run(flow).status is OutcomeStatus.COMPLETED


def test_a_coroutine_that_awaits_lets_the_others_begin() -> None:
    event = threading.Event()

    async def wait() -> None:
        assert await asyncio.to_thread(event.wait, DEADLINE_SEC)

    flow = flow_of(make_task("a", wait), make_task("b", event.set))
    assert Engine().run(flow).status is OutcomeStatus.COMPLETED


def test_slow_tasks_run_at_once_as_many_as_allowed() -> None:
    together = threading.Barrier(8)
    flow = flow_of(*(make_task(f"t{index}", lambda: together.wait(DEADLINE_SEC)) for index in range(40)))
    assert Engine(parallelism=8).run(flow).status is OutcomeStatus.COMPLETED


def test_what_has_ended_is_reported_and_has_successors_while_its_group_goes_on() -> None:
    event = threading.Event()
    quick = make_task("a", lambda: None)
    slow = make_task("b", awaiting(event))
    after = make_task("c", event.set, [quick])
    assert Engine().run(flow_of(quick, slow, after)).status is OutcomeStatus.COMPLETED


def test_a_group_whose_thread_has_not_run_yet_is_not_divided() -> None:
    """On a busy machine more threads would not begin earlier."""
    from pyoco_server.engine.tasks import thread_pool

    delayed: list[threading.Timer] = []

    def submit_later(*args: Any) -> None:
        delayed.append(threading.Timer(0.05, thread_pool.submit, args))
        delayed[-1].start()

    machine = Machine(submit=submit_later)
    places = Places()
    flow = flow_of(*(places.task(f"t{index}") for index in range(8)))
    Engine(recruit_after_sec=0.001, machine=machine).run(flow)
    assert len(delayed) == 1
    assert len(set(places.called.values())) == 1


# A failure


def test_a_failure_keeps_the_rest_of_its_group_from_beginning() -> None:
    places, diary = Places(), Diary()
    bad = places.task("b", raising(ValueError("no")))
    flow = flow_of(places.task("a"), bad, places.task("c"), places.task("d"))
    outcome = Engine(listener=diary, recruit_after_sec=NEVER).run(flow)
    assert (outcome.status, outcome.failed_task, outcome.left_behind) == (OutcomeStatus.FAILED, "b", 0)
    assert list(places.called) == ["a", "b"]
    assert outcome.results == {"a": None}
    assert diary.of("cancelled") == [("c",), ("d",)]


def test_after_a_failure_that_does_not_end_the_run_the_rest_of_its_group_goes_on() -> None:
    places, diary = Places(), Diary()
    bad = places.task("b", raising(ValueError("no")), fail_policy="isolate")
    flow = flow_of(places.task("a"), bad, places.task("c"), places.task("d"))
    outcome = Engine(listener=diary, recruit_after_sec=NEVER).run(flow)
    assert outcome.status is OutcomeStatus.COMPLETED
    assert list(places.called) == ["a", "b", "c", "d"]
    assert [(name, attempt) for name, attempt, _ in diary.of("started")] == [(name, 1) for name in "abcd"]


def test_a_retry_does_not_hold_up_the_rest_of_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.engine.walk.in_flight.RETRY_BACKOFF_FIRST_SEC", 0.05)
    others, ended = threading.Event(), []

    def fail_once() -> str:
        ended.append("a")
        if len(ended) == 1:
            raise ValueError("no")
        assert others.is_set()
        return "second attempt"

    flow = flow_of(make_task("a", fail_once, retries=1), make_task("b", others.set))
    assert Engine(recruit_after_sec=NEVER).run(flow).results == {"a": "second attempt", "b": None}


# A cancel, and leave to start


def test_after_a_cancel_nothing_more_of_a_group_begins() -> None:
    places, context, diary = Places(), RunContext(), Diary()
    engine = Engine(listener=diary, recruit_after_sec=NEVER)
    cancelling = places.task("b", lambda: engine.cancel(context.run_id))
    outcome = engine.run(flow_of(places.task("a"), cancelling, places.task("c")), run_context=context)
    assert (outcome.status, outcome.left_behind) == (OutcomeStatus.CANCELLED, 0)
    assert list(places.called) == ["a", "b"]
    assert diary.of("cancelled") == [("c",)]


@pytest.mark.parametrize("recruit_after_sec", [0.0, 0.001, NEVER])
def test_a_cancel_reaches_the_task_that_runs_in_a_group(recruit_after_sec: float) -> None:
    work = Obedient()
    flow = flow_of(*(make_task(f"t{index}", work) for index in range(20)))
    with Background(Engine(recruit_after_sec=recruit_after_sec), flow) as run:
        await_signal(work.running)
        run.cancel()
        assert run.outcome().status is OutcomeStatus.CANCELLED


def test_an_abandoned_run_leaves_behind_only_the_task_whose_code_runs() -> None:
    running, end = threading.Event(), threading.Event()
    diary = Diary()

    def hang() -> None:
        running.set()
        await_signal(end)

    flow = flow_of(make_task("a", lambda: 1), make_task("b", hang), make_task("c", lambda: 1))
    with Background(Engine(listener=diary, recruit_after_sec=NEVER), flow) as run:
        await_signal(running)
        run.abandon()
        outcome = run.outcome()
        end.set()
    assert outcome.left_behind == 1
    assert [name for name, *_ in diary.of("succeeded")] == ["a"]
    assert sorted(diary.of("cancelled")) == [("b",), ("c",)]


def test_without_leave_nothing_more_of_a_group_begins_until_it_is_given() -> None:
    """A process that was suspended may find its run taken over when it goes on."""
    places, engine = Places(), None
    leave, asked = [True], threading.Event()

    def may_start() -> bool:
        if not leave[0]:
            asked.set()
        return leave[0]

    def lose_it() -> None:
        leave[0] = False

    engine = Engine(may_start=may_start, recruit_after_sec=NEVER)
    flow = flow_of(places.task("a", lose_it), places.task("b"), places.task("c"))
    with Background(engine, flow) as run:
        await_signal(asked)
        assert list(places.called) == ["a"]
        leave[0] = True
        engine.wake()
        assert run.outcome().status is OutcomeStatus.COMPLETED
    assert list(places.called) == ["a", "b", "c"]


# Timeouts


def test_a_task_whose_time_is_up_before_it_has_begun_fails_and_is_not_left_behind() -> None:
    places, end = Places(), threading.Event()
    late = places.task("b", timeout_sec=0.02, fail_policy="isolate")
    flow = flow_of(places.task("a", awaiting(end)), late, places.task("c", end.set))
    outcome = Engine(recruit_after_sec=NEVER).run(flow)
    assert (outcome.status, outcome.left_behind) == (OutcomeStatus.COMPLETED, 0)
    assert set(places.called) == {"a", "c"}  # the expiry has divided the group
    assert set(outcome.results) == {"a", "c"}


def test_a_task_with_a_timeout_is_left_behind_and_its_group_goes_on() -> None:
    places, begun, end = Places(), threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        await_signal(end)

    slow = places.task("a", wait, timeout_sec=0.02, fail_policy="isolate")
    engine = Engine(machine=machine_timed_from(begun))
    outcome = engine.run(flow_of(slow, places.task("b"), places.task("c")))
    end.set()
    assert (outcome.status, outcome.left_behind) == (OutcomeStatus.COMPLETED, 1)
    assert set(outcome.results) == {"b", "c"}


def test_the_timeout_of_a_run_ends_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    # Also on a machine on which the thread does not run for that long.
    monkeypatch.setattr("pyoco_server.engine.engine.STOP_GRACE_SEC", DEADLINE_SEC)

    def obey(ctx: Context) -> None:
        while not ctx.is_cancelled:
            time.sleep(0.001)

    flow = flow_of(*(make_task(f"t{index}", obey) for index in range(20)))
    outcome = Engine(recruit_after_sec=NEVER).run(flow, timeout_sec=0.05)
    assert (outcome.status, outcome.left_behind) == (OutcomeStatus.FAILED, 0)


# How many tasks a group has


def test_all_that_are_ready_are_one_group() -> None:
    assert Grouping(8).size(5) == 5


def test_without_grouping_every_task_is_alone() -> None:
    assert Grouping(8, is_off=True).size(5) == 1


def test_after_an_overdue_group_tasks_are_alone_for_twice_as_long_each_time() -> None:
    grouping = Grouping(4)
    for alone in (4, 8, 16):
        grouping.note_overdue()
        assert [grouping.size(4) for _ in range(alone + 1)] == [1] * alone + [4]
