"""A checked workflow into a pyoco `Flow`. Only tasks that the graph names are loaded."""

from __future__ import annotations

from copy import deepcopy
from typing import assert_never

from pyoco.core.models import Flow, Task
from pyoco.dsl import nodes as n
from pyoco.dsl.expressions import Expression, ensure_expression
from pyoco.dsl.syntax import FlowFragment

from pyoco_server.worker.yaml.callables import Callables
from pyoco_server.worker.yaml.environment import Readable
from pyoco_server.worker.yaml.plugins import Plugins
from pyoco_server.workflow_yaml import model as t


def build_flow(
    name: str, config: t.WorkflowConfig, callables: Callables, plugins: Plugins, readable: Readable
) -> Flow:
    """Raises CodeMissing or CodeRefused, naming what to change."""
    assert config.flow is not None, "a workflow without a flow is refused when it is read"
    tasks = _Tasks(config, callables, plugins, readable)
    steps = _Compiler(config, tasks, readable).steps(config.flow.pipeline)
    flow: Flow = Flow(name=name) >> FlowFragment(steps)
    return flow


class _Tasks:
    """The tasks of a workflow by their names in it, each made at its first use."""

    def __init__(
        self, config: t.WorkflowConfig, callables: Callables, plugins: Plugins, readable: Readable
    ) -> None:
        self._readable = readable
        self._config = config.tasks
        self._order = {name: number for number, name in enumerate(config.tasks)}
        self._callables = callables
        self._plugins = plugins
        self._made: dict[str, Task] = {}

    def get(self, name: str) -> Task:
        if name not in self._made:
            self._made[name] = self._make(name, self._config[name])
        return self._made[name]

    def _make(self, name: str, wanted: t.TaskConfig) -> Task:
        for value in wanted.inputs.values():
            self._readable.check_input(value)
        if wanted.callable is not None:
            task = Task(func=self._callables.get(wanted.callable), name=name)
        else:
            task = copy_task(self._find_used(name, wanted.use or name), name)
        task.inputs.update(deepcopy(dict(wanted.inputs)))
        task.outputs.extend(wanted.outputs)
        return task

    def _find_used(self, name: str, target: str) -> Task:
        """Another task of the file, if it refers to no later task; otherwise a plug-in."""
        other = self._config.get(target)
        if other is None or target == name or (other.use and self._order[target] > self._order[name]):
            return self._plugins.get(target)
        return self.get(target)


class _Compiler:
    def __init__(self, config: t.WorkflowConfig, tasks: _Tasks, readable: Readable) -> None:
        self._pipelines = config.pipelines
        self._tasks = tasks
        self._readable = readable

    def steps(self, pipeline: t.Pipeline) -> list[n.DSLNode]:
        return [step for term in pipeline.terms for step in self._of(term)]

    def _of(self, term: t.Term) -> list[n.DSLNode]:
        match term:
            case t.TaskTerm():
                return [n.TaskNode(self._task(term))]
            case t.PipeTerm():
                return self.steps(self._pipelines[term.pipe])
            case t.SwitchTerm():
                return [n.SwitchNode(self._expression(term.on), [self._case(case) for case in term.cases])]
            case t.RepeatTerm():
                count = term.count if isinstance(term.count, int) else self._expression(term.count)
                return [n.RepeatNode(self._body(term.body), count, term.collect)]
            case t.ForEachTerm():
                over = self._expression(term.over)
                return [n.ForEachNode(self._body(term.body), over, term.item, term.index, term.collect)]
            case t.UntilTerm():
                cond = self._expression(term.cond)
                return [n.UntilNode(self._body(term.body), cond, term.max_iter, term.collect)]
            case _:
                assert_never(term)

    def _expression(self, expression: t.Expression) -> Expression:
        self._readable.check_expression(expression.source)
        return ensure_expression(expression.source)

    def _task(self, term: t.TaskTerm) -> Task:
        """A node with its own name is a separate task."""
        task = self._tasks.get(term.task)
        return copy_task(task, term.node) if term.node else task

    def _case(self, case: t.Case) -> n.CaseNode:
        value = n.DEFAULT_CASE_VALUE if case.value is None else case.value
        return n.CaseNode(value=value, target=self._body(case.body))

    def _body(self, pipeline: t.Pipeline) -> n.SubFlowNode:
        return n.SubFlowNode(self.steps(pipeline))


def copy_task(task: Task, name: str) -> Task:
    """A copy with the settings of the task and without its edges."""
    return Task(
        func=task.func,
        name=name,
        inputs=deepcopy(task.inputs),
        outputs=list(task.outputs),
        parallel_group=task.parallel_group,
        fail_policy=task.fail_policy,
        retries=task.retries,
        timeout_sec=task.timeout_sec,
        trigger_policy=task.trigger_policy,
    )
