"""Where inputs and expressions of a flow may lead: to data of the run, never into Python."""

import dataclasses
from typing import Any

import pytest
from pyoco.core.context import Context
from pyoco.core.models import Flow, Task
from pyoco.dsl.syntax import TaskWrapper, switch

from pyoco_server.engine import Engine, OutcomeStatus, RunOutcome
from tests.engine.building import flow_of, make_task

SECRET = "hunter2"


@dataclasses.dataclass
class Tool:
    price: int = 7


def wrapped(name: str, result: Any = None) -> TaskWrapper:
    return TaskWrapper(Task(func=lambda: result, name=name))


def branched(expression: str, first: Any = None, **params: Any) -> RunOutcome:
    """`first`, then in a loop `hit` when the expression is true, else `miss`."""
    ways: Any = switch(expression)[True >> wrapped("hit"), "*" >> wrapped("miss")]
    return Engine().run(Flow("x") >> wrapped("first", first) >> ways[1], params)


def given_to_a_task(reference: str, first: Any = None, **params: Any) -> RunOutcome:
    def show(value: Any) -> str:
        return f"given {value}"

    one = make_task("first", lambda: first)
    two = make_task("show", show, needs=[one], inputs={"value": reference})
    return Engine().run(flow_of(one, two), params)


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_NATS_PASSWORD", SECRET)
    monkeypatch.setenv("pyoco_auth_pepper", SECRET)
    monkeypatch.setenv("REGION", "eu")


@pytest.mark.parametrize(
    "path",
    [
        "loop.__class__.__init__.__globals__.threading._os.environ.PYOCO_NATS_PASSWORD",
        "results.first.__class__.__init__.__globals__",
        "loops.0.__class__",
        "params.__class__",
        "_anything",
    ],
)
def test_an_expression_does_not_walk_attributes(path: str) -> None:
    outcome = branched(f"$ctx.{path} >= 'b'", Tool())
    assert outcome.status is OutcomeStatus.FAILED
    assert "No part of a path may begin with _" in (outcome.error or "")
    assert "hit" not in outcome.results


@pytest.mark.parametrize("path", ["results.first.price", "loop.push", "params.items"])
def test_public_attributes_are_not_there_either(path: str) -> None:
    outcome = branched(f"$ctx.{path} == 7", Tool())
    assert outcome.error == f"Failed to evaluate expression '$ctx.{path} == 7': $ctx.{path} not found."


@pytest.mark.parametrize("name", ["PYOCO_NATS_PASSWORD", "pyoco_auth_pepper"])
def test_settings_of_the_server_are_not_in_the_environment_of_a_flow(name: str) -> None:
    for outcome in (branched(f"$env.{name} == '{SECRET}'"), given_to_a_task(f"$env.{name}")):
        assert outcome.status is OutcomeStatus.FAILED
        assert "Variables that begin with PYOCO_ are the server's own" in (outcome.error or "")


def test_an_input_does_not_walk_attributes() -> None:
    refused = given_to_a_task("$node.first.output.__class__.__init__.__globals__", Tool())
    assert "No part of a path may begin with _" in (refused.error or "")
    missing = given_to_a_task("$node.first.output.price", Tool())
    assert "$node.first.output.price not found" in (missing.error or "")


def test_inputs_and_expressions_reach_mappings_lists_and_what_is_documented_of_a_loop() -> None:
    rows = {"rows": [{"price": 5}]}
    assert given_to_a_task("$node.first.output.rows.0.price", rows).results["show"] == "given 5"
    assert given_to_a_task("$env.REGION").results["show"] == "given eu"
    for expression in (
        "$ctx.results.first.rows.0.price == 5",
        "$ctx.loop.index == 0 and $ctx.loop.iteration == 1 and $ctx.loop.count == 1",
        "$ctx.loop.name == 'repeat' and $ctx.loop.type == 'repeat' and $ctx.loops.0.path == 'repeat[0]'",
        "not $ctx.loop.item and not $ctx.loop.condition",
        "$env.REGION == 'eu'",
    ):
        assert "hit" in branched(expression, rows).results, expression


def test_a_task_that_asks_its_context_gets_the_same_answer() -> None:
    def ask(ctx: Context) -> Any:
        return ctx.resolve("$env.PYOCO_NATS_PASSWORD")

    outcome = Engine().run(flow_of(make_task("ask", ask)))
    assert "Variables that begin with PYOCO_ are the server's own" in (outcome.error or "")


def test_operators_do_not_ask_objects_of_tasks() -> None:
    for expression in ("$ctx.results.first == 7", "'%s' % $ctx.results.first == ''"):
        outcome = branched(expression, Tool())
        assert "An operator takes text, numbers" in (outcome.error or "")
    assert "% does not format text" in (branched("'%9d' % 5 == $ctx.params.x", x=1).error or "")


def test_an_expression_that_would_cost_too_much_fails_the_run() -> None:
    for expression in ("'Y' * 10**9 == $ctx.params.x", "9**9**9 > $ctx.params.x"):
        outcome = branched(expression, x=1)
        assert outcome.status is OutcomeStatus.FAILED
        assert "do it in a task" in (outcome.error or "")


class Undecided:
    def __bool__(self) -> bool:
        raise ValueError("neither true nor false")

    def __eq__(self, other: object) -> bool:
        raise ValueError("not to be compared")

    __hash__ = object.__hash__


def test_a_result_that_is_neither_true_nor_equal_to_anything_fails_the_run_and_not_the_engine() -> None:
    step = wrapped("step", Undecided())
    until = Engine().run(Flow("x") >> step % "$ctx.results.step")
    assert (until.status, until.error) == (OutcomeStatus.FAILED, "neither true nor false")
    assert branched("$ctx.results.first", Undecided()).error == "not to be compared"
