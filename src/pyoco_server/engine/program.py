"""Walk a flow with switch, repeat, foreach and until, one task after the other. Owns what those mean.

The meaning is pyoco's: any failure ends the run, whatever the task's fail policy says.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyoco.core.context import Context, LoopFrame
from pyoco.core.exceptions import SwitchNoMatch, UntilMaxIterationsExceeded
from pyoco.core.models import Task
from pyoco.dsl.expressions import Expression
from pyoco.dsl.nodes import (
    DEFAULT_CASE_VALUE,
    DSLNode,
    ForEachNode,
    RepeatNode,
    SubFlowNode,
    SwitchNode,
    TaskNode,
    UntilNode,
)

from pyoco_server.engine.failure import describe
from pyoco_server.engine.news import Failed, Released
from pyoco_server.engine.outcome import Ending, Halt, Status
from pyoco_server.engine.plan import PlanError, TaskSpec
from pyoco_server.engine.program_tasks import executed_at_most_once
from pyoco_server.engine.supervisor import Supervisor

UNTIL_ITERATIONS_MAX = 1000  # pyoco's bound for a loop that names none


class ProgramWalk:
    """Ends when the last step has succeeded; raises `Halt` for any other ending."""

    def __init__(self, ctx: Context, supervisor: Supervisor) -> None:
        self._ctx = ctx
        self._supervisor = supervisor
        self._reusable: Mapping[str, Any] = {}
        self._awaits_release = False  # the last task's success is not acknowledged yet

    def run(self, program: SubFlowNode, recorded: Mapping[str, Any]) -> None:
        once = executed_at_most_once(program)
        self._reusable = {name: output for name, output in recorded.items() if name in once}
        self._steps(program)

    def _steps(self, body: SubFlowNode) -> None:
        for node in body.steps:
            self._supervisor.halt_if_cancelled()
            self._step(node)

    def _step(self, node: DSLNode) -> None:
        match node:
            case TaskNode():
                self._task(node.task)
            case RepeatNode():
                self._repeat(node)
            case ForEachNode():
                self._foreach(node)
            case UntilNode():
                self._until(node)
            case SwitchNode():
                self._switch(node)
            case _:
                raise _failed(TypeError(f"Unknown node type: {type(node)}"))

    def _task(self, task: Task) -> None:
        spec = _spec(task)
        if spec.name in self._reusable:
            self._supervisor.take_recorded(spec, self._reusable[spec.name])
            return
        if self._awaits_release:
            released = self._supervisor.next()
            assert isinstance(released, Released), "one task at a time: nothing else can be under way"
        self._supervisor.start(spec)
        news = self._supervisor.next()
        if isinstance(news, Failed):
            raise Halt(Ending(Status.FAILED, news.failure.error, spec.name, news.failure.traceback))
        self._awaits_release = True

    def _repeat(self, node: RepeatNode) -> None:
        count = self._value(node.count)
        if not isinstance(count, int):
            raise _failed(TypeError("Repeat count must evaluate to an integer."))
        if count < 0:
            raise _failed(ValueError("Repeat count cannot be negative."))
        for index in range(count):
            with self._loop(LoopFrame("repeat", "repeat", index, index + 1, count)):
                self._steps(node.body)

    def _foreach(self, node: ForEachNode) -> None:
        items = self._value(node.source)
        if not isinstance(items, list | tuple):
            raise _failed(TypeError("ForEach source must evaluate to a list or tuple."))
        label = f"foreach:{node.alias or node.source.source}"
        for index, item in enumerate(items):
            names = {node.alias: item, node.index_alias: index}
            frame = LoopFrame(label, "foreach", index, index + 1, len(items), item)
            with self._loop(frame), self._variables({name: v for name, v in names.items() if name}):
                self._steps(node.body)

    def _until(self, node: UntilNode) -> None:
        iterations_max = node.max_iter or UNTIL_ITERATIONS_MAX
        is_met: bool | None = None
        for index in range(iterations_max):
            frame = LoopFrame("until", "until", index, index + 1, iterations_max, condition=is_met)
            with self._loop(frame):
                self._steps(node.body)
                is_met = bool(self._value(node.condition))
            if is_met:
                return
        raise _failed(UntilMaxIterationsExceeded(node.condition.source, iterations_max))

    def _switch(self, node: SwitchNode) -> None:
        value = self._value(node.expression)
        targets = [case.target for case in node.cases if case.value == value != DEFAULT_CASE_VALUE]
        targets += [case.target for case in node.cases if case.value == DEFAULT_CASE_VALUE]
        if not targets:
            raise _failed(SwitchNoMatch(node.expression.source))
        self._steps(targets[0])

    @contextmanager
    def _loop(self, frame: LoopFrame) -> Iterator[None]:
        self._supervisor.halt_if_cancelled()
        self._ctx.push_loop(frame)
        try:
            yield
        finally:
            self._ctx.pop_loop()

    @contextmanager
    def _variables(self, variables: Mapping[str, Any]) -> Iterator[None]:
        for name, value in variables.items():
            self._ctx.set_var(name, value)
        try:
            yield
        finally:
            for name in variables:
                self._ctx.clear_var(name)

    def _value(self, expression: Any) -> Any:
        if not isinstance(expression, Expression):
            return expression
        try:
            return expression.evaluate(ctx=self._ctx.expression_data(), env=self._ctx.env_data())
        except (
            Exception
        ) as exc:  # expressions are the author's code: their errors end the run, not the engine
            raise _failed(exc) from exc


def _spec(task: Task) -> TaskSpec:
    try:
        return TaskSpec.of(task)
    except PlanError as error:
        raise _failed(error) from error


def _failed(exc: Exception) -> Halt:
    failure = describe(exc)
    return Halt(Ending(Status.FAILED, failure.error, traceback=failure.traceback))
