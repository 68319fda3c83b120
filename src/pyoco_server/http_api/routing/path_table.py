"""Finds an operation by method and path with few dictionary lookups. Used instead of Starlette's router.

A parameter `{name}` matches one step of the path that is not empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar


class Located(Protocol):
    @property
    def method(self) -> str: ...

    @property
    def path(self) -> str: ...


L = TypeVar("L", bound=Located)


class _Template(NamedTuple, Generic[L]):
    """`fixed`: steps between the first and the last that are not parameters."""

    fixed: tuple[tuple[int, str], ...]
    named: tuple[tuple[int, str], ...]
    target: L

    def read(self, steps: list[str]) -> dict[str, str] | None:
        """The values of the parameters; None if the path does not match."""
        for place, step in self.fixed:
            if steps[place] != step:
                return None
        params = {}
        for place, name in self.named:
            if not steps[place]:
                return None
            params[name] = steps[place]
        return params


# Method, number of steps, the first step, and the last one or PARAMETER.
_Key = tuple[str, int, str, str]
_PARAMETER = "{}"


class PathTable(Generic[L]):
    """A path without parameters is found before one with them. The first step is never a parameter."""

    def __init__(self, targets: Iterable[L]) -> None:
        self._exact: dict[tuple[str, str], L] = {}
        self._templates: dict[_Key, list[_Template[L]]] = {}
        for target in targets:
            if "{" not in target.path:
                self._exact[target.method, target.path] = target
            else:
                self._add(target)
        served = [method for method, _ in self._exact] + [method for method, *_ in self._templates]
        self._methods = tuple(dict.fromkeys(served))

    def find(self, method: str, path: str) -> tuple[L, dict[str, str]] | None:
        target = self._exact.get((method, path))
        if target is not None:
            return target, {}
        steps = path.split("/")
        if len(steps) < 3:
            return None  # too short for a parameter
        for last in (steps[-1], _PARAMETER):
            for template in self._templates.get((method, len(steps), steps[1], last), ()):
                params = template.read(steps)
                if params is not None:
                    return template.target, params
        return None

    def methods_at(self, path: str) -> tuple[str, ...]:
        """The methods that serve the path."""
        return tuple(method for method in self._methods if self.find(method, path) is not None)

    def _add(self, target: L) -> None:
        steps = target.path.split("/")
        named = tuple((place, step[1:-1]) for place, step in enumerate(steps) if step.startswith("{"))
        places = {place for place, _ in named}
        assert 1 not in places, "the first step is fixed"
        fixed = tuple(
            (place, step) for place, step in enumerate(steps[:-1]) if place > 1 and place not in places
        )
        last = _PARAMETER if len(steps) - 1 in places else steps[-1]
        key = (target.method, len(steps), steps[1], last)
        self._templates.setdefault(key, []).append(_Template(fixed, named, target))
