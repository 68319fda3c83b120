"""Iterations have records of their own, and a run that comes back takes them up where they end."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyoco.core.context import Context
from pyoco.core.models import Flow, RunContext, TaskState
from pyoco.dsl.syntax import TaskWrapper, switch, task

from pyoco_server.engine import Engine, OutcomeStatus, RunOutcome
from tests.engine.building import Acknowledge, Background, Diary, Obedient, await_signal


def named(name: str, work: Callable[..., Any]) -> TaskWrapper:
    wrapped: TaskWrapper = task(work)
    wrapped.task.name = name
    return wrapped


def place(ctx: Context) -> str:
    """Where the task stands: the indexes of its loops, outermost first."""
    return "".join(f"[{frame.index}]" for frame in ctx.loops)


def looping() -> Any:
    """An inner loop in an outer one, and a task after them."""
    cell = named("cell", lambda ctx: f"cell {place(ctx)}")
    row = named("row", lambda ctx: f"row {place(ctx)}")
    return Flow() >> (row >> cell["$ctx.params.columns as column"])[2] >> named("end", lambda: "end")


COLUMNS = {"columns": ["p", "q", "r"]}
CELLS = [f"cell[{row}][{column}]" for row in range(2) for column in range(3)]


def told(diary: Diary, *kinds: str) -> list[tuple[Any, ...]]:
    return [entry[:2] for entry in diary.entries if entry[0] in kinds]


def test_every_iteration_is_told_under_its_own_name_and_the_whole_once() -> None:
    diary = Diary()
    double = named("double", lambda item: item * 2)
    double.task.inputs = {"item": "$ctx.params.start"}
    flow = Flow() >> double[2] >> named("end", lambda double: double)
    outcome = Engine(listener=diary).run(flow, {"start": 4})
    assert outcome.results == {"double": 8, "end": 8}
    assert diary.entries == [
        ("planned", "double", "end"),
        ("started", "double", 1, {}),
        ("started", "double[0]", 1, {"item": 4}),
        ("succeeded", "double[0]", 1, 8),
        ("started", "double[1]", 1, {"item": 4}),
        ("succeeded", "double[1]", 1, 8),
        ("succeeded", "double", 1, 8),
        ("started", "end", 1, {"double": 8}),
        ("succeeded", "end", 1, 8),
    ]


def test_nested_loops_add_an_index_each_and_the_whole_ends_with_the_outermost() -> None:
    diary = Diary()
    context = RunContext()
    outcome = Engine(listener=diary).run(looping(), COLUMNS, context)
    assert outcome.status is OutcomeStatus.COMPLETED
    succeeded = [name for name, *_ in diary.of("succeeded")]
    assert succeeded == ["row[0]", *CELLS[:3], "row[1]", *CELLS[3:], "row", "cell", "end"]
    assert [name for name, *_ in diary.of("started")][:4] == ["row", "row[0]", "cell", CELLS[0]]
    assert set(context.tasks) == set(context.task_records) == {*succeeded}
    assert set(context.tasks.values()) == {TaskState.SUCCEEDED}
    assert context.task_records["cell"].output == context.task_records["cell[1][2]"].output == "cell [1][2]"
    assert set(outcome.results) == {"row", "cell", "end"}


def test_each_iteration_counts_its_own_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.engine.walk.in_flight.RETRY_BACKOFF_FIRST_SEC", 0.001)
    diary = Diary()
    seen: set[str] = set()

    def flaky(ctx: Context) -> None:
        if place(ctx) not in seen:
            seen.add(place(ctx))
            raise ValueError("once more")

    flaking = named("flaky", flaky)
    flaking.task.retries = 1
    assert Engine(listener=diary).run(Flow() >> flaking[2]).status is OutcomeStatus.COMPLETED
    assert [entry[:2] for entry in diary.of("started")] == [
        ("flaky", 1),
        ("flaky[0]", 1),
        ("flaky[0]", 2),
        ("flaky[1]", 1),
        ("flaky[1]", 2),
    ]
    assert [entry[0] for entry in diary.of("failed")] == ["flaky[0]", "flaky[1]"]


def test_an_iteration_that_fails_for_good_fails_the_whole() -> None:
    diary = Diary()
    context = RunContext()
    item = named("item", lambda ctx: 1 / (1 - ctx.loop.index))
    other = named("other", lambda: 1)
    outcome = Engine(listener=diary).run(Flow() >> (other >> item)[3], run_context=context)
    assert (outcome.status, outcome.failed_task) == (OutcomeStatus.FAILED, "item[1]")
    error = "division by zero"
    assert diary.of("failed") == [("item[1]", 1, error, False), ("item", 1, error, False)]
    assert diary.of("cancelled") == [("other",)]
    assert context.task_records["item"].error == error
    assert (context.tasks["item"], context.tasks["item[0]"]) == (TaskState.FAILED, TaskState.SUCCEEDED)


def test_a_cancel_inside_an_iteration_cancels_it_and_the_whole() -> None:
    work = Obedient(ValueError("I saw it"))
    diary = Diary()
    with Background(Engine(listener=diary), Flow() >> named("item", lambda ctx: work(ctx))[3]) as run:
        await_signal(work.running)
        run.cancel()
        assert run.outcome().status is OutcomeStatus.CANCELLED
    assert sorted(diary.of("cancelled")) == [("item",), ("item[0]",)]
    assert run.context.tasks == {"item": TaskState.CANCELLED, "item[0]": TaskState.CANCELLED}


def test_a_body_task_that_is_never_reached_stays_planned() -> None:
    context = RunContext()
    cases = ["x" >> named("left", lambda: 1), "*" >> named("right", lambda: 2)]
    flow = Flow() >> switch("$ctx.params.way")[cases][2] >> named("none", lambda: 0)[0]
    assert Engine().run(flow, {"way": "x"}, context).status is OutcomeStatus.COMPLETED
    assert (context.tasks["right"], context.tasks["none"]) == (TaskState.PENDING, TaskState.PENDING)
    assert context.tasks["left"] is TaskState.SUCCEEDED


class Slow(Diary):
    """Keeps the acknowledgement of one name until the test gives it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self.kept: list[Acknowledge] = []
        self.holds = threading.Event()

    def task_succeeded(
        self, name: str, attempt: int, output: Any, started_at: float, ended_at: float, ack: Acknowledge
    ) -> None:
        held = name == self._name
        super().task_succeeded(name, attempt, output, started_at, ended_at, (lambda: None) if held else ack)
        if held:
            self.kept.append(ack)
            self.holds.set()


