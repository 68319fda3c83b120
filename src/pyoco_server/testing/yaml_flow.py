"""A `flow.yaml` as the flow of a test. Owns its text, and what it may name; the parser is the gateway's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pyoco_server.workflow_yaml import ParsedWorkflowYaml, parse_workflow_yaml_bytes


@dataclass(frozen=True, slots=True)
class YamlFlow:
    """`callable_packages`: packages whose functions it may name, as in PYOCO_CALLABLE_ALLOW of a worker.

    `flow_env`: environment variables that it may read, as in PYOCO_FLOW_ENV.
    """

    text: str
    callable_packages: tuple[str, ...] = ()
    flow_env: tuple[str, ...] = ()
    name: str = "workflow"

    @classmethod
    def read(
        cls, path: Path, callable_packages: tuple[str, ...] = (), flow_env: tuple[str, ...] = ()
    ) -> Self:
        return cls(path.read_text("utf-8"), callable_packages, flow_env, name=path.stem)

    def parse(self) -> ParsedWorkflowYaml:
        """Raises WorkflowYamlValidationError with every problem, as a submission would."""
        return parse_workflow_yaml_bytes(self.text.encode())
