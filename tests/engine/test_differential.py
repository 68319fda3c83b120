"""Our engine against pyoco's over random flows: same results, same task states, the order edges ask for.

pyoco can report a deadlock where an isolated failure has dependents of dependents: it looks at each task once
and gives up before it has passed the failure on; which flows are hit depends on the hash seed. There, and
only there, a rule of three lines stands in for it; elsewhere pyoco has to agree with that rule as well.
"""

import inspect
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoco.core.engine import Engine as PyocoEngine
from pyoco.core.models import Flow, RunContext, Task
from pyoco.trace.backend import TraceBackend

from pyoco_server.engine import Engine, OutcomeStatus
from pyoco_server.engine.limits import RECRUIT_AFTER_SEC
from tests.engine.building import Diary, flow_of, make_task

TASKS_MAX = 9
PARAMS = {"p0": "zero", "p1": "one"}
# A thread for each task, groups as in production, and groups that are never divided.
RECRUITING = st.sampled_from([0.0, RECRUIT_AFTER_SEC, math.inf])


class Quiet(TraceBackend):
    def on_flow_start(self, flow_name: str, run_id: str | None = None) -> None: ...
    def on_flow_end(self, flow_name: str) -> None: ...
    def on_node_start(self, node_name: str) -> None: ...
    def on_node_end(self, node_name: str, duration_ms: float) -> None: ...
    def on_node_error(self, node_name: str, error: Exception) -> None: ...


@dataclass(frozen=True)
class Shape:
    """One task: indexes of the tasks it needs, which come before it, and how it behaves."""

    needs: tuple[int, ...]
    any_of: bool
    isolate: bool
    failures: int  # how many attempts fail before one succeeds
    retries: int
    takes: tuple[str, ...]
    with_inputs: bool
    saves: bool

    @property
    def fails(self) -> bool:
        """For good."""
        return self.failures > self.retries


@st.composite
def shapes(draw: st.DrawFn) -> list[Shape]:
    size = draw(st.integers(0, TASKS_MAX))
    return [draw(shape(index)) for index in range(size)]


def shape(index: int) -> st.SearchStrategy[Shape]:
    return st.builds(
        Shape,
        needs=st.lists(st.integers(0, index - 1), max_size=3, unique=True).map(tuple)
        if index
        else st.just(()),
        any_of=st.booleans(),
        isolate=st.booleans(),
        failures=st.sampled_from([0, 0, 0, 1, 2]),
        retries=st.sampled_from([0, 0, 1]),
        takes=st.sets(st.sampled_from(sorted(PARAMS))).map(lambda names: tuple(sorted(names))),
        with_inputs=st.booleans(),
        saves=st.booleans(),
    )


def build(drawn: list[Shape]) -> Flow:
    tasks: list[Task] = []
    for index, each in enumerate(drawn):
        name = f"t{index}"
        # Which needs of an ANY task have succeeded is a matter of timing, so it must not look at them.
        needs = [] if each.any_of else [f"t{need}" for need in each.needs]
        made = make_task(name, function(name, each, needs), [tasks[need] for need in each.needs])
        made.trigger_policy = "ANY" if each.any_of else "ALL"
        made.fail_policy = "isolate" if each.isolate else "stop"
        made.retries = each.retries
        made.inputs = {f"in_{need}": f"$node.{need}.output" for need in needs} if each.with_inputs else {}
        made.outputs = [f"scratch.{name}.saved"] if each.saves else []
        tasks.append(made)
    return flow_of(*tasks)


def function(name: str, each: Shape, needs: list[str]) -> Callable[..., Any]:
    inputs = [f"in_{need}" for need in needs] if each.with_inputs else needs
    names = [*each.takes, *inputs, "nowhere"]
    attempts = count(1)

    def work(**arguments: Any) -> Any:
        if next(attempts) <= each.failures:
            raise ValueError(f"{name} fails")
        return [name, sorted((key, repr(value)) for key, value in arguments.items())]

    kind = inspect.Parameter.KEYWORD_ONLY
    signature = inspect.Signature([inspect.Parameter(key, kind, default=None) for key in names])
    cast(Any, work).__signature__ = signature
    return work


