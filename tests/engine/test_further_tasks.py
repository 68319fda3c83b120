"""The thread of a group goes on with more calls of the same functions, before their starts are reported."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pyoco.core.context import Context
from pyoco.core.models import RunContext

from pyoco_server.engine import Engine, Machine, OutcomeStatus
from pyoco_server.engine.tasks import thread_pool
from pyoco_server.engine.tasks.current_attempt import CURRENT
from tests.engine.building import Diary, await_signal, flow_of, make_task

NEVER = float("inf")


class Calls:
    """Tasks t0, t1, … with one function. `then` is called with the name of the task that runs."""

    def __init__(self, count: int, then: Callable[[str], Any] = lambda _: None) -> None:
        self.names: list[str] = []
        self.threads: set[int] = set()
        self._then = then
        self.tasks = [make_task(f"t{index}", self._task()) for index in range(count)]

    def _task(self) -> Callable[[], Any]:
        def work() -> Any:
            current = CURRENT.get()
            assert current is not None
            assert current.attempt == 1
            self.names.append(current.task)
            self.threads.add(threading.get_ident())
            return self._then(current.task)

        return work


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every group that is given to a thread."""
    found: list[Any] = []

    def submit(group: Any, events: Any) -> None:
        found.append(group)
        thread_pool.submit(group, events)

    monkeypatch.setattr("pyoco_server.engine.engine.Machine", lambda: Machine(submit=submit))
    return found


def most_running(diary: Diary) -> int:
    running, most = 0, 0
    for kind, *_ in diary.entries:
        running += {"started": 1, "succeeded": -1, "failed": -1}.get(kind, 0)
        most = max(most, running)
    return most


def test_quick_tasks_of_one_function_are_one_group_and_never_too_many_have_started(groups: list[Any]) -> None:
    calls, diary = Calls(9), Diary()
    outcome = Engine(listener=diary, parallelism=3, recruit_after_sec=NEVER).run(flow_of(*calls.tasks))
    assert outcome.status is OutcomeStatus.COMPLETED
    assert (len(groups), len(calls.threads)) == (1, 1)
    assert calls.names == [name for name, *_ in diary.of("started")] == [f"t{index}" for index in range(9)]
    assert most_running(diary) == 3
    assert diary.threads == {threading.get_ident()}


def test_instants_follow_the_order_of_reports() -> None:
    instants: list[float] = []

    class Instants(Diary):
        def task_started(self, name: str, attempt: int, inputs: Mapping[str, Any], started_at: float) -> None:
            instants.append(started_at)

        def task_succeeded(self, name: str, attempt: int, output: Any, started_at: float, *more: Any) -> None:
            assert started_at in instants
            instants.append(more[0])
            super().task_succeeded(name, attempt, output, started_at, *more)

    Engine(listener=Instants(), parallelism=2, recruit_after_sec=NEVER).run(flow_of(*Calls(8).tasks))
    assert instants == sorted(instants)


def test_a_slow_one_is_reported_while_it_runs_and_the_others_get_threads() -> None:
    reported, others = threading.Event(), threading.Event()

    class Starts(Diary):
        def task_started(self, name: str, attempt: int, inputs: Mapping[str, Any], started_at: float) -> None:
            super().task_started(name, attempt, inputs, started_at)
            if name == "t4":
                reported.set()

    def then(name: str) -> None:
        if name == "t4":
            await_signal(reported)
            await_signal(others)
        if name == "t9":
            others.set()

    diary, calls = Starts(), Calls(10, then)
    outcome = Engine(listener=diary, parallelism=3).run(flow_of(*calls.tasks))
    assert outcome.status is OutcomeStatus.COMPLETED
    assert sorted(calls.names) == [f"t{index}" for index in range(10)]
    assert most_running(diary) <= 3
    assert {attempt for _, attempt, _ in diary.of("started")} == {1}


def test_after_a_failure_none_of_them_begins() -> None:
    def then(name: str) -> None:
        if name == "t5":
            raise ValueError("no")

    calls, diary = Calls(8, then), Diary()
    outcome = Engine(listener=diary, parallelism=3, recruit_after_sec=NEVER).run(flow_of(*calls.tasks))
    assert (outcome.status, outcome.failed_task, outcome.left_behind) == (OutcomeStatus.FAILED, "t5", 0)
    assert calls.names == [f"t{index}" for index in range(6)]
    assert [name for name, *_ in diary.of("failed")] == ["t5"]
    assert diary.of("cancelled") == [("t6",), ("t7",)]


def test_after_a_cancel_none_of_them_begins() -> None:
    context, diary = RunContext(), Diary()

    def then(name: str) -> None:
        if name == "t5":
            engine.cancel(context.run_id)

    calls = Calls(8, then)
    engine = Engine(listener=diary, parallelism=3, recruit_after_sec=NEVER)
    outcome = engine.run(flow_of(*calls.tasks), run_context=context)
    assert (outcome.status, outcome.left_behind) == (OutcomeStatus.CANCELLED, 0)
    assert calls.names == [f"t{index}" for index in range(6)]
    assert diary.of("cancelled") == [("t6",), ("t7",)]


def test_without_leave_to_start_none_of_them_begins() -> None:
    leave = threading.Event()
    leave.set()

    def then(name: str) -> None:
        if name == "t4":
            leave.clear()
            threading.Timer(0.05, give_leave).start()
        assert name == "t4" or leave.is_set()

    def give_leave() -> None:
        leave.set()
        engine.wake()

    engine, calls = Engine(parallelism=3, may_start=leave.is_set, recruit_after_sec=NEVER), Calls(8, then)
    assert engine.run(flow_of(*calls.tasks)).status is OutcomeStatus.COMPLETED
    assert calls.names == [f"t{index}" for index in range(8)]


