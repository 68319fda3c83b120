"""Flows with switch, repeat, foreach and until mean what they mean in pyoco, and stop when told to."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from pyoco.core.context import Context
from pyoco.core.engine import Engine as PyocoEngine
from pyoco.core.exceptions import ControlFlowError
from pyoco.core.models import Flow, RunContext, TaskState
from pyoco.dsl.expressions import ExpressionEvaluationError
from pyoco.dsl.syntax import TaskWrapper, switch, task

from pyoco_server.engine import Engine, OutcomeStatus
from tests.engine.building import Diary
from tests.engine.test_differential import Quiet


def counting() -> TaskWrapper:
    @task
    def count(ctx: Context) -> int:
        ctx.scratch["n"] = ctx.scratch.get("n", 0) + 1
        return int(ctx.scratch["n"])

    return count


def collecting() -> TaskWrapper:
    @task
    def collect(ctx: Context) -> list[Any]:
        loops = [(frame.path, frame.item, frame.condition, frame.count) for frame in ctx.loops]
        ctx.scratch.setdefault("seen", []).append((ctx.get_var("item"), loops))
        return list(ctx.scratch["seen"])

    return collect


def named(name: str) -> TaskWrapper:
    def work() -> str:
        return name

    work.__name__ = name
    return task(work)


def repeated() -> Any:
    return Flow() >> counting()[3] >> named("end")


def each() -> Any:
    return Flow() >> collecting()["$ctx.params.items as item"]


def nested() -> Any:
    return Flow() >> (counting() >> collecting()["$ctx.params.items as item"])[2]


def until() -> Any:
    return Flow() >> counting() % "$ctx.results.count >= 3" >> named("end")


def switched() -> Any:
    cases = ["x" >> named("left"), "*" >> named("right")]
    return Flow() >> named("first") >> switch("$ctx.params.way")[cases] >> named("end")


def no_match() -> Any:
    return Flow() >> switch("$ctx.params.way")["nobody" >> named("left")]


def never() -> Any:
    return Flow() >> counting() % ("$ctx.results.count < 0", 4)


def no_list() -> Any:
    return Flow() >> collecting()["$ctx.params.way as item"]


def broken() -> Any:
    return Flow() >> counting() % "$ctx.results.nothing.here > 1"


FAILING = [no_match, never, no_list, broken]
FLOWS = [repeated, each, nested, until, switched, *FAILING]


@pytest.mark.parametrize("build", FLOWS, ids=lambda build: build.__name__)
@pytest.mark.parametrize("way", ["x", "y"])
def test_a_program_ends_as_in_pyoco(
    build: Callable[[], Flow], way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    params = {"items": ["p", "q"], "way": way}
    theirs, ours = RunContext(), RunContext()
    outcome = Engine().run(build(), params, ours)
    if build in FAILING:
        with pytest.raises((ControlFlowError, TypeError, ExpressionEvaluationError)) as raised:
            PyocoEngine(trace_backend=Quiet()).run(build(), dict(params), theirs)
        assert (outcome.status, outcome.error) == (OutcomeStatus.FAILED, str(raised.value))
        return
    ctx = PyocoEngine(trace_backend=Quiet()).run(build(), dict(params), theirs)
    assert (outcome.results, outcome.context.scratch) == (ctx.results, ctx.scratch)
    assert outcome.status is OutcomeStatus.COMPLETED
    assert {name: ours.tasks[name] for name in theirs.tasks} == theirs.tasks


def test_a_cancel_is_honoured_between_iterations() -> None:
    context = RunContext()

    class Cancelling(Diary):
        def task_started(self, name: str, attempt: int, inputs: Any, started_at: float) -> None:
            super().task_started(name, attempt, inputs, started_at)
            if name == "count[1]":
                engine.cancel(context.run_id)

    listener = Cancelling()
    engine = Engine(listener=listener)
    outcome = engine.run(Flow() >> counting()[1000] >> named("end"), run_context=context)
    assert outcome.status is OutcomeStatus.CANCELLED
    assert outcome.results == {"count": 2}
    assert context.tasks["end"] is TaskState.CANCELLED
    assert listener.of("cancelled") == [("count",), ("end",)]


def test_a_failing_task_names_itself_and_the_rest_is_cancelled() -> None:
    @task
    def bad() -> None:
        raise ValueError("no")

    context = RunContext()
    outcome = Engine().run(Flow() >> counting()[2] >> bad >> named("end"), run_context=context)
    assert (outcome.status, outcome.failed_task, outcome.error) == (OutcomeStatus.FAILED, "bad", "no")
    assert context.tasks["end"] is TaskState.CANCELLED


def test_a_setting_that_is_no_number_fails_the_run_before_anything_is_executed() -> None:
    bad = named("bad")
    bad.task.retries = cast(Any, "twice")
    diary = Diary()
    outcome = Engine(listener=diary).run(Flow() >> counting()[2] >> bad)
    assert (outcome.status, outcome.error) == (
        OutcomeStatus.FAILED,
        "Task 'bad': retries must be a number, not 'twice'",
    )
    assert diary.of("started") == []


class Undecidable:
    def __bool__(self) -> bool:
        raise ValueError("neither true nor false")


def test_the_traceback_of_a_condition_shows_the_code_of_the_author_only() -> None:
    @task
    def again() -> Undecidable:
        return Undecidable()

    flow = Flow() >> (again % "$ctx.results.again")
    outcome = Engine().run(flow)
    assert outcome.status is OutcomeStatus.FAILED
    assert outcome.traceback is not None
    assert "neither true nor false" in outcome.traceback
    assert outcome.traceback.count("  File ") == 1
