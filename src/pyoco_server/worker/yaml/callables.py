"""`callable: module:function` in a workflow: which functions may be named, and fetching them.

A workflow comes over the network, so it may name only what the operator of the worker allows. Two modules
must be allowed: the one that is named, before it is imported, and the one that defines the function, so that
the imports of an allowed module (`my_tasks:os`) are not allowed with it.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import NoReturn

from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.engine.tasks.failure import try_call
from pyoco_server.flows.waits import WaitTask
from pyoco_server.worker.attempt.reasons import CodeMissing, CodeRefused, error_text

HOW_TO_ALLOW = (
    "Add its package to PYOCO_CALLABLE_ALLOW on the worker, or register the task as a plug-in and name it "
    "with 'use:'."
)


class Callables:
    def __init__(self, allowed: Iterable[str]) -> None:
        self._allowed = tuple(allowed)

    def get(self, path: str) -> Callable[..., object]:
        """The function that `module:function` names. Raises CodeRefused or CodeMissing."""
        place, _, attribute = path.partition(":")
        if not self._is_allowed(place):
            raise CodeRefused(f"This worker does not let a workflow call '{path}'. {HOW_TO_ALLOW}")
        found = _function(_import(place, path), attribute, path)
        if isinstance(found, WaitTask):  # it has no code; the module that names it was checked
            return found
        home = getattr(found, "__module__", None)
        if not isinstance(home, str) or not self._is_allowed(home):
            whose = f"belongs to '{home}'" if isinstance(home, str) else "belongs to no module"
            raise CodeRefused(f"'{path}' {whose}, which a workflow may not call here. {HOW_TO_ALLOW}")
        return found

    def _is_allowed(self, module: str) -> bool:
        return any(module == name or module.startswith(f"{name}.") for name in self._allowed)


def modules_of(resolver: Callable[..., object], spec: str = "") -> frozenset[str]:
    """The modules of a resolver: a workflow may call functions that are beside the flows.

    `spec`: how the resolver was named, `module:function` or a file. The standard library is excluded.
    """
    while isinstance(resolver, functools.partial):
        resolver = resolver.func
    place = spec.rpartition(":")[0]
    found = {getattr(resolver, "__module__", None), place}
    names = {name for name in found if isinstance(name, str) and all(map(str.isidentifier, name.split(".")))}
    return frozenset(name for name in names if name.split(".")[0] not in sys.stdlib_module_names)


def _import(module: str, path: str) -> ModuleType:
    def refuse(error: BaseException) -> NoReturn:
        raise CodeMissing(f"'{path}' cannot be imported on this worker: {error_text(error)}") from error

    return try_call(importlib.import_module, module, on_error=refuse)


def _function(module: ModuleType, attribute: str, path: str) -> Callable[..., object]:
    found: object = getattr(module, attribute, None)
    if isinstance(found, TaskWrapper):
        found = found.task.func
    elif isinstance(found, Task):
        found = found.func
    if found is None:
        raise CodeMissing(f"'{path}' does not exist on this worker; correct its name, or update the package.")
    if not callable(found):
        raise CodeRefused(f"'{path}' is a {type(found).__name__}, not a function.")
    function: Callable[..., object] = found
    return function