def test_if_the_run_is_not_quiet_each_start_is_reported_before_the_call() -> None:
    diary = Diary()

    def then(name: str) -> None:
        assert name in [started for started, *_ in diary.of("started")]

    engine = Engine(listener=diary, parallelism=3, recruit_after_sec=NEVER, is_quiet=lambda: False)
    assert engine.run(flow_of(*Calls(8, then).tasks)).status is OutcomeStatus.COMPLETED


def test_a_task_that_could_see_a_result_of_the_group_waits_for_it() -> None:
    tasks = [make_task(f"t{index}", lambda t0=None: t0 is None) for index in range(3)]
    outcome = Engine(parallelism=2, recruit_after_sec=NEVER).run(flow_of(*tasks))
    assert outcome.results == {"t0": True, "t1": True, "t2": False}
    tasks = [make_task(f"t{index}", lambda ctx: sorted(ctx.results)) for index in range(3)]
    outcome = Engine(parallelism=2, recruit_after_sec=NEVER).run(flow_of(*tasks))
    assert outcome.results["t2"] == ["t0", "t1"]


def test_tasks_that_take_ctx_are_one_group_and_see_what_has_ended_before_them(groups: list[Any]) -> None:
    tasks = [make_task(f"t{index}", lambda ctx, _own=None: sorted(ctx.results)) for index in range(6)]
    outcome = Engine(parallelism=2, recruit_after_sec=NEVER).run(flow_of(*tasks))
    assert outcome.status is OutcomeStatus.COMPLETED
    assert [outcome.results[f"t{index}"] for index in range(2, 6)] == [
        [f"t{before}" for before in range(index)] for index in range(2, 6)
    ]
    assert len(groups) == 1


def test_an_output_that_is_saved_elsewhere_is_there_for_the_next_task_of_the_thread() -> None:
    tasks = [
        make_task(
            f"t{index}", lambda ctx, name=index: (name, ctx.scratch.get("last")), outputs=["scratch.last"]
        )
        for index in range(4)
    ]
    outcome = Engine(parallelism=2, recruit_after_sec=NEVER).run(flow_of(*tasks))
    assert outcome.results["t3"] == (3, (2, (1, (0, None))))
    assert outcome.context.scratch == {"last": outcome.results["t3"]}


def test_arguments_that_cannot_be_found_in_the_thread_of_a_group_fail_the_task() -> None:
    diary = Diary()
    tasks = [make_task(f"t{index}", lambda ctx: None) for index in range(5)]
    odd: Any = tasks[3].func
    odd.__signature__ = "unreadable"
    outcome = Engine(listener=diary, parallelism=2, recruit_after_sec=NEVER).run(flow_of(*tasks))
    assert (outcome.status, outcome.failed_task) == (OutcomeStatus.FAILED, "t3")
    assert [name for name, *_ in diary.of("started")] == ["t0", "t1", "t2", "t3"]
    assert diary.of("cancelled") == [("t4",)]


def test_tasks_that_return_from_the_thread_of_a_group_begin_elsewhere_as_their_first_attempt() -> None:
    begun, others = threading.Event(), threading.Event()

    def work(ctx: Context) -> list[str]:
        current = CURRENT.get()
        assert current is not None
        if current.task == "t4":
            begun.set()
            await_signal(others)
        if current.task == "t7":
            await_signal(begun)
            others.set()
        assert current.attempt == 1
        return sorted(ctx.results)

    diary = Diary()
    outcome = Engine(listener=diary, parallelism=3).run(
        flow_of(*(make_task(f"t{n}", work) for n in range(8)))
    )
    assert outcome.status is OutcomeStatus.COMPLETED, outcome.error
    assert {attempt for _, attempt, _ in diary.of("started")} == {1}
    last = outcome.results["t7"]
    assert isinstance(last, list | tuple | dict | set)
    assert {"t0", "t1"} <= set(last)


def test_a_task_with_a_timeout_is_reported_before_its_time_counts(groups: list[Any]) -> None:
    def work() -> None:
        return None

    tasks = [make_task(f"t{index}", work, timeout_sec=60.0) for index in range(4)]
    assert Engine(parallelism=2, recruit_after_sec=NEVER).run(flow_of(*tasks)).status is (
        OutcomeStatus.COMPLETED
    )
    assert len(groups) == 2


def test_inputs_that_refer_to_something_are_resolved_when_the_task_begins(groups: list[Any]) -> None:
    def work(value: Any, ctx: Context | None = None) -> Any:
        return value

    def plain(value: Any) -> Any:
        return value

    tasks = [make_task(f"t{index}", plain, inputs={"value": index}) for index in range(4)]
    outcome = Engine(parallelism=2, recruit_after_sec=NEVER).run(flow_of(*tasks))
    assert outcome.results == {f"t{index}": index for index in range(4)}
    assert len(groups) == 1
    tasks = [make_task(f"t{index}", work, inputs={"value": "$ctx.params.x"}) for index in range(4)]
    outcome = Engine(parallelism=2, recruit_after_sec=NEVER).run(flow_of(*tasks), {"x": 7})
    assert outcome.results == {f"t{index}": 7 for index in range(4)}
    assert len(groups) == 3
