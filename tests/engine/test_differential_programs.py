"""Our engine against pyoco's over random programs: switch, repeat, foreach and until inside each other.

Both walk a program one task after the other, so everything is compared: results, what tasks were given and
in which order, states, records, and the text of the error that ended the run.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoco.core.context import Context
from pyoco.core.engine import Engine as PyocoEngine
from pyoco.core.models import Flow, RunContext, Task
from pyoco.dsl.expressions import Expression
from pyoco.dsl.syntax import FlowFragment, TaskWrapper, switch

from pyoco_server.engine import Engine, OutcomeStatus, RunOutcome
from tests.engine.building import Diary
from tests.engine.test_differential import Quiet, side_by_side

TASKS = 4
PARAMS = {"items": ["p", "q"], "none": [], "number": 2, "way": "x"}
INPUTS = ["$ctx.params.way", "$ctx.params.missing", "plain", 7, *(f"$node.t{n}.output" for n in range(TASKS))]
OUTPUTS = ["scratch.a", "scratch.a.b", "results.extra", "params.way", "nowhere.x"]


@dataclass(frozen=True)
class Behaviour:
    """One task, wherever it stands: how often it counts up before it fails, and what it asks for."""

    fails_at: int | None
    stumbles: bool  # at the first of two attempts, every time
    retries: int
    takes: str | None
    inputs: tuple[tuple[str, Any], ...]
    outputs: tuple[str, ...]
    isolate: bool
    any_of: bool


@dataclass(frozen=True)
class Step:
    """A task (`number`), or a construct with bodies."""

    kind: str
    number: int = 0
    detail: Any = None
    bodies: tuple["Body", ...] = ()


Body = tuple[Step, ...]

behaviours = st.builds(
    Behaviour,
    fails_at=st.sampled_from([None, None, None, 1, 3]),
    stumbles=st.booleans(),
    retries=st.integers(0, 2),
    takes=st.sampled_from([None, "t0", "t1", "way", "missing", "extra"]),
    inputs=st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from(INPUTS)), max_size=2).map(tuple),
    outputs=st.lists(st.sampled_from(OUTPUTS), max_size=2).map(tuple),
    isolate=st.booleans(),
    any_of=st.booleans(),
)
numbers = st.integers(0, TASKS - 1)
expressions = st.sampled_from(
    ["$ctx.params.way", "$ctx.results.t0 % 2", "$ctx.loop.index", "$ctx.results.t1 >= 2", "$ctx.item"]
)
tasks = st.builds(Step, st.just("task"), numbers)


def constructs(inner: st.SearchStrategy[Step]) -> st.SearchStrategy[Step]:
    body = st.lists(inner, min_size=1, max_size=3).map(tuple)
    one = st.tuples(body)
    some = st.lists(body, min_size=1, max_size=3).map(tuple)
    counts = st.sampled_from([0, 1, 2, 3, Expression("$ctx.params.number"), Expression("$ctx.params.way")])
    sources = st.sampled_from(
        ["$ctx.params.items as item", "$ctx.params.none", "$ctx.params.items", "$ctx.params.way as item"]
    )
    return st.one_of(
        st.builds(Step, st.just("repeat"), numbers, counts, one),
        st.builds(Step, st.just("foreach"), numbers, sources, one),
        st.builds(Step, st.just("until"), numbers, st.tuples(st.integers(1, 4), st.integers(1, 5)), one),
        st.builds(Step, st.just("switch"), numbers, expressions, some),
    )


steps = st.recursive(tasks, constructs, max_leaves=6)
# The last step makes sure that there is control flow, whatever was drawn.
programs = st.lists(steps, min_size=1, max_size=4).map(
    lambda drawn: (*drawn, Step("repeat", 0, 2, ((Step("task", 0),),)))
)
everything = st.lists(behaviours, min_size=TASKS, max_size=TASKS)

CASE_VALUES = ["x", 1, "*", 0]


def make(number: int, each: Behaviour) -> TaskWrapper:
    name = f"t{number}"
    attempts = [0]

    def work(ctx: Context, arguments: dict[str, Any]) -> int:
        value = int(ctx.results.get(name, 0)) + 1
        attempts[0] += 1
        frames = [(frame.path, frame.item, frame.count, frame.condition) for frame in ctx.loops]
        ctx.scratch.setdefault("log", []).append(
            (name, value, arguments, frames, ctx.get_var("item"), dict(ctx.params))
        )
        if value == each.fails_at:
            raise ValueError(f"{name} fails at {value}")
        if each.stumbles and attempts[0] % 2:
            raise ValueError(f"{name} stumbles at {value}")
        return value

    namespace: dict[str, Any] = {"work": work}
    wanted = dict.fromkeys([key for key, _ in each.inputs] + ([each.takes] if each.takes else []))
    parameters = "".join(f", {key}=None" for key in wanted)
    given_as = ", ".join(f"{key!r}: {key}" for key in wanted)
    exec(f"def call(ctx{parameters}):\n    return work(ctx, {{{given_as}}})", namespace)
    made = Task(func=namespace["call"], name=name, retries=each.retries)
    made.inputs, made.outputs = dict(each.inputs), list(each.outputs)
    made.fail_policy = "isolate" if each.isolate else "stop"
    made.trigger_policy = "ANY" if each.any_of else "ALL"
    return TaskWrapper(made)


def build(drawn: Body, behaviour: list[Behaviour]) -> Flow:
    made = [make(number, each) for number, each in enumerate(behaviour)]
    flow = Flow()
    for step in drawn:
        flow = flow >> fragment(step, made)
    return flow


def fragment(step: Step, made: list[TaskWrapper]) -> FlowFragment:
    if step.kind == "task":
        return made[step.number]
    bodies = [joined([fragment(inner, made) for inner in body]) for body in step.bodies]
    match step.kind:
        case "repeat" | "foreach":
            return bodies[0][step.detail]
        case "until":
            wanted, at_most = step.detail
            counted: FlowFragment = made[step.number] >> bodies[0]
            return counted % (f"$ctx.results.t{step.number} >= {wanted}", at_most)
        case _:
            pairs = zip(CASE_VALUES, bodies, strict=False)
            return switch(step.detail)[[cast(Any, value) >> body for value, body in pairs]]


def joined(fragments: list[FlowFragment]) -> FlowFragment:
    whole = fragments[0]
    for other in fragments[1:]:
        whole = whole >> other
    return whole


@pytest.fixture(autouse=True, scope="module")
def _engines_side_by_side(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with side_by_side(tmp_path_factory.mktemp("pyoco")):
        yield


def ours(drawn: Body, behaviour: list[Behaviour], **arguments: Any) -> tuple[RunOutcome, RunContext]:
    context = RunContext()
    return Engine().run(build(drawn, behaviour), dict(PARAMS), context, **arguments), context


@dataclass
class Theirs:
    context: RunContext
    ctx: Context
    error: str | None


def theirs(drawn: Body, behaviour: list[Behaviour]) -> Theirs:
    context = RunContext()
    seen: list[Context] = []

    class Watching(PyocoEngine):
        def _run_flow(self, flow: Any, ctx: Any, *rest: Any) -> Any:
            seen.append(ctx)
            return super()._run_flow(flow, ctx, *rest)

    try:
        Watching(trace_backend=Quiet()).run(build(drawn, behaviour), dict(PARAMS), context)
    except Exception as exc:
        return Theirs(context, seen[0], str(exc) or type(exc).__name__)
    return Theirs(context, seen[0], None)


@settings(max_examples=150, deadline=None)
@given(programs, everything)
def test_a_random_program_does_what_it_does_in_pyoco(drawn: Body, behaviour: list[Behaviour]) -> None:
    outcome, context = ours(drawn, behaviour)
    reference = theirs(drawn, behaviour)
    assert outcome.error == reference.error
    assert outcome.status is (OutcomeStatus.COMPLETED if reference.error is None else OutcomeStatus.FAILED)
    assert outcome.results == reference.ctx.results
    assert outcome.context.scratch == reference.ctx.scratch
    assert outcome.context.params == reference.ctx.params
    if outcome.status is OutcomeStatus.COMPLETED:
        assert_same_records(context, reference.context)
    elif outcome.failed_task is not None:
        plain = outcome.failed_task.split("[")[0].split("#")[0]
        assert reference.context.tasks[plain] == context.tasks[outcome.failed_task]


def assert_same_records(context: RunContext, reference: RunContext) -> None:
    """The record of a task that stands at one place is pyoco's; others are compared by state."""
    for name, record in reference.task_records.items():
        mine = context.task_records[name]
        assert mine.state == record.state
        assert context.tasks[name] == reference.tasks[name]
        if f"{name}#2" not in context.tasks:
            assert (mine.inputs, mine.output) == (record.inputs, record.output)


