"""A workflow becomes the flow that pyoco would make of it; what it names is found the way pyoco finds it."""

from __future__ import annotations

import functools
import os
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from pyoco.core.models import Flow, Task
from pyoco.dsl.graph import build_flow_from_graph

from pyoco_server import approval
from pyoco_server.engine import Engine, OutcomeStatus
from pyoco_server.worker.attempt.reasons import CodeMissing, CodeRefused
from pyoco_server.worker.flows.source import FlowSource
from pyoco_server.worker.yaml.building import build_flow
from pyoco_server.worker.yaml.callables import Callables, modules_of
from pyoco_server.worker.yaml.environment import Readable
from pyoco_server.worker.yaml.plugins import Plugins
from pyoco_server.workflow_yaml import WorkflowYamlValidationError, parse_workflow_yaml_bytes
from tests.workflow_yaml.test_graph import GRAPHS

RELEASE = approval("release", prompt={"question": "Deploy it?"})
NAMES = ("a", "b", "load", "_x1", "pipe", "switch", "default", "いろ")
PIPES = {"a": "load >> deep: b", "b": "repeat(count=2){ a }", "load": "pipe(b)"}


class Everything(Plugins):
    """Knows every name."""

    def get(self, name: str) -> Task:
        return Task(func=lambda: name, name=name, inputs={"of": name})


def built(graph: str, tasks: dict[str, Any], plugins: Plugins | None = None) -> Flow:
    text = _yaml({"flow": {"graph": graph}, "tasks": tasks, "pipes": PIPES})
    config = parse_workflow_yaml_bytes(text).config
    return build_flow("x", config, Callables(["tests"]), plugins or Everything(), Readable([]))


@settings(deadline=None)
@given(GRAPHS)
def test_a_flow_is_the_one_that_pyoco_builds(graph: str) -> None:
    try:
        ours = built(graph, {name: {} for name in NAMES})
    except WorkflowYamlValidationError:
        assume(False)
    tasks = {name: Task(func=lambda: None, name=name, inputs={"of": name}) for name in NAMES}
    theirs = build_flow_from_graph(graph=graph, tasks=tasks, pipes=PIPES)
    assert _program(ours) == _program(theirs)
    assert ours.has_control_flow() == theirs.has_control_flow()
    assert _edges(ours) == _edges(theirs) or ours.has_control_flow()
    assert {task.name: task.inputs for task in ours.tasks} == {
        task.name: task.inputs for task in theirs.tasks
    }


def test_a_task_is_shared_by_no_two_flows() -> None:
    registered = Task(func=lambda: 1, name="a")

    class One(Plugins):
        def get(self, name: str) -> Task:
            return registered

    first, second = (built("a >> b", {"a": {}, "b": {"use": "a"}}, One()) for _ in range(2))
    made = [task for flow in (first, second) for task in flow.tasks]
    assert len({id(task) for task in made}) == 4
    assert registered.dependents == set()
    assert registered.inputs == {}


def test_what_a_task_uses_is_of_the_file_if_it_stands_there_before() -> None:
    tasks = {
        "early": {"use": "later", "inputs": {"x": 1}},
        "later": {"use": "plugged", "inputs": {"y": 2}},
        "same": {"use": "same"},
        "again": {"use": "later"},
    }
    made = {task.name: task.inputs for task in built("early >> later >> same >> again", tasks).tasks}
    assert made == {
        "early": {"of": "later", "x": 1},
        "later": {"of": "plugged", "y": 2},
        "same": {"of": "same"},
        "again": {"of": "plugged", "y": 2},
    }


def test_unused_tasks_are_not_even_looked_up() -> None:
    tasks = {"a": {}, "unused": {"callable": "os:system"}, "too": {"use": "nothing"}}
    assert {task.name for task in built("a", tasks).tasks} == {"a"}
    with pytest.raises(CodeRefused):
        built("a >> unused", tasks)


def test_an_installation_without_plug_ins_says_what_to_install() -> None:
    with pytest.raises(CodeMissing, match="No plug-in on this worker registers a task 'demo/nothing'"):
        Plugins().get("demo/nothing")


def resolver(name: str) -> Flow:
    raise KeyError(name)


class Resolver:
    def __call__(self, name: str) -> Flow:
        raise KeyError(name)


def test_the_modules_of_a_resolver_are_its_own_and_never_the_standard_library() -> None:
    here = {__name__}
    assert modules_of(resolver) == here
    assert modules_of(Resolver()) == here
    assert modules_of(functools.partial(functools.partial(resolver), name="x")) == here
    assert modules_of(lambda name: resolver(name)) == here
    assert modules_of(resolver, "my.flows:resolve") == {*here, "my.flows"}
    assert modules_of(resolver, "flows/my_flows.py:resolve") == here
    assert modules_of(os.getenv) == frozenset()
    assert modules_of(functools.lru_cache(resolver)) == here


def test_packages_are_matched_at_a_dot() -> None:
    source = FlowSource(resolver)
    text = "flow: {graph: a}\ntasks: {a: {callable: 'pyoco_server.ids:new_uuid'}}"
    assert {task.name for task in source.flow("x", text, ["pyoco_server"], []).tasks} == {"a"}
    for packages in ([], ["pyoco"], ["pyoco_server.id"], ["pyoco_server.ids.new_uuid"]):
        with pytest.raises(CodeRefused):
            source.flow("x", text, packages, [])


def test_a_run_without_a_text_is_the_resolvers() -> None:
    with pytest.raises(KeyError):
        FlowSource(resolver).flow("x", None, [], [])


def test_half_a_character_in_a_text_is_refused_and_nothing_worse() -> None:
    with pytest.raises(CodeRefused):
        FlowSource(resolver).flow("x", "flow: \ud800", [], [])


def _program(flow: Any) -> str:
    return repr(flow.build_program())


def _edges(flow: Flow) -> dict[str, set[str]]:
    return {task.name: {other.name for other in task.dependencies} for task in flow.tasks}


def _yaml(value: Any) -> bytes:
    return yaml.safe_dump(value, allow_unicode=True, sort_keys=False).encode()


def test_a_callable_may_name_a_wait_and_its_inputs_are_asked() -> None:
    flow = built("asks", {"asks": {"callable": f"{__name__}:RELEASE", "inputs": {"who": "$ctx.params.team"}}})
    outcome = Engine().run(flow, {"team": "shop"})
    assert (outcome.status, outcome.waiting) == (OutcomeStatus.PARKED, ("asks",))
    assert outcome.context.run_context is not None
    record = outcome.context.run_context.task_records["asks"]
    assert record.inputs == {"question": "Deploy it?", "who": "shop"}


def test_a_workflow_may_describe_the_answer_of_a_wait() -> None:
    schema = {
        "type": "object",
        "properties": {"stage": {"$ref": "#/$defs/S"}},
        "$defs": {"S": {"enum": ["a"]}},
    }
    flow = built("asks", {"asks": {"callable": f"{__name__}:RELEASE", "inputs": {"answer_schema": schema}}})
    outcome = Engine().run(flow, {})
    assert outcome.context.run_context is not None
    record = outcome.context.run_context.task_records["asks"]
    assert record.inputs == {"question": "Deploy it?", "answer_schema": schema}


def test_a_wait_of_a_module_that_is_not_open_is_refused() -> None:
    with pytest.raises(CodeRefused):
        Callables(["elsewhere"]).get(f"{__name__}:RELEASE")
