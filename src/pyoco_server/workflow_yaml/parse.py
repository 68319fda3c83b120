"""The entry point: bytes of a `flow.yaml` into a valid workflow, or an error with all problems."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from pyoco_server.workflow_yaml.graph import Report, parse_graph
from pyoco_server.workflow_yaml.model import FlowConfig, Pipeline, WorkflowConfig
from pyoco_server.workflow_yaml.problems import Lines, Path, Problems, WorkflowYamlValidationError
from pyoco_server.workflow_yaml.reading import Scalar, decoded, plain_members, read
from pyoco_server.workflow_yaml.references import check_references
from pyoco_server.workflow_yaml.schema import Schema


@dataclass(frozen=True, slots=True)
class ParsedWorkflowYaml:
    config: WorkflowConfig
    sha256: str
    size_bytes: int


def parse_workflow_yaml_bytes(raw: bytes, *, require_flow: bool = True) -> ParsedWorkflowYaml:
    """Raises WorkflowYamlValidationError, and nothing else, for any bytes.

    The caller limits the size; the cost is linear in it.
    """
    if not isinstance(raw, bytes | bytearray):
        raise WorkflowYamlValidationError("invalid_bytes")
    config = _Reader(bytes(raw)).config(require_flow=require_flow)
    return ParsedWorkflowYaml(config, hashlib.sha256(raw).hexdigest(), len(raw))


def extract_flow_defaults(parsed: ParsedWorkflowYaml) -> dict[str, object]:
    """The default parameters of a run."""
    return dict(parsed.config.flow.defaults) if parsed.config.flow else {}


class _Reader:
    def __init__(self, raw: bytes) -> None:
        self._problems = Problems()
        text = decoded(raw, self._problems)
        self._lines = Lines(text)
        self._schema = Schema(read(text, self._lines, self._problems), self._problems)

    def config(self, *, require_flow: bool) -> WorkflowConfig:
        schema = self._schema
        version, flow = schema.version(), schema.flow(required=require_flow)
        graph, defaults = (schema.graph(flow), plain_members(schema.defaults(flow))) if flow else (None, {})
        tasks, pipes, runtime = schema.tasks(), schema.pipes(), schema.runtime()
        read_pipes = {name: self._pipeline(node, ("pipes", name)) for name, node in pipes.items()}
        pipeline = self._pipeline(graph, ("flow", "graph")) if graph else None
        if graph and pipeline:
            report = self._report_anywhere(pipes)
            check_references(pipeline, read_pipes, frozenset(tasks), report, graph.begin)
        if self._problems.found:
            raise self._problems.error()
        return WorkflowConfig(
            version=version,
            flow=FlowConfig(str(graph.value), defaults, pipeline) if graph and pipeline else None,
            tasks=tasks,
            pipes={name: str(node.value) for name, node in pipes.items()},
            runtime=runtime,
            pipelines={name: one for name, one in read_pipes.items() if one},
        )

    def _pipeline(self, node: Scalar, path: Path) -> Pipeline | None:
        text = str(node.value)
        origins = self._lines.origins(text, node.style, node.begin, node.end)
        return parse_graph(text, origins, self._report_at(path))

    def _report_at(self, path: Path) -> Report:
        def report(kind: str, msg: str, at: int) -> None:
            self._problems.add(kind, msg, self._lines.position(at), path)

        return report

    def _report_anywhere(self, pipes: dict[str, Scalar]) -> Report:
        """For problems in the graph or in any pipe."""

        def report(kind: str, msg: str, at: int) -> None:
            if not self._problems.is_full:
                here = (("pipes", name) for name, pipe in pipes.items() if pipe.begin <= at < pipe.end)
                self._problems.add(kind, msg, self._lines.position(at), next(here, ("flow", "graph")))

        return report
