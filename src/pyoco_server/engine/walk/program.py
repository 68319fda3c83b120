"""Walk a flow with switch, repeat, foreach and until, one task after the other. Owns what those mean.

The meaning is pyoco's: any failure ends the run, with every fail policy of the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pyoco.core.context import Context, LoopFrame
from pyoco.core.exceptions import SwitchNoMatch, UntilMaxIterationsExceeded
from pyoco.dsl.expressions import Expression, ExpressionEvaluationError
from pyoco.dsl.nodes import (
    DEFAULT_CASE_VALUE,
    DSLNode,
    ForEachNode,
    RepeatNode,
    SubFlowNode,
    SwitchNode,
    UntilNode,
)

from pyoco_server import clock
from pyoco_server.engine.limits import Checkpoints
from pyoco_server.engine.outcome import Ending, Halt, OutcomeStatus
from pyoco_server.engine.reporter import Reporter
from pyoco_server.engine.tasks.attempt import TaskAttempt
from pyoco_server.engine.tasks.failure import Failure, describe, try_call
from pyoco_server.engine.tasks.references import value_of
from pyoco_server.engine.walk.in_flight import AttemptFailed, AttemptSucceeded, Released
from pyoco_server.engine.walk.plan import TaskSpec
from pyoco_server.engine.walk.program_index import Labels, Program, ProgramPosition
from pyoco_server.engine.walk.scheduler import Scheduler

UNTIL_ITERATIONS_MAX = 1000  # pyoco's limit for a loop without one


class ProgramWalk:
    """Ends when the last step has succeeded; raises `Halt` for any other ending."""

    def __init__(self, program: Program, ctx: Context, scheduler: Scheduler, reporter: Reporter) -> None:
        self._program = program
        self._ctx = ctx
        self._scheduler = scheduler
        self._reporter = reporter
        self._labels = Labels(program.names)
        self._indexes = ""  # of the current loops, outermost first: "[0][2]"
        self._unreleased = 0  # successes that are not acknowledged yet

    @property
    def names(self) -> tuple[str, ...]:
        return self._program.names

    @property
    def last(self) -> tuple[str, ...]:
        return ()  # not known before the walk

    @property
    def needs(self) -> dict[str, tuple[str, ...]]:
        return {}  # its steps follow each other

    @property
    def any_of(self) -> tuple[str, ...]:
        return ()

    def run(self, checkpoints: Checkpoints) -> None:
        self._recorded = checkpoints.results
        self._failures = checkpoints.failures
        self._looped = _LoopedTasks(self._scheduler, self._reporter, checkpoints.results)
        self._steps(self._program.body)

    def _steps(self, body: SubFlowNode) -> None:
        for node in body.steps:
            self._scheduler.halt_if_due()
            self._step(node)

    def _step(self, node: DSLNode) -> None:
        match node:
            case ProgramPosition():
                self._task(node)
            case RepeatNode() | ForEachNode() | UntilNode():
                self._loop(node)
            case SwitchNode():
                self._switch(node)
            case _:
                raise _failed(TypeError(f"Unknown node type: {type(node)}"))

    def _task(self, position: ProgramPosition) -> None:
        label = self._labels.of(position)
        name = label + self._indexes
        aggregate = self._looped.reach(position.spec, label) if position.is_looped else None
        if name in self._recorded:
            output = self._recorded[name]
            self._scheduler.take_recorded(position.spec, name, output)
        elif position.spec.wait is not None and name in self._failures:
            failure = Failure(self._failures[name])
            self._reporter.report_recorded_failure(name, failure)
            raise self._fail(name, aggregate, failure)
        else:
            output = self._execute(position.spec, name, aggregate)
        if aggregate is not None:
            aggregate.last, aggregate.output = name, output

    def _execute(self, spec: TaskSpec, name: str, aggregate: _Aggregate | None) -> object:
        self._await_releases()
        if aggregate is not None:
            self._looped.start(aggregate)
        self._scheduler.start(spec, name)
        signal = self._scheduler.next()
        if isinstance(signal, AttemptFailed):
            raise self._fail(name, aggregate, signal.failure)
        assert isinstance(signal, AttemptSucceeded), "one task at a time: nothing else is in flight"
        self._unreleased = 1
        return signal.output

    def _fail(self, name: str, aggregate: _Aggregate | None, failure: Failure) -> Halt:
        if aggregate is not None:
            self._looped.fail(aggregate, failure)
        return Halt(Ending(OutcomeStatus.FAILED, failure.error, name, failure.traceback, failure))

    def _await_releases(self) -> None:
        for _ in range(self._unreleased):
            released = self._scheduler.next()
            assert isinstance(released, Released), "one task at a time: nothing else is in flight"
        self._unreleased = 0

    def _loop(self, node: RepeatNode | ForEachNode | UntilNode) -> None:
        match node:
            case RepeatNode():
                self._repeat(node)
            case ForEachNode():
                self._foreach(node)
            case UntilNode():
                self._until(node)
        if not self._indexes:  # it was the outermost loop
            self._unreleased += self._looped.end()

    def _repeat(self, node: RepeatNode) -> None:
        count = self._value(node.count)
        if not isinstance(count, int):
            raise _failed(TypeError("Repeat count must evaluate to an integer."))
        if count < 0:
            raise _failed(ValueError("Repeat count cannot be negative."))
        for index in range(count):
            with self._iteration(LoopFrame("repeat", "repeat", index, index + 1, count)):
                self._steps(node.body)

    def _foreach(self, node: ForEachNode) -> None:
        items = self._value(node.source)
        if not isinstance(items, list | tuple):
            raise _failed(TypeError("ForEach source must evaluate to a list or tuple."))
        label = f"foreach:{node.alias or node.source.source}"
        for index, item in enumerate(items):
            names = {node.alias: item, node.index_alias: index}
            frame = LoopFrame(label, "foreach", index, index + 1, len(items), item)
            with self._iteration(frame), self._variables({name: v for name, v in names.items() if name}):
                self._steps(node.body)

    def _until(self, node: UntilNode) -> None:
        iterations_max = node.max_iter or UNTIL_ITERATIONS_MAX
        is_met: bool | None = None
        for index in range(iterations_max):
            frame = LoopFrame("until", "until", index, index + 1, iterations_max, condition=is_met)
            with self._iteration(frame):
                self._steps(node.body)
                is_met = self._is_true(node.condition)
            if is_met:
                return
        raise _failed(UntilMaxIterationsExceeded(node.condition.source, iterations_max))

    def _switch(self, node: SwitchNode) -> None:
        value = self._value(node.expression)
        targets = [case.target for case in node.cases if self._is_case(case.value, value)]
        targets += [case.target for case in node.cases if case.value == DEFAULT_CASE_VALUE]
        if not targets:
            raise _failed(SwitchNoMatch(node.expression.source))
        self._steps(targets[0])

    @contextmanager
    def _iteration(self, frame: LoopFrame) -> Iterator[None]:
        self._scheduler.halt_if_due()
        outside, self._indexes = self._indexes, f"{self._indexes}[{frame.index}]"
        self._ctx.push_loop(frame)
        try:
            yield
        finally:
            self._ctx.pop_loop()
            self._indexes = outside

    @contextmanager
    def _variables(self, variables: Mapping[str, object]) -> Iterator[None]:
        for name, value in variables.items():
            self._ctx.set_var(name, value)
        try:
            yield
        finally:
            for name in variables:
                self._ctx.clear_var(name)

    def _is_true(self, condition: object) -> bool:
        value = self._value(condition)
        return _truth(bool, value)

    def _is_case(self, wanted: object, value: object) -> bool:
        return _truth(lambda: bool(wanted == value != DEFAULT_CASE_VALUE))

    def _value(self, expression: object) -> object:
        if not isinstance(expression, Expression):
            return expression
        try:
            return value_of(self._ctx, expression.source)
        except ExpressionEvaluationError as exc:
            raise _failed(exc) from exc


def _truth(make: Callable[..., bool], *args: object) -> bool:
    # __eq__ and __bool__ of a result may raise, as those of an array do.
    value = try_call(make, *args, on_error=_failed)
    if isinstance(value, Halt):
        raise value
    return value


def _failed(exc: BaseException) -> Halt:
    failure = describe(exc)
    return Halt(Ending(OutcomeStatus.FAILED, failure.error, traceback=failure.traceback, cause=failure))


@dataclass(slots=True)
class _Aggregate:
    """All iterations of a task at one position, until the outermost loop around it has ended."""

    attempt: TaskAttempt
    is_known: bool  # an earlier claim of the run has reported it
    is_started: bool = False
    last: str = ""  # the record name of the last iteration
    output: object = None  # of the last iteration


class _LoopedTasks:
    """The tasks of the current outermost loop, in the order in which they were reached.

    The aggregate record of each stands beside those of its iterations. It starts when the loop first reaches
    the task, and succeeds once, when the loop has ended: with the output of the last iteration, which is also
    the task's entry in pyoco's `results`.
    """

    def __init__(self, scheduler: Scheduler, reporter: Reporter, recorded: Mapping[str, object]) -> None:
        self._scheduler = scheduler
        self._reporter = reporter
        self._recorded = recorded
        self._aggregates: dict[str, _Aggregate] = {}

    def reach(self, spec: TaskSpec, label: str) -> _Aggregate:
        aggregate = self._aggregates.get(label)
        if aggregate is None:
            attempt = TaskAttempt(spec, label, number=1, started_at=clock.now())
            aggregate = self._aggregates[label] = _Aggregate(attempt, label in self._recorded)
            if aggregate.is_known:
                self._reporter.report_recorded(label, self._recorded[label])
        return aggregate

    def start(self, aggregate: _Aggregate) -> None:
        """An iteration is about to be executed."""
        if not aggregate.is_started and not aggregate.is_known:
            aggregate.is_started = True
            self._reporter.report_started(aggregate.attempt, {})

    def fail(self, aggregate: _Aggregate, failure: Failure) -> None:
        """An iteration has failed and is not retried."""
        if not aggregate.is_known:
            self._reporter.report_failed(aggregate.attempt, failure, clock.now())

    def end(self) -> int:
        """The outermost loop has ended. Returns how many successes will be acknowledged."""
        reported = [aggregate for aggregate in self._aggregates.values() if not aggregate.is_known]
        for aggregate in reported:
            self.start(aggregate)  # not started yet, if all iterations are from an earlier claim
            self._reporter.copy_inputs(aggregate.attempt.name, of=aggregate.last)
            self._scheduler.conclude(aggregate.attempt, aggregate.output)
        self._aggregates = {}
        return len(reported)
