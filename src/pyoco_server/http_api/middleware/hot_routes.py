"""A shorter way to the routes that are called all day: past the framework's layers and its router.

The routes are the same ones, and are also registered the ordinary way: whatever is not recognised here
(another method, an odd path) takes that way and gets the ordinary answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_server.errors import Limited
from pyoco_server.http_api.error_answers import answer_for, error_answer

Endpoint = Callable[[Request], Awaitable[Response]]


class _Request(Request):
    """A body that came in one piece is had without a generator; nearly all do."""

    async def body(self) -> bytes:
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts = [message.get("body", b"")]
        while message.get("more_body"):
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            parts.append(message.get("body", b""))
        return parts[0] if len(parts) == 1 else b"".join(parts)


# Of a method and a path: who answers, and the parameters in the path. None: not one of these.
Find = Callable[[str, str], tuple[Endpoint, dict[str, str]] | None]


class HotRoutes:
    def __init__(
        self,
        app: ASGIApp,
        exact: Mapping[tuple[str, str], Endpoint],
        one: tuple[str, str, Endpoint],
        below: Mapping[str, Find],
    ) -> None:
        """`exact`: by method and path. `one`: method, prefix and endpoint of `<prefix>{run_id}`.

        `below`: by the first part of the path, for faces whose addresses are more than one deep.
        """
        self._app = app
        self._exact = exact
        self._method, self._prefix, self._endpoint = one
        self._below = below

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._find(scope) if scope["type"] == "http" else None
        if endpoint is None:
            await self._app(scope, receive, send)
            return
        request = _Request(scope, receive)
        try:
            response = await endpoint(request)
        except ClientDisconnect:
            return  # nobody is left to be answered
        except Exception as error:  # what the framework's outermost layer would do
            response = answer_for(request, error)
        try:
            await response(scope, receive, send)
        except Limited as error:  # a stream that is refused before it begins
            await error_answer(request, error)(scope, receive, send)

    def _find(self, scope: Scope) -> Endpoint | None:
        method, path = scope["method"], scope["path"]
        endpoint = self._exact.get((method, path))
        if endpoint is not None:
            return endpoint
        find = self._below.get(path[1:].partition("/")[0])
        if find is not None:
            return self._found_below(scope, find(method, path))
        if method != self._method or not path.startswith(self._prefix):
            return None
        run_id = path[len(self._prefix) :]
        if not run_id or "/" in run_id:
            return None
        params: dict[str, Any] = {"run_id": run_id}
        scope["path_params"] = params
        return self._endpoint

    def _found_below(self, scope: Scope, found: tuple[Endpoint, dict[str, str]] | None) -> Endpoint | None:
        if found is None:
            return None
        endpoint, scope["path_params"] = found
        return endpoint
