"""From a task on: what a fork executes again and what it takes over, by the log of the run it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.graph import Graph, GraphTask, Join
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.retry import NoFork, carry_over, fork_refused, reused_results
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.snapshot import run_of, snapshot_of
from pyoco_server.lifecycle.status import Driver, OutputKept, TaskStatus
from pyoco_server.lifecycle.task_order import task_order_of
from tests.lifecycle.support.alphabet import AT, submitted

CLAIMED = e.RunClaimed(at=AT, worker_id="w", instance_id="i", fence=1)
COMPLETED = e.RunCompleted(at=AT)
FAILED = e.RunFailed(at=AT, reason="execution_error", error="boom")
CANCELLED: tuple[e.Event, ...] = (e.CancelRequested(at=AT), e.RunCancelled(at=AT))


def planned(*tasks: str, **said: object) -> e.TasksPlanned:
    return e.TasksPlanned(at=AT, tasks=list(tasks), **said)  # type: ignore[arg-type]


def started(task: str, attempt: int = 1) -> e.TaskStarted:
    return e.TaskStarted(at=AT, task=task, attempt=attempt)


def done(task: str, attempt: int = 1, kept: OutputKept = OutputKept.STORED) -> e.TaskSucceeded:
    return e.TaskSucceeded(at=AT, task=task, attempt=attempt, started_at=AT, output=task, kept=kept)


def broken(task: str) -> e.TaskFailed:
    return e.TaskFailed(at=AT, task=task, attempt=1, started_at=AT, error="boom")


class Log(NamedTuple):
    run: Run
    events: list[e.Event]

    def fork(self, task: str) -> list[str]:
        """What a fork takes over, in its order."""
        course = task_order_of(self.events, self.run.graph)
        assert fork_refused(self.run, course, task) is None
        return list(reused_results(self.run, course, task))

    def refused(self, task: str) -> NoFork | None:
        return fork_refused(self.run, task_order_of(self.events, self.run.graph), task)


def log_of(*told: e.Event, **submission: object) -> Log:
    events: list[e.Event] = [submitted(**submission), CLAIMED, *told]
    run = fold(None, events)
    assert run is not None
    return Log(run, events)


def retried(log: Log, *told: e.Event, task: str | None = None) -> Log:
    """Another try of it, as it is begun, and what then happened."""
    kept = reused_results(log.run, task_order_of(log.events), task)
    return log_of(*(event for one in kept.items() for event in carry_over(*one)), *told)


# Where the plan says who waits for whom

NEEDS = {"left": ["fetch"], "right": ["fetch"], "join": ["left", "right"], "sum": ["left"]}
DIAMOND = planned("fetch", "left", "right", "join", "sum", "alone", needs=NEEDS)
ALL = [done(name) for name in DIAMOND.tasks]


@pytest.mark.parametrize(
    ("task", "kept"),
    [
        ("fetch", ["alone"]),
        ("left", ["fetch", "right", "alone"]),
        ("right", ["fetch", "left", "sum", "alone"]),
        ("join", ["fetch", "left", "right", "sum", "alone"]),
        ("alone", ["fetch", "left", "right", "join", "sum"]),
    ],
)
@pytest.mark.parametrize(
    "ends", [(COMPLETED,), (FAILED,), CANCELLED], ids=["completed", "failed", "cancelled"]
)
def test_the_task_and_what_comes_after_it_is_executed_again(
    task: str, kept: list[str], ends: tuple[e.Event, ...]
) -> None:
    assert log_of(DIAMOND, *ALL, *ends).fork(task) == kept


def test_one_of_many_is_enough_to_come_after() -> None:
    plan = planned("a", "b", "c", needs={"c": ["a", "b"]}, any_of=["c"])
    assert log_of(plan, done("a"), done("c"), broken("b"), COMPLETED).fork("a") == []
    assert log_of(plan, done("a"), done("c"), done("b"), COMPLETED).fork("b") == ["a"]


def test_what_stands_in_a_circle_comes_after_itself() -> None:
    plan = planned("a", "b", "c", needs={"b": ["a", "c"], "c": ["b"]}, any_of=["b"])
    assert log_of(plan, done("a"), done("b"), done("c"), COMPLETED).fork("c") == ["a"]


def test_a_task_that_never_began_may_be_chosen_where_its_place_is_known() -> None:
    log = log_of(DIAMOND, done("fetch"), done("right"), broken("left"), FAILED)
    assert log.fork("join") == ["fetch", "right"]


@pytest.mark.parametrize("kept", [kind for kind in OutputKept if kind not in ("stored", "referenced")])
def test_a_result_that_was_not_kept_is_made_again(kept: OutputKept) -> None:
    log = log_of(DIAMOND, done("fetch", kept=kept), done("alone"), done("left"), COMPLETED)
    assert log.fork("left") == ["alone"]


def test_an_answer_before_the_task_stays_and_one_after_it_is_asked_for_again() -> None:
    plan = planned("build", "ok", "deploy", needs={"ok": ["build"], "deploy": ["ok"]})
    wait = e.TaskWaiting(at=AT, task="ok", attempt=1, wait_key="ok")
    resumed = e.TaskResumed(at=AT, task="ok", payload=True)
    log = log_of(plan, done("build"), wait, resumed, done("ok"), done("deploy"), COMPLETED)
    assert log.fork("deploy") == ["build", "ok"]
    assert log.fork("ok") == ["build"]
    assert log.fork("build") == []


def test_a_plan_in_portions_and_a_plan_made_anew_are_one() -> None:
    first, second = planned("a", "b", needs={"b": ["a"]}), planned("c", "d", needs={"c": ["b"]})
    all_done = [done(name) for name in "abcd"]
    for plans in ([first, second], [planned("a", "b"), first, second]):
        assert log_of(*plans, *all_done, COMPLETED).fork("b") == ["a", "d"]


def test_tasks_that_all_come_last_do_not_come_after_each_other() -> None:
    log = log_of(planned("a", "b", "c", last=["a", "b", "c"]), done("a"), done("b"), done("c"), COMPLETED)
    assert log.fork("a") == ["b", "c"]


def test_the_graph_of_a_client_driven_run_says_it_whichever_way_tasks_join() -> None:
    tasks = (
        GraphTask(id="a"),
        GraphTask(id="b", after=("a",), join=Join.ALL_DONE),
        GraphTask(id="c", after=("a",), join=Join.ANY_SUCCESS),
        GraphTask(id="d", after=("c",)),
        GraphTask(id="e"),
    )
    graph = Graph(id="g", version=1, nodes=tasks)
    every = [event for task in tasks for event in (started(task.id), done(task.id))]
    log = log_of(*every, COMPLETED, driver=Driver.CLIENT, graph=graph)
    assert log.fork("c") == ["a", "b", "e"]
    assert log.fork("a") == ["e"]
    assert log.refused("z") is NoFork.UNKNOWN_TASK


# Where it does not: the order of the log

LOOP = log_of(
    planned("load", "step", "check", "save"),
    *(started("load"), done("load"), started("step"), started("step[0]"), done("step[0]")),
    *(started("check"), started("check[0]"), done("check[0]")),
    *(started("step[1]"), done("step[1]"), started("check[1]"), done("check[1]")),
    *(done("step"), done("check"), started("save"), done("save")),
    COMPLETED,
)


@pytest.mark.parametrize(
    ("task", "kept"),
    [
        ("load", []),
        ("step", ["load"]),
        ("step[0]", ["load"]),
        ("check", ["load", "step[0]"]),
        ("step[1]", ["load", "step[0]", "check[0]"]),
        ("check[1]", ["load", "step[0]", "check[0]", "step[1]"]),
        ("save", ["load", "step[0]", "check[0]", "step[1]", "check[1]", "step", "check"]),
    ],
)
def test_a_loop_is_entered_again_at_the_iteration_that_was_chosen(task: str, kept: list[str]) -> None:
    assert LOOP.fork(task) == kept
    assert retried(LOOP, planned("load", "step", "check", "save"), COMPLETED).fork(task) == kept


def test_a_loop_of_one_task_is_no_graph_of_one_task() -> None:
    log = log_of(planned("x"), started("x"), done("x[0]"), done("x[1]"), done("x"), COMPLETED)
    assert (log.fork("x"), log.fork("x[1]")) == ([], ["x[0]"])
    assert log_of(planned("x"), done("x"), COMPLETED).fork("x") == []


def test_a_branch_that_was_not_taken_has_no_place() -> None:
    log = log_of(planned("a", "left", "right", "b"), done("a"), done("left"), done("b"), COMPLETED)
    assert log.refused("right") is NoFork.NOT_BEGUN
    assert log.fork("left") == ["a"]


def test_a_run_that_was_never_planned_has_no_order() -> None:
    assert log_of(FAILED).refused("a") is NoFork.NOT_PLANNED
    began_with_results = retried(log_of(DIAMOND, *ALL, FAILED), *CANCELLED)
    assert began_with_results.refused("left") is NoFork.NOT_PLANNED


def test_a_task_that_nobody_planned_is_unknown() -> None:
    assert log_of(DIAMOND, FAILED).refused("lift") is NoFork.UNKNOWN_TASK


# On whatever there may be


class Walked(NamedTuple):
    log: Log
    needs: dict[str, list[str]]


@st.composite
def walked(draw: st.DrawFn, *, is_wired: bool) -> Walked:
    """A graph, and a run of it: a task begins when those it needs are done; some fail, or are not kept."""
    names = [f"t{number}" for number in range(draw(st.integers(2, 8)))]
    needs = {
        name: draw(st.lists(st.sampled_from(names[:at]), unique=True)) for at, name in enumerate(names) if at
    }
    needs = {name: wanted for name, wanted in needs.items() if wanted}
    any_of = draw(st.lists(st.sampled_from(names), unique=True)) if is_wired else []
    wired = {"needs": needs, "any_of": any_of} if needs else {"last": names}
    events: list[e.Event] = [planned(*names, **(wired if is_wired else {}))]
    succeeded: set[str] = set()
    for name in names:
        if all(other in succeeded for other in needs.get(name, ())) or name in any_of:
            events += draw(st.sampled_from(_courses_of(name)))
            succeeded |= {event.task for event in events if isinstance(event, e.TaskSucceeded)}
    endings: list[tuple[e.Event, ...]] = [(COMPLETED,), (FAILED,), CANCELLED]
    ends = draw(st.sampled_from(endings))
    return Walked(log_of(*events, *ends), needs)


def _courses_of(name: str) -> Sequence[Sequence[e.Event]]:
    well = (started(name), done(name))
    return (well, well, well, (started(name), broken(name)), (), (done(name, kept=OutputKept.TOO_LARGE),))


def after(needs: dict[str, list[str]], names: Sequence[str]) -> set[tuple[str, str]]:
    """All pairs of which the second comes after the first: Warshall's way, so that nothing is asked twice."""
    pairs = {(other, name) for name, wanted in needs.items() for other in wanted}
    for middle, first, last in product(names, repeat=3):
        if (first, middle) in pairs and (middle, last) in pairs:
            pairs.add((first, last))
    return pairs


