"""Where the flow of a run comes from: the resolver, by its name, or the text of the submission."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from pyoco.core.models import Flow

from pyoco_server.engine.tasks.failure import describe, try_call
from pyoco_server.flows import FlowResolver
from pyoco_server.flows.waits import WaitTask
from pyoco_server.worker.attempt.reasons import FLOW_CHANGED, CodeRefused, cause_of, why_unresolved
from pyoco_server.worker.flows.params import Params, inspect_params
from pyoco_server.worker.yaml.callables import Callables, modules_of
from pyoco_server.worker.yaml.plugins import Plugins

FLOWS_ANNOUNCED_MAX = 200
WORDS_CHARS_MAX = 200

# `release#2[0]`: of the task `release`, the second position in the program, the first iteration.
_POSITION_AND_ITERATION = re.compile(r"(?:#\d+)?(?:\[\d+\])*$")


class Unresolved(NamedTuple):
    """There is no flow to execute: how the run fails."""

    reason: str
    error: str
    task: str | None = None
    cause: dict[str, object] | None = None  # the exception, as fields of a log line


class FlowSource:
    """For one process and one state of its imports: a reload makes a new one."""

    def __init__(self, resolver: FlowResolver, spec: str = "") -> None:
        self._resolver = resolver
        self._modules = modules_of(resolver, spec)
        self._plugins = Plugins()

    @property
    def announced(self) -> dict[str, str]:
        """What the resolver lists in its attribute `flows`: names, or names with descriptions."""
        listed = getattr(self._resolver, "flows", None)
        if isinstance(listed, Mapping):
            return _short({str(name): str(about) for name, about in listed.items()})
        if isinstance(listed, Iterable) and not isinstance(listed, str):
            return _short(dict.fromkeys(map(str, listed), ""))
        return {}

    def params(self) -> dict[str, Params]:
        """The parameters of the announced flows. Calls the resolver, in another process."""
        return inspect_params(self.announced, self._resolver)

    def resolve(
        self,
        name: str,
        workflow_yaml: str | None,
        packages: Iterable[str],
        variables: Iterable[str],
        awaited: Iterable[str],
    ) -> Flow | Unresolved:
        """`packages`: those whose functions a text may name, besides the resolver's own module.
        `variables`: the environment variables that it may read. `awaited`: waits that the run has reached.
        """

        def on_error(error: BaseException) -> Unresolved:
            reason, text = why_unresolved(name, error)
            return Unresolved(reason, text, cause=cause_of(describe(error)))

        flow = try_call(
            self.flow, name, workflow_yaml, packages, variables, on_error=on_error, also=(SystemExit,)
        )
        if isinstance(flow, Unresolved):
            return flow
        lost = lost_wait(flow, awaited)
        return flow if lost is None else Unresolved(FLOW_CHANGED, _why_lost(lost), lost)

    def flow(
        self, name: str, workflow_yaml: str | None, packages: Iterable[str], variables: Iterable[str]
    ) -> Flow:
        """Raises CodeMissing or CodeRefused for a text, and anything that a resolver raises."""
        if workflow_yaml is None:
            return self._resolver(name)
        # Most runs have no text: the modules that read it are imported for those that do.
        from pyoco_server.worker.yaml.building import build_flow
        from pyoco_server.worker.yaml.environment import Readable
        from pyoco_server.workflow_yaml import WorkflowYamlValidationError, parse_workflow_yaml_bytes

        try:
            config = parse_workflow_yaml_bytes(workflow_yaml.encode("utf-8", "surrogatepass")).config
        except WorkflowYamlValidationError as error:  # a job of another producer
            raise CodeRefused(str(error)) from error
        callables = Callables((*packages, *self._modules))
        return build_flow(name, config, callables, self._plugins, Readable(variables))


def lost_wait(flow: Flow, awaited: Iterable[str]) -> str | None:
    """The first of these record names for which the flow has no waiting task any more.

    A newer version of a flow may lack a wait. To continue would mean to guess what the answer was for.
    """
    names = list(awaited)
    if not names:
        return None
    waits = {task.name for task in flow.tasks if type(task.func) is WaitTask}
    return next((name for name in names if waits.isdisjoint((name, _task_of(name)))), None)


def _task_of(record_name: str) -> str:
    return _POSITION_AND_ITERATION.sub("", record_name)


def _why_lost(name: str) -> str:
    return (
        f"The flow has changed: it has no wait '{name}' any more, which this run has come to. "
        "Submit it again, or bring the wait back before you answer it."
    )


def _short(listed: Mapping[str, str]) -> dict[str, str]:
    some = islice(listed.items(), FLOWS_ANNOUNCED_MAX)
    return {name[:WORDS_CHARS_MAX]: about[:WORDS_CHARS_MAX] for name, about in some if name}
