"""Where the flow of a run comes from: the resolver, by its name; or the text that the run brought with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from pyoco.core.models import Flow

from pyoco_server.flows import FlowResolver
from pyoco_server.worker.attempt.reasons import CodeRefused
from pyoco_server.worker.flows.params import Params, looked_at
from pyoco_server.worker.yaml.callables import Callables, modules_of
from pyoco_server.worker.yaml.plugins import Plugins

FLOWS_ANNOUNCED_MAX = 200
WORDS_CHARS_MAX = 200


class FlowSource:
    """Of one process, and of one state of its imports: after a reload there is a new one."""

    def __init__(self, resolver: FlowResolver, spec: str = "") -> None:
        self._resolver = resolver
        self._modules = modules_of(resolver, spec)
        self._plugins = Plugins()

    @property
    def announced(self) -> dict[str, str]:
        """What the resolver lists in its attribute `flows`: names, or names with sentences."""
        said = getattr(self._resolver, "flows", None)
        if isinstance(said, Mapping):
            return _short({str(name): str(about) for name, about in said.items()})
        if isinstance(said, Iterable) and not isinstance(said, str):
            return _short(dict.fromkeys(map(str, said), ""))
        return {}

    def params(self) -> dict[str, Params]:
        """What those that are announced may be given. Calls the resolver, in a process of its own."""
        return looked_at(self.announced, self._resolver)

    def flow(
        self, name: str, workflow_yaml: str | None, packages: Iterable[str], variables: Iterable[str]
    ) -> Flow:
        """`packages`: those whose functions a text may name, besides the resolver's own module.
        `variables`: what it may read of the environment.

        Raises CodeMissing or CodeRefused for a text that cannot be executed here, and whatever a resolver
        raises.
        """
        if workflow_yaml is None:
            return self._resolver(name)
        # Most runs bring none: what reads it is only loaded for those that do.
        from pyoco_server.worker.yaml.building import build_flow
        from pyoco_server.worker.yaml.environment import Readable
        from pyoco_server.workflow_yaml import WorkflowYamlValidationError, parse_workflow_yaml_bytes

        try:
            config = parse_workflow_yaml_bytes(workflow_yaml.encode("utf-8", "surrogatepass")).config
        except WorkflowYamlValidationError as error:  # of a job that did not come through our gateway
            raise CodeRefused(str(error)) from error
        callables = Callables((*packages, *self._modules))
        return build_flow(name, config, callables, self._plugins, Readable(variables))


def _short(said: Mapping[str, str]) -> dict[str, str]:
    some = islice(said.items(), FLOWS_ANNOUNCED_MAX)
    return {name[:WORDS_CHARS_MAX]: about[:WORDS_CHARS_MAX] for name, about in some if name}