@settings(max_examples=80, deadline=None)
@given(programs, everything, st.data())
def test_a_program_resumed_from_any_recorded_part_gives_the_same_results(
    drawn: Body, behaviour: list[Behaviour], data: st.DataObject
) -> None:
    behaviour = [replace(each, fails_at=None, stumbles=False) for each in behaviour]
    outcome, context = ours(drawn, behaviour)
    known = {name: record.output for name, record in context.task_records.items() if record.output}
    kept = data.draw(st.sets(st.sampled_from(sorted(known)))) if known else set()
    diary = Diary()
    flow = build(drawn, behaviour)
    again = Engine(listener=diary).run(flow, dict(PARAMS), recorded={name: known[name] for name in kept})
    assert (again.status, again.error, again.results) == (outcome.status, outcome.error, outcome.results)
    told = {entry[1] for entry in diary.entries if entry[0] in ("started", "succeeded", "cancelled")}
    assert told & kept == set()
    if outcome.status is OutcomeStatus.COMPLETED:
        assert {name for name, *_ in diary.of("succeeded")} == set(known) - kept


@settings(max_examples=60, deadline=None)
@given(programs, everything)
def test_every_record_name_is_told_once_and_every_start_has_an_end(
    drawn: Body, behaviour: list[Behaviour]
) -> None:
    diary = Diary()
    Engine(listener=diary).run(build(drawn, behaviour), dict(PARAMS))
    started = [name for name, *_ in diary.of("started")]
    ended = [name for name, *_ in diary.of("succeeded")]
    ended += [name for name, _, _, will_retry in diary.of("failed") if not will_retry]
    cancelled = [name for (name,) in diary.of("cancelled")]
    assert len(set(ended + cancelled)) == len(ended + cancelled)
    assert set(ended) <= set(started) <= set(ended + cancelled)
    wholes = {name for name, attempt, _ in diary.of("started") if attempt == 1 and "[" not in name}
    assert all(name.split("[")[0] in wholes for name in started)
