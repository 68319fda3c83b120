"""Checks that every name of a graph is defined: tasks, pipes, names of nodes.

Each pipe is measured once, so that a few lines that would expand to millions of terms are refused without
being expanded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyoco_server.workflow_yaml.graph import NESTING_MAX, Report
from pyoco_server.workflow_yaml.model import Pipeline, PipeTerm, TaskTerm, Term, bodies
from pyoco_server.workflow_yaml.problems import quoted

TERMS_MAX = 4096  # of a graph with its pipes expanded, as pyoco stores it

_TOO_LARGE = f"With its pipes written out the graph has more than {TERMS_MAX} terms."
_TOO_DEEP = f"Blocks and pipes are nested deeper than {NESTING_MAX} levels."


@dataclass(frozen=True, slots=True)
class Measure:
    """The size of a pipeline with all pipes expanded."""

    terms: int
    height: int
    has_blocks: bool


_NOTHING = Measure(0, 0, False)
_ONE_TASK = Measure(1, 0, False)
_TOO_HIGH = Measure(1, NESTING_MAX, True)  # of a block that is not measured, because it is nested too deeply


def check_references(
    graph: Pipeline, pipes: Mapping[str, Pipeline | None], tasks: frozenset[str], report: Report, at: int
) -> None:
    """Report all problems. `pipes`: None for one that cannot be parsed; `at`: the position of the graph."""
    checker = _Checker(pipes, tasks, report)
    measure = checker.measure(graph, 0)
    if checker.is_broken:
        return
    if measure.terms > TERMS_MAX or measure.height > NESTING_MAX:
        report("graph_too_large", _TOO_LARGE if measure.terms > TERMS_MAX else _TOO_DEEP, at)
    else:
        checker.check_nodes(graph, is_chain=not measure.has_blocks)


class _Checker:
    def __init__(self, pipes: Mapping[str, Pipeline | None], tasks: frozenset[str], report: Report) -> None:
        self._pipes = pipes
        self._tasks = tasks
        self._report = report
        self._measures: dict[str, Measure] = {}
        self._inside: list[str] = []  # the pipes around the current term
        self.is_broken = False  # a pipe cannot be expanded

    def measure(self, pipeline: Pipeline, depth: int) -> Measure:
        measures = [self._measure_term(term, depth) for term in pipeline.terms]
        return Measure(
            sum(one.terms for one in measures),
            max(one.height for one in measures),
            any(one.has_blocks for one in measures),
        )

    def check_nodes(self, graph: Pipeline, *, is_chain: bool) -> None:
        """No two nodes may have one name, except a task at several steps of a program."""
        seen: dict[str, TaskTerm] = {}
        for term in self._expand(graph):
            name = term.node or term.task
            before = seen.get(name)
            if before is None:
                seen[name] = term
            elif term.node or before.node:
                self._report("duplicate_node", f"Two nodes are called {quoted(name)}; rename one.", term.at)
            elif is_chain:
                sentence = f"{quoted(name)} stands in the chain twice; give one a name, as in again: task."
                self._report("duplicate_node", sentence, term.at)

    def _measure_term(self, term: Term, depth: int) -> Measure:
        match term:
            case TaskTerm():
                self._check_task(term)
                return _ONE_TASK
            case PipeTerm():
                inner = self._measure_pipe(term, depth)
                return Measure(inner.terms, 1 + inner.height, inner.has_blocks)
            case _ if depth >= NESTING_MAX:
                return _TOO_HIGH
            case _:
                inside = [self.measure(body, depth + 1) for body in bodies(term)]
                height = max((one.height for one in inside), default=0)
                return Measure(1 + sum(one.terms for one in inside), 1 + height, True)

    def _measure_pipe(self, term: PipeTerm, depth: int) -> Measure:
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
            self.is_broken = True  # its problem was reported
        else:
            self._inside.append(name)
            self._measures[name] = self.measure(pipeline, depth + 1)
            self._inside.pop()
        return self._measures.get(name, _NOTHING)

    def _check_task(self, term: TaskTerm) -> None:
        if term.task not in self._tasks:
            sentence = f"There is no {quoted(term.task)} in tasks; define it there, or correct the name."
            self._report("unknown_task", sentence, term.at)

    def _break(self, kind: str, msg: str, term: PipeTerm) -> None:
        self.is_broken = True
        self._report(kind, msg, term.at)

    def _expand(self, pipeline: Pipeline) -> Iterator[TaskTerm]:
        for term in pipeline.terms:
            match term:
                case TaskTerm():
                    yield term
                case PipeTerm():
                    inner = self._pipes[term.pipe]
                    assert inner is not None, "it was measured"
                    yield from self._expand(inner)
                case _:
                    for body in bodies(term):
                        yield from self._expand(body)
