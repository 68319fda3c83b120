"""The routes of this face as a table: what is served where, to whom, and which limit it counts for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyoco_server.http_api.faces.recheck.access import Access

READS, RECHECK, RECHECK_ALL = "reads", "recheck", "recheck_all"


class Endpoint(NamedTuple):
    """`access` None: the address is its own proof, and `proof` raises Forbidden where it is not one."""

    method: str
    path: str
    serve: Callable[[Request], Awaitable[Response]]
    access: Access | None
    limit: str = READS
    proof: Callable[[Request], Awaitable[None]] | None = None

    def as_route(self) -> Route:
        """For the application's own table of what it serves; requests come another way."""
        return Route(self.path, self.serve, methods=[self.method])


class RouteMatch(NamedTuple):
    """`endpoint` None and methods: the path is served, but not so. `params`: the named parts of the path."""

    endpoint: Endpoint | None
    params: dict[str, str]
    methods: tuple[str, ...] = ()


def find(routes: Sequence[Endpoint], method: str, path: str) -> RouteMatch:
    steps = path.split("/")
    fitting = [(one, params) for one in routes if (params := _fits(one.path.split("/"), steps)) is not None]
    for endpoint, params in fitting:
        if endpoint.method == method:
            return RouteMatch(endpoint, params)
    return RouteMatch(None, {}, tuple(one.method for one, _ in fitting))


def _fits(template: list[str], steps: list[str]) -> dict[str, str] | None:
    if len(template) != len(steps):
        return None
    params: dict[str, str] = {}
    for wanted, step in zip(template, steps, strict=True):
        if wanted.startswith("{") and step:
            params[wanted[1:-1]] = step
        elif wanted != step:
            return None
    return params
