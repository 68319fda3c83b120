"""Flows without control flow: order, wiring, joins, isolation, deadlock, recorded results."""

import sys
import threading
from typing import Any

import pytest
from pyoco.core.models import Flow, RunContext, RunStatus, TaskState
from pyoco.dsl.syntax import task

from pyoco_server.engine import Engine, OutcomeStatus
from tests.engine.building import Diary, flow_of, make_task, raising


def test_an_empty_flow_completes() -> None:
    diary = Diary()
    outcome = Engine(listener=diary).run(Flow())
    assert outcome.status is OutcomeStatus.COMPLETED
    assert diary.entries == [("planned",)]


def test_a_chain_built_with_the_dsl_passes_results_along_by_name() -> None:
    @task
    def one(start: int) -> int:
        return start + 1

    @task
    def two(one: int) -> int:
        return one * 10

    outcome = Engine().run(Flow() >> one >> two, {"start": 1})
    assert outcome.status is OutcomeStatus.COMPLETED
    assert outcome.results == {"one": 2, "two": 20}
    assert outcome.error is outcome.failed_task is outcome.traceback is None


def test_callbacks_tell_the_story_in_order_and_from_the_calling_thread() -> None:
    diary = Diary()
    a = make_task("a", lambda: 1)
    b = make_task("b", lambda a: a + 1, [a])
    Engine(listener=diary).run(flow_of(b, a))
    assert diary.entries == [
        ("planned", "a", "b"),
        ("started", "a", 1, {}),
        ("succeeded", "a", 1, 1),
        ("started", "b", 1, {"a": 1}),
        ("succeeded", "b", 1, 2),
    ]
    assert diary.threads == {threading.get_ident()}


def test_the_plan_is_a_stable_topological_order() -> None:
    diary = Diary()
    z = make_task("z", lambda: None)
    m = make_task("m", lambda: None, [z])
    a = make_task("a", lambda: None, [m, z])
    Engine(listener=diary).run(flow_of(a, m, z, make_task("k", lambda: None)))
    assert diary.of("planned") == [("k", "z", "m", "a")]


def test_inputs_win_over_params_and_params_over_results() -> None:
    seen: dict[str, Any] = {}
    first = make_task("value", lambda: "result")
    other = make_task("other", lambda: {"deep": {"er": 7}})

    def read(configured: str, picked: int, value: str, other: Any, missing: str = "default") -> None:
        seen.update(configured=configured, picked=picked, value=value, other=other, missing=missing)

    inputs = {"configured": "$ctx.params.key", "picked": "$node.other.output.deep.er", "other": "literal"}
    last = make_task("read", read, [first, other], inputs=inputs)
    Engine().run(flow_of(first, other, last), {"key": "from params", "value": "param"})
    assert seen == {
        "configured": "from params",
        "picked": 7,
        "value": "param",
        "other": "literal",
        "missing": "default",
    }


def test_the_context_is_injected_and_not_reported_as_an_input() -> None:
    diary = Diary()
    outcome = Engine(listener=diary).run(flow_of(make_task("a", lambda ctx: ctx.params["x"])), {"x": 5})
    assert outcome.results == {"a": 5}
    assert diary.of("started") == [("a", 1, {})]


def test_outputs_are_saved_at_their_paths_and_the_callers_params_stay_as_they_were() -> None:
    params = {"x": 1}
    saving = make_task("a", lambda: 42, outputs=["scratch.deep.er", "params.y", "results.b", "nowhere.z"])
    outcome = Engine().run(flow_of(saving), params)
    assert outcome.context.scratch == {"deep": {"er": 42}}
    assert outcome.context.params == {"x": 1, "y": 42}
    assert outcome.results == {"a": 42, "b": 42}
    assert params == {"x": 1}


def test_an_output_path_through_something_that_is_no_dict_is_skipped() -> None:
    first = make_task("a", lambda: 1, outputs=["scratch.x"])
    second = make_task("b", lambda: 2, [first], outputs=["scratch.x.y"])
    outcome = Engine().run(flow_of(first, second))
    assert outcome.status is OutcomeStatus.COMPLETED
    assert outcome.context.scratch == {"x": 1}


def test_a_reference_that_leads_nowhere_fails_the_task() -> None:
    diary = Diary()
    outcome = Engine(listener=diary).run(flow_of(make_task("a", lambda x: x, inputs={"x": "$ctx.params.no"})))
    assert (outcome.status, outcome.failed_task) == (OutcomeStatus.FAILED, "a")
    assert "no" in (outcome.error or "")
    assert [entry[0] for entry in diary.entries] == ["planned", "started", "failed"]


def test_an_any_task_starts_with_the_first_success_and_survives_a_failure() -> None:
    bad = make_task("bad", raising(ValueError("no")), fail_policy="isolate")
    good = make_task("good", lambda: 1)
    join = make_task("join", lambda: "joined", [bad, good], trigger_policy="ANY")
    outcome = Engine().run(flow_of(bad, good, join))
    assert outcome.status is OutcomeStatus.COMPLETED
    assert outcome.results == {"good": 1, "join": "joined"}


def test_an_any_task_does_not_wait_for_the_slower_branch() -> None:
    joined = threading.Event()
    slow = make_task("slow", lambda: joined.wait(10))
    fast = make_task("fast", lambda: None)
    join = make_task("join", joined.set, [slow, fast], trigger_policy="ANY")
    assert Engine().run(flow_of(slow, fast, join)).results["slow"] is True


