"""Serves the operations with `is_hot` without Starlette's router and its middleware.

Requests that match none of them (another method, an unusual path) go to Starlette. Errors are answered by the
request guard, which is in front of both.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_server.http_api.middleware.addresses import path_of
from pyoco_server.http_api.routing.operation import Operation, Serve
from pyoco_server.http_api.routing.path_table import PathTable


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


class HotRoutes:
    def __init__(self, app: ASGIApp, operations: Iterable[Operation]) -> None:
        self._app = app
        self._table = PathTable(one for one in operations if one.is_hot)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        serve = self._find(scope) if scope["type"] == "http" else None
        if serve is None:
            await self._app(scope, receive, send)
            return
        try:
            response = await serve(_Request(scope, receive))
        except ClientDisconnect:
            return  # there is no client to answer
        await response(scope, receive, send)

    def _find(self, scope: Scope) -> Serve | None:
        found = self._table.find(scope["method"], path_of(scope))
        if found is None:
            return None
        operation, scope["path_params"] = found
        return operation.serve
