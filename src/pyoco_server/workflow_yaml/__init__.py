"""A `flow.yaml` as text, checked completely before anything of it is run. Knows no pyoco and runs nothing.

bytes → `reading` (YAML into a tree with places) → `schema` (the tree into a workflow) → `graph` (the text of
the graph into terms) → `references` (every name has something behind it). Each step tells all the problems
it finds, with line and column; a workflow without problems is the only thing that leaves this package.
"""

from pyoco_server.workflow_yaml.parse import ParsedWorkflowYaml as ParsedWorkflowYaml
from pyoco_server.workflow_yaml.parse import extract_flow_defaults as extract_flow_defaults
from pyoco_server.workflow_yaml.parse import parse_workflow_yaml_bytes as parse_workflow_yaml_bytes
from pyoco_server.workflow_yaml.problems import WorkflowYamlValidationError as WorkflowYamlValidationError

__all__ = [
    "ParsedWorkflowYaml",
    "WorkflowYamlValidationError",
    "extract_flow_defaults",
    "parse_workflow_yaml_bytes",
]