def test_an_isolated_failure_fails_what_depends_on_it_near_and_far_and_the_run_completes() -> None:
    diary = Diary()
    bad = make_task("bad", raising(ValueError("no")), fail_policy="isolate")
    near = make_task("near", lambda: 1, [bad])
    far = make_task("far", lambda: 1, [near])
    free = make_task("free", lambda: 1)
    outcome = Engine(listener=diary).run(flow_of(bad, near, far, free))
    assert outcome.status is OutcomeStatus.COMPLETED
    assert outcome.results == {"free": 1}
    assert ("near", 0, "Not run, because task 'bad' failed", False) in diary.of("failed")
    assert ("far", 0, "Not run, because task 'near' failed", False) in diary.of("failed")


def test_a_task_that_could_not_start_has_a_record_that_says_why() -> None:
    context = RunContext()
    bad = make_task("bad", raising(ValueError("no")), fail_policy="isolate")
    Engine().run(flow_of(bad, make_task("near", lambda: 1, [bad])), run_context=context)
    record = context.task_records["near"]
    assert (record.state, record.error) == (TaskState.FAILED, "Not run, because task 'bad' failed")


def test_the_engine_does_not_capture_printed_text(capsys: pytest.CaptureFixture[str]) -> None:
    context = RunContext()
    Engine().run(flow_of(make_task("a", lambda: sys.stdout.write("hello"))), run_context=context)
    assert (capsys.readouterr().out, context.logs) == ("hello", [])


def test_a_circle_fails_the_run_before_anything_is_executed() -> None:
    diary = Diary()
    a = make_task("a", lambda: 1)
    b = make_task("b", lambda: 1, [a])
    c = make_task("c", lambda: 1, [b])
    b.dependencies.add(c)
    outcome = Engine(listener=diary).run(flow_of(a, b, c))
    assert outcome.status is OutcomeStatus.FAILED
    assert outcome.error == "Deadlock or cycle detected in workflow: these tasks wait for each other: b, c"
    assert diary.entries == [("planned", "a", "b", "c"), *(("cancelled", name) for name in "abc")]


def test_a_circle_that_an_any_task_opens_is_no_deadlock() -> None:
    a = make_task("a", lambda: 1)
    b = make_task("b", lambda: 2, [a], trigger_policy="ANY")
    c = make_task("c", lambda: 3, [b])
    b.dependencies.add(c)
    assert Engine().run(flow_of(a, b, c)).results == {"a": 1, "b": 2, "c": 3}


def test_a_circle_whose_opener_failed_is_a_deadlock() -> None:
    a = make_task("a", raising(ValueError("no")), fail_policy="isolate")
    b = make_task("b", lambda: 2, [a], trigger_policy="ANY")
    c = make_task("c", lambda: 3, [b])
    b.dependencies.add(c)
    outcome = Engine().run(flow_of(a, b, c))
    assert outcome.status is OutcomeStatus.FAILED
    assert "Deadlock" in (outcome.error or "")


@pytest.mark.parametrize("settings", [{"timeout_sec": "soon"}, {"retries": "twice"}])
def test_a_setting_that_is_no_number_fails_the_run_with_a_clear_error(settings: dict[str, Any]) -> None:
    outcome = Engine().run(flow_of(make_task("a", lambda: 1, **settings)))
    assert outcome.status is OutcomeStatus.FAILED
    assert "must be a number" in (outcome.error or "")


def test_tasks_shared_between_flows_bring_only_edges_inside_the_flow() -> None:
    shared = make_task("shared", lambda: "shared")
    before = make_task("before", lambda: "before")
    shared.dependencies.add(before)  # by another flow
    after = make_task("after", lambda shared: shared + "!", [shared])
    assert Engine().run(flow_of(shared, after)).results == {"shared": "shared", "after": "shared!"}
    assert Engine().run(flow_of(shared, before)).results == {"shared": "shared", "before": "before"}
    assert shared.dependencies == {before}


def test_recorded_tasks_are_not_executed_and_their_results_are_used() -> None:
    diary = Diary()
    a = make_task("a", raising(AssertionError("executed")), outputs=["scratch.from_a"])
    b = make_task("b", lambda a: a + 1, [a])
    context = RunContext()
    outcome = Engine(listener=diary).run(flow_of(a, b), run_context=context, recorded={"a": 1, "unknown": 0})
    assert outcome.results == {"a": 1, "b": 2}
    assert outcome.context.scratch == {"from_a": 1}
    assert [entry[:2] for entry in diary.entries] == [("planned", "a"), ("started", "b"), ("succeeded", "b")]
    assert context.tasks == {"a": TaskState.SUCCEEDED, "b": TaskState.SUCCEEDED}


def test_a_run_with_everything_recorded_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise AssertionError("a thread was started")

    a = make_task("a", lambda: 1)
    b = make_task("b", lambda: 1, [a])
    monkeypatch.setattr(threading.Thread, "start", refuse)
    outcome = Engine().run(flow_of(a, b), recorded={"a": 1, "b": 2})
    assert (outcome.status, outcome.results) == (OutcomeStatus.COMPLETED, {"a": 1, "b": 2})


def test_task_records_are_written_as_pyoco_writes_them() -> None:
    context = RunContext(flow_name="submitted name")
    outcome = Engine().run(flow_of(make_task("a", lambda x: x * 2)), {"x": 2}, context)
    record = context.serialize_task_records()["a"]
    assert (record["state"], record["inputs"], record["output"]) == ("SUCCEEDED", {"x": 2}, 4)
    assert record["ended_at"] - record["started_at"] == pytest.approx(record["duration_ms"] / 1000)
    assert context.status is RunStatus.COMPLETED
    assert context.end_time is not None
    assert context.flow_name == "submitted name"
    assert outcome.context.run_context is context
