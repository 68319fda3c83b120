"""A shorter way to the routes that are called all day: past the framework's layers and its router.

The routes are the same ones, and are also registered the ordinary way: whatever is not recognised here
(another method, an odd path) takes that way and gets the ordinary answer.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_server.errors import Limited
from pyoco_server.http_api.error_answers import answer_for, error_answer
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
        endpoint = self._find(scope) if scope["type"] == "http" else None
        if endpoint is None:
            await self._app(scope, receive, send)
            return
        request = _Request(scope, receive)
        try:
            response = await endpoint(request)
        except ClientDisconnect:
            return  # the client has disconnected
        except Exception as error:  # what the framework's outermost layer would do
            response = answer_for(request, error)
        try:
            await response(scope, receive, send)
        except Limited as error:  # a stream that is refused before it begins
            await error_answer(request, error)(scope, receive, send)

    def _find(self, scope: Scope) -> Serve | None:
        found = self._table.find(scope["method"], scope["path"])
        if found is None:
            return None
        operation, scope["path_params"] = found
        return operation.serve
