"""Parses and checks a `flow.yaml` completely before any of it is executed. Uses no pyoco.

bytes → `reading` (YAML into a tree with positions) → `schema` (the tree into a workflow) → `graph` (the text
of the graph into terms) → `references` (every name is defined). Each step reports all problems that it finds,
with line and column. The package returns only workflows without problems.
"""

from pyoco_server.workflow_yaml.parse import (
    ParsedWorkflowYaml,
    extract_flow_defaults,
    parse_workflow_yaml_bytes,
)
from pyoco_server.workflow_yaml.problems import WorkflowYamlValidationError

__all__ = [
    "ParsedWorkflowYaml",
    "WorkflowYamlValidationError",
    "extract_flow_defaults",
    "parse_workflow_yaml_bytes",
]
