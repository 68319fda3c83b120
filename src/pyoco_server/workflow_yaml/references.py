"""Every name of a graph has something behind it: tasks, pipes, names of nodes.

Pipes are measured once each, so that a few lines that multiply into millions are refused without ever being
written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyoco_server.workflow_yaml.graph import NESTING_MAX, Tell
from pyoco_server.workflow_yaml.problems import quoted
from pyoco_server.workflow_yaml.terms import Pipeline, PipeTerm, TaskTerm, Term, bodies

TERMS_MAX = 4096  # of a graph with its pipes written out, as pyoco has it

_TOO_LARGE = f"With its pipes written out the graph has more than {TERMS_MAX} terms."
_TOO_DEEP = f"Blocks and pipes are nested deeper than {NESTING_MAX} levels."


@dataclass(frozen=True, slots=True)
class Measure:
    """Of a pipeline with everything written out."""

    terms: int
    height: int
    has_blocks: bool


_NOTHING = Measure(0, 0, False)
_ONE_TASK = Measure(1, 0, False)
_TOO_HIGH = Measure(1, NESTING_MAX, True)  # of what is not looked into, because it lies too deep


def check_references(
    graph: Pipeline, pipes: Mapping[str, Pipeline | None], tasks: frozenset[str], tell: Tell, at: int
) -> None:
    """Tells all that is wrong. `pipes`: None for one that cannot be read; `at`: where the graph stands."""
    checker = _Checker(pipes, tasks, tell)
    measure = checker.measured(graph, 0)
    if checker.is_broken:
        return
    if measure.terms > TERMS_MAX or measure.height > NESTING_MAX:
        tell("graph_too_large", _TOO_LARGE if measure.terms > TERMS_MAX else _TOO_DEEP, at)
    else:
        checker.check_nodes(graph, is_chain=not measure.has_blocks)


class _Checker:
    def __init__(self, pipes: Mapping[str, Pipeline | None], tasks: frozenset[str], tell: Tell) -> None:
        self._pipes = pipes
        self._tasks = tasks
        self._tell = tell
        self._measures: dict[str, Measure] = {}
        self._inside: list[str] = []  # of which pipes we are
        self.is_broken = False  # there is something that cannot be written out

    def measured(self, pipeline: Pipeline, depth: int) -> Measure:
        measures = [self._measured_term(term, depth) for term in pipeline.terms]
        return Measure(
            sum(one.terms for one in measures),
            max(one.height for one in measures),
            any(one.has_blocks for one in measures),
        )

    def check_nodes(self, graph: Pipeline, *, is_chain: bool) -> None:
        """No two nodes have one name, unless they are one task at two steps of a program."""
        seen: dict[str, TaskTerm] = {}
        for term in self._written_out(graph):
            name = term.node or term.task
            before = seen.get(name)
            if before is None:
                seen[name] = term
            elif term.node or before.node:
                self._tell("duplicate_node", f"Two nodes are called {quoted(name)}; rename one.", term.at)
            elif is_chain:
                sentence = f"{quoted(name)} stands in the chain twice; give one a name, as in again: task."
                self._tell("duplicate_node", sentence, term.at)

    def _measured_term(self, term: Term, depth: int) -> Measure:
        match term:
            case TaskTerm():
                self._check_task(term)
                return _ONE_TASK
            case PipeTerm():
                inner = self._measured_pipe(term, depth)
                return Measure(inner.terms, 1 + inner.height, inner.has_blocks)
            case _ if depth >= NESTING_MAX:
                return _TOO_HIGH
            case _:
                inside = [self.measured(body, depth + 1) for body in bodies(term)]
                height = max((one.height for one in inside), default=0)
                return Measure(1 + sum(one.terms for one in inside), 1 + height, True)

    def _measured_pipe(self, term: PipeTerm, depth: int) -> Measure:
        name = term.pipe
        if name in self._measures:
            return self._measures[name]
        pipeline = self._pipes.get(name)
        if name not in self._pipes:
            self._break("unknown_pipe", f"There is no {quoted(name)} in pipes.", term)
        elif name in self._inside:
            self._break("cyclic_pipe", f"The pipe {quoted(name)} contains itself.", term)
        elif depth >= NESTING_MAX:
            self._break("graph_too_large", _TOO_DEEP, term)
        elif pipeline is None:
            self.is_broken = True  # its own problem was told
        else:
            self._inside.append(name)
            self._measures[name] = self.measured(pipeline, depth + 1)
            self._inside.pop()
        return self._measures.get(name, _NOTHING)

    def _check_task(self, term: TaskTerm) -> None:
        if term.task not in self._tasks:
            sentence = f"There is no {quoted(term.task)} in tasks; define it there, or correct the name."
            self._tell("unknown_task", sentence, term.at)

    def _break(self, kind: str, msg: str, term: PipeTerm) -> None:
        self.is_broken = True
        self._tell(kind, msg, term.at)

    def _written_out(self, pipeline: Pipeline) -> Iterator[TaskTerm]:
        for term in pipeline.terms:
            match term:
                case TaskTerm():
                    yield term
                case PipeTerm():
                    inner = self._pipes[term.pipe]
                    assert inner is not None, "it was measured"
                    yield from self._written_out(inner)
                case _:
                    for body in bodies(term):
                        yield from self._written_out(body)
