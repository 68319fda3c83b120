"""Find an operation by method and path in few steps. For requests that do not go through Starlette's router.

Knows one form of parameter: a whole step of the path, `{name}`, that is not empty.
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
    fixed: tuple[tuple[int, str], ...]
    named: tuple[tuple[int, str], ...]
    target: L


class PathTable(Generic[L]):
    """A path without parameters is found before one with them."""

    def __init__(self, targets: Iterable[L]) -> None:
        self._exact: dict[tuple[str, str], L] = {}
        self._templates: dict[tuple[str, int], list[_Template[L]]] = {}
        for target in targets:
            if "{" not in target.path:
                self._exact[target.method, target.path] = target
            else:
                self._add(target)

    def find(self, method: str, path: str) -> tuple[L, dict[str, str]] | None:
        target = self._exact.get((method, path))
        if target is not None:
            return target, {}
        steps = path.split("/")
        for template in self._templates.get((method, len(steps)), ()):
            if _fits(template, steps):
                return template.target, {name: steps[place] for place, name in template.named}
        return None

    def methods_at(self, path: str) -> tuple[str, ...]:
        """With which methods the path is served."""
        steps = path.split("/")
        exact = [method for method, exact in self._exact if exact == path]
        fitting = [
            method
            for (method, count), templates in self._templates.items()
            if count == len(steps) and any(_fits(one, steps) for one in templates)
        ]
        return (*exact, *fitting)

    def _add(self, target: L) -> None:
        steps = list(enumerate(target.path.split("/")))
        fixed = tuple((place, step) for place, step in steps if not step.startswith("{"))
        named = tuple((place, step[1:-1]) for place, step in steps if step.startswith("{"))
        key = (target.method, len(steps))
        self._templates.setdefault(key, []).append(_Template(fixed, named, target))


def _fits(template: _Template[L], steps: list[str]) -> bool:
    return all(steps[place] == step for place, step in template.fixed) and all(
        steps[place] for place, _ in template.named
    )