@contextmanager
def side_by_side(folder: Path) -> Iterator[None]:
    """pyoco makes its artifacts folder elsewhere, and nobody pauses between attempts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("pyoco.core.engine.time", SimpleNamespace(time=time.time, sleep=lambda _: None))
        patch.setattr("pyoco_server.engine.walk.in_flight.RETRY_BACKOFF_FIRST_SEC", 0.0)
        yield


@pytest.fixture(autouse=True, scope="module")
def _engines_side_by_side(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with side_by_side(tmp_path_factory.mktemp("pyoco")):
        yield


def pyoco_run(flow: Flow) -> tuple[RunContext, Any]:
    context = RunContext()
    return context, PyocoEngine(trace_backend=Quiet()).run(flow, dict(PARAMS), context)


def states_by_rule(drawn: list[Shape]) -> dict[str, str]:
    succeeded: list[bool] = []
    for each in drawn:
        succeeded.append(can_start(each, succeeded) and not each.fails)
    return {f"t{index}": "SUCCEEDED" if good else "FAILED" for index, good in enumerate(succeeded)}


def can_start(each: Shape, succeeded: list[bool]) -> bool:
    needs = [succeeded[need] for need in each.needs]
    return (any(needs) or not needs) if each.any_of else all(needs)


def stops_by_rule(drawn: list[Shape]) -> bool:
    states = states_by_rule(drawn)
    succeeded = [states[f"t{index}"] == "SUCCEEDED" for index in range(len(drawn))]
    return any(each.fails and not each.isolate and can_start(each, succeeded) for each in drawn)


@contextmanager
def but_for_its_deadlocks(drawn: list[Shape]) -> Iterator[None]:
    succeeded = [state == "SUCCEEDED" for state in states_by_rule(drawn).values()]
    doomed = {index for index, each in enumerate(drawn) if not can_start(each, succeeded)}
    try:
        yield
    except RuntimeError as error:
        is_known = "Deadlock" in str(error) and any(doomed & set(drawn[index].needs) for index in doomed)
        if not is_known:
            raise


def states_of(context: RunContext) -> dict[str, str]:
    return {name: state.value for name, state in context.tasks.items()}


@settings(max_examples=80, deadline=None)
@given(shapes(), RECRUITING)
def test_same_results_and_states_as_pyoco_where_failures_are_isolated(
    drawn: list[Shape], recruit_after_sec: float
) -> None:
    drawn = [replace(each, isolate=each.isolate or each.fails) for each in drawn]
    context = RunContext()
    outcome = Engine(recruit_after_sec=recruit_after_sec).run(build(drawn), PARAMS, context)
    assert outcome.status is OutcomeStatus.COMPLETED
    assert states_of(context) == states_by_rule(drawn)
    with but_for_its_deadlocks(drawn):
        theirs, ctx = pyoco_run(build(drawn))
        assert states_of(context) == states_of(theirs)
        assert (outcome.results, outcome.context.scratch) == (ctx.results, ctx.scratch)


@settings(max_examples=40, deadline=None)
@given(shapes(), RECRUITING)
def test_same_verdict_as_pyoco_where_a_failure_stops_the_run(
    drawn: list[Shape], recruit_after_sec: float
) -> None:
    outcome = Engine(recruit_after_sec=recruit_after_sec).run(build(drawn), PARAMS)
    assert (outcome.status is OutcomeStatus.FAILED) == stops_by_rule(drawn)
    if outcome.status is OutcomeStatus.FAILED:
        assert outcome.error == f"{outcome.failed_task} fails"
    with but_for_its_deadlocks(drawn):
        try:
            pyoco_run(build(drawn))
            has_failed = False
        except ValueError:
            has_failed = True
        assert has_failed == stops_by_rule(drawn)


@settings(max_examples=40, deadline=None)
@given(shapes(), st.integers(1, 4), RECRUITING)
def test_a_task_starts_only_after_what_it_needs_has_succeeded(
    drawn: list[Shape], parallelism: int, recruit_after_sec: float
) -> None:
    diary = Diary()
    engine = Engine(listener=diary, parallelism=parallelism, recruit_after_sec=recruit_after_sec)
    engine.run(build(drawn), PARAMS)
    done: set[str] = set()
    for entry in diary.entries:
        if entry[0] == "succeeded":
            done.add(entry[1])
        if entry[0] == "started":
            each = drawn[int(entry[1][1:])]
            needs = {f"t{need}" for need in each.needs}
            assert (needs & done or not needs) if each.any_of else needs <= done


@settings(max_examples=60, deadline=None)
@given(shapes(), st.integers(1, 4), RECRUITING, st.integers(0, TASKS_MAX))
def test_after_a_cancel_by_a_task_every_task_has_one_end_and_none_is_left(
    drawn: list[Shape], parallelism: int, recruit_after_sec: float, canceller: int
) -> None:
    diary, context = Diary(), RunContext()
    engine = Engine(listener=diary, parallelism=parallelism, recruit_after_sec=recruit_after_sec)
    drawn = [replace(each, isolate=True, failures=0, any_of=False, with_inputs=False) for each in drawn]
    flow = build(drawn)
    for each in flow.tasks:
        if each.name == f"t{canceller}":
            each.func = lambda: engine.cancel(context.run_id)
    outcome = engine.run(flow, PARAMS, context)
    expected = OutcomeStatus.CANCELLED if canceller < len(drawn) else OutcomeStatus.COMPLETED
    assert (outcome.status, outcome.left_behind) == (expected, 0)
    ends = [entry[1] for entry in diary.entries if entry[0] in ("succeeded", "failed", "cancelled")]
    assert sorted(ends) == sorted(context.tasks)


@settings(max_examples=40, deadline=None)
@given(shapes(), st.data())
def test_a_run_resumed_from_any_recorded_part_gives_the_same_results(
    drawn: list[Shape], data: st.DataObject
) -> None:
    drawn = [replace(each, failures=0) for each in drawn]
    whole = Engine().run(build(drawn), PARAMS).results
    names = data.draw(st.sets(st.sampled_from(sorted(whole)))) if whole else set()
    diary = Diary()
    resumed = Engine(listener=diary).run(build(drawn), PARAMS, recorded={name: whole[name] for name in names})
    assert resumed.results == whole
    assert {name for name, *_ in diary.of("started")} == set(whole) - names
