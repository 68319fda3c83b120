"""A workflow as in its file, with the member names of pyoco's own configuration.

A parsed graph is a pipeline: a list of terms, some of which contain pipelines. `at` is the position of a term
in the text. Expressions are pyoco's own notation (`$ctx.params.items`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Collect = Literal["list", "last", "first", "flatten"]


@dataclass(frozen=True, slots=True)
class TaskConfig:
    """`callable` and `use` exclude each other. Without both: the plug-in with the task's own name."""

    callable: str | None = None
    use: str | None = None
    inputs: Mapping[str, object] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FlowConfig:
    """`pipeline` is the parsed graph."""

    graph: str
    defaults: Mapping[str, object]
    pipeline: Pipeline


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    expose_env: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkflowConfig:
    version: int
    flow: FlowConfig | None
    tasks: Mapping[str, TaskConfig]
    pipes: Mapping[str, str]
    runtime: RuntimeConfig
    pipelines: Mapping[str, Pipeline] = field(default_factory=dict)  # the parsed pipes


@dataclass(frozen=True, slots=True)
class Expression:
    source: str


@dataclass(frozen=True, slots=True)
class TaskTerm:
    """`node`: the name of the node, if it differs from the task's."""

    task: str
    node: str | None
    at: int


@dataclass(frozen=True, slots=True)
class PipeTerm:
    pipe: str
    at: int


@dataclass(frozen=True, slots=True)
class Case:
    """`value` None: the default case."""

    value: str | int | bool | None
    body: Pipeline


@dataclass(frozen=True, slots=True)
class SwitchTerm:
    on: Expression
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class RepeatTerm:
    count: int | Expression
    collect: Collect
    body: Pipeline


@dataclass(frozen=True, slots=True)
class ForEachTerm:
    over: Expression
    item: str | None
    index: str | None
    collect: Collect
    body: Pipeline


@dataclass(frozen=True, slots=True)
class UntilTerm:
    cond: Expression
    max_iter: int | None
    collect: Collect
    body: Pipeline


LoopTerm = RepeatTerm | ForEachTerm | UntilTerm
Term = TaskTerm | PipeTerm | SwitchTerm | LoopTerm


@dataclass(frozen=True, slots=True)
class Pipeline:
    terms: tuple[Term, ...]


def bodies(term: SwitchTerm | LoopTerm) -> tuple[Pipeline, ...]:
    """The pipelines inside."""
    if isinstance(term, SwitchTerm):
        return tuple(case.body for case in term.cases)
    return (term.body,)
