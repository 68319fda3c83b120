"""A workflow as in its file, with the member names of pyoco's own configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyoco_server.workflow_yaml.terms import Pipeline


@dataclass(frozen=True, slots=True)
class TaskConfig:
    """`callable` and `use` exclude each other. Without both: the plug-in with the task's own name."""

    callable: str | None = None
    use: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FlowConfig:
    """`pipeline` is the parsed graph."""

    graph: str
    defaults: Mapping[str, Any]
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