@given(walked(is_wired=True), st.data())
def test_executed_again_is_the_task_what_comes_after_it_and_what_had_not_succeeded(
    found: Walked, data: st.DataObject
) -> None:
    run = found.log.run
    task = data.draw(st.sampled_from(list(run.tasks)))
    later = {name for first, name in after(found.needs, list(run.tasks)) if first == task}
    unkept = {
        name
        for name, record in run.tasks.items()
        if record.state is not TaskStatus.SUCCEEDED or record.kept is not OutputKept.STORED
    }
    assert set(run.tasks) - set(found.log.fork(task)) == {task} | later | unkept


@given(walked(is_wired=False), st.data())
def test_without_edges_nothing_that_comes_after_it_is_taken_over(found: Walked, data: st.DataObject) -> None:
    run = found.log.run
    task = data.draw(st.sampled_from(list(run.tasks)))
    if found.log.refused(task) is None:
        later = {name for first, name in after(found.needs, list(run.tasks)) if first == task}
        assert not set(found.log.fork(task)) & ({task} | later)
    elif len(run.tasks) > 1:
        assert found.log.refused(task) is NoFork.NOT_BEGUN


@given(walked(is_wired=False), st.data())
def test_a_retry_is_forked_where_its_original_would_be(found: Walked, data: st.DataObject) -> None:
    """Results are carried in the order in which they were made, so that the order of the log stays right."""
    kept = [
        name
        for name in found.log.run.tasks
        if name in reused_results(found.log.run, task_order_of(found.log.events))
    ]
    if kept:
        task = data.draw(st.sampled_from(kept))
        again = retried(found.log, planned(*found.log.run.tasks), FAILED)
        assert again.fork(task) == found.log.fork(task)


def test_from_which_task_a_run_was_forked_survives_the_snapshot() -> None:
    run = log_of(retry_of="r0", retry_from="left").run
    assert run.retry_from == "left"
    assert run_of(snapshot_of(run, max_bytes=2**30)) == run
    assert run_of(snapshot_of(run, max_bytes=1)).retry_from == "left"
