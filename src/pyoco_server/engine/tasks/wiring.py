"""The arguments of a task, and where its result is saved. Owns pyoco's wiring rules."""

import inspect
from collections.abc import Callable
from types import FunctionType

from pyoco.core.context import Context

from pyoco_server.engine.tasks.references import resolve_reference
from pyoco_server.engine.walk.plan import TaskSpec


class Wiring:
    """Caches signatures for one run: each run builds its flow again, so a longer-lived cache would leak."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._parameters: dict[int, tuple[str, ...]] = {}

    def arguments(self, spec: TaskSpec, own_ctx: Callable[[], Context]) -> dict[str, object]:
        """Configured inputs first, then `ctx`, then parameters by name from params, then from results."""
        kwargs = {key: resolve_reference(self._ctx, value) for key, value in spec.inputs.items()}
        for name in self._names(spec.func):
            if name == "ctx":
                kwargs[name] = own_ctx()
            elif name in kwargs:
                continue
            elif name in self._ctx.params:
                kwargs[name] = self._ctx.params[name]
            elif name in self._ctx.results:
                kwargs[name] = self._ctx.results[name]
        return kwargs

    def prompt(self, spec: TaskSpec) -> dict[str, object]:
        """The prompt of a wait: references are resolved; other texts stay, also one like `$100`."""
        return {
            key: resolve_reference(self._ctx, value) if _is_reference(value) else value
            for key, value in spec.inputs.items()
        }

    def save(self, spec: TaskSpec, output: object) -> None:
        self._ctx.set_result(spec.name, output)
        for path in spec.outputs:
            self._save_at(path.split("."), output)

    def _names(self, func: Callable[..., object]) -> tuple[str, ...]:
        names = self._parameters.get(id(func))  # not every callable can be hashed
        if names is None:
            names = self._parameters[id(func)] = _parameter_names(func)
        return names

    def _save_at(self, parts: list[str], output: object) -> None:
        place = self._root(parts[0])
        for part in parts[1:-1]:
            if not isinstance(place, dict):
                return
            place = place.setdefault(part, {})
        if isinstance(place, dict):
            place[parts[-1]] = output

    def _root(self, name: str) -> object:
        match name:
            case "scratch":
                return self._ctx.scratch
            case "results":
                return self._ctx.results
            case "params":
                return self._ctx.params
            case _:
                return None  # pyoco ignores unknown roots


def has_references(spec: TaskSpec) -> bool:
    """To resolve one may call code of users: a result is any object."""
    return any(isinstance(value, str) and value.startswith("$") for value in spec.inputs.values())


def _is_reference(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("$node.", "$ctx.", "$env."))


def _parameter_names(func: Callable[..., object]) -> tuple[str, ...]:
    if type(func) is not FunctionType or func.__dict__:  # wrapped, or with its own signature
        return tuple(inspect.signature(func).parameters)
    # The result of `inspect`, without its 12 µs: functions of a flow are often closures that are used once.
    code = func.__code__
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + stars]