@pytest.mark.parametrize("name", ["item[0]", "item"])
def test_the_next_step_waits_for_the_acknowledgement_of_iterations_and_wholes(name: str) -> None:
    listener = Slow(name)
    flow = Flow() >> named("item", lambda: 1)[2] >> named("end", lambda: 2)
    with Background(Engine(listener=listener), flow) as run:
        await_signal(listener.holds)
        assert listener.entries[-1] == ("succeeded", name, 1, 1)
        listener.kept[0]()
        assert run.outcome().status is OutcomeStatus.COMPLETED
    assert listener.entries[-1][:2] == ("succeeded", "end")


# Coming back


def resumed(recorded: dict[str, Any], flow: Any = None) -> tuple[RunOutcome, Diary]:
    diary = Diary()
    return Engine(listener=diary).run(flow or looping(), COLUMNS, recorded=recorded), diary


def whole_record() -> dict[str, Any]:
    context = RunContext()
    Engine().run(looping(), COLUMNS, context)
    return {name: record.output for name, record in context.task_records.items()}


ORDER = ["row[0]", *CELLS[:3], "row[1]", *CELLS[3:], "row", "cell", "end"]


@pytest.mark.parametrize("kept", range(len(ORDER) + 1))
def test_a_run_goes_on_with_the_first_iteration_that_is_missing(kept: int) -> None:
    record = whole_record()
    outcome, diary = resumed({name: record[name] for name in ORDER[:kept]})
    assert outcome.results == {"row": "row [1]", "cell": "cell [1][2]", "end": "end"}
    assert [name for name, *_ in diary.of("succeeded")] == ORDER[kept:]
    started = {name for name, *_ in diary.of("started")}
    assert started == {*ORDER[kept:]}


def test_iterations_that_could_not_be_kept_are_executed_again_without_telling_the_whole_twice() -> None:
    record = whole_record()
    del record["cell[0][1]"]
    outcome, diary = resumed(record)
    assert outcome.status is OutcomeStatus.COMPLETED
    assert told(diary, "started", "succeeded", "failed", "cancelled") == [
        ("started", "cell[0][1]"),
        ("succeeded", "cell[0][1]"),
    ]


def test_the_record_of_a_whole_alone_is_no_result() -> None:
    outcome, diary = resumed({"row": "old", "cell": "old"})
    assert outcome.results["row"] == "row [1]"
    assert told(diary, "started", "succeeded").count(("started", "row[0]")) == 1
    assert {"row", "cell"} & {name for _, name in told(diary, "started", "succeeded")} == set()


def test_what_is_recorded_is_never_told_again_also_when_the_run_ends_before_it_gets_there() -> None:
    def broken() -> None:
        raise ValueError("no")

    flow = Flow() >> named("first", broken) >> named("item", lambda: 1)[2] >> named("end", lambda: 2)
    _, diary = resumed({"item": 1, "item[0]": 1, "item[1]": 1, "end": 2}, flow)
    assert told(diary, "started", "failed", "cancelled") == [("started", "first"), ("failed", "first")]


def test_conditions_are_evaluated_again_from_recorded_results() -> None:
    calls: list[int] = []

    def count(ctx: Context) -> int:
        calls.append(ctx.results.get("count", 0) + 1)
        return calls[-1]

    def flow() -> Any:
        cases = [1 >> named("odd", lambda: "odd"), 0 >> named("even", lambda: "even")]
        body = named("count", count) >> switch("$ctx.results.count % 2")[cases]
        return Flow() >> body % "$ctx.results.count >= 4"

    outcome, diary = resumed({"count[0]": 1, "odd[0]": "odd", "count[1]": 2}, flow())
    assert outcome.results == {"count": 4, "odd": "odd", "even": "even"}
    assert calls == [3, 4]
    executed = [name for name, *_ in diary.of("started") if "[" in name]
    assert executed == ["even[1]", "count[2]", "odd[2]", "count[3]", "even[3]"]


def test_foreach_reads_its_items_from_a_recorded_result() -> None:
    flow = (
        Flow()
        >> named("make", lambda: [1])
        >> named("use", lambda ctx: ctx.get_var("item"))["$ctx.results.make as item"]
    )
    outcome, diary = resumed({"make": [7, 8], "use[0]": 7}, flow)
    assert outcome.results == {"make": [7, 8], "use": 8}
    assert [name for name, *_ in diary.of("started")] == ["use", "use[1]"]


# Tasks that stand at several places


def test_the_first_place_that_is_reached_has_the_plain_name() -> None:
    context = RunContext()
    notify = named("notify", lambda: 1)
    cases = ["x" >> notify, "*" >> notify]
    flow = Flow() >> switch("$ctx.params.way")[cases] >> named("none", lambda: 0)[0] >> notify
    assert Engine().run(flow, {"way": "y"}, context).status is OutcomeStatus.COMPLETED
    assert set(context.tasks) == {"notify", "notify#2", "none"}


def test_a_task_that_stands_twice_has_a_record_for_each_place() -> None:
    context = RunContext()
    diary = Diary()
    again = named("again", lambda ctx: ctx.scratch.setdefault("n", []).append(1) or len(ctx.scratch["n"]))
    flow = Flow() >> again >> again[2] >> again
    outcome = Engine(listener=diary).run(flow, run_context=context)
    assert outcome.results == {"again": 4}
    assert diary.of("planned") == [("again",)]
    assert [(name, output) for name, _, output in diary.of("succeeded")] == [
        ("again", 1),
        ("again#2[0]", 2),
        ("again#2[1]", 3),
        ("again#2", 3),
        ("again#3", 4),
    ]


def test_each_place_is_taken_from_its_own_record() -> None:
    again = named("again", lambda again=0: again + 1)
    flow = Flow() >> again >> named("loop", lambda: 0)[1] >> again
    outcome, diary = resumed({"again": 10, "loop[0]": 0}, flow)
    assert outcome.results["again"] == 11
    assert [name for name, *_ in diary.of("started")] == ["loop", "again#2"]


def test_a_task_that_is_really_called_so_keeps_its_name() -> None:
    context = RunContext()
    twice = named("a", lambda: 1)
    flow = Flow() >> twice >> named("a#2", lambda: 2) >> twice >> named("loop", lambda: 0)[1]
    assert Engine().run(flow, run_context=context).status is OutcomeStatus.COMPLETED
    outputs = {name: record.output for name, record in context.task_records.items()}
    assert (outputs["a"], outputs["a#2"], outputs["a#3"]) == (1, 2, 1)


def test_a_task_called_like_an_iteration_of_another_is_refused() -> None:
    diary = Diary()
    flow = Flow() >> named("a", lambda: 1)[2] >> named("a[0]", lambda: 2)
    outcome = Engine(listener=diary).run(flow)
    assert outcome.status is OutcomeStatus.FAILED
    assert "'a[0]' is called like an iteration of task 'a'" in (outcome.error or "")
    assert diary.of("started") == []
