"""Serves the operations with `is_hot` without Starlette's router and its middleware.

Requests that match none of them (another method, an unusual path) go to Starlette. Errors are answered by the
request guard, which is in front of both.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_server.http_api.middleware.addresses import path_of
from pyoco_server.http_api.routing.operation import Operation, Serve
from pyoco_server.http_api.routing.path_table import PathTable

# Longer queries may have a ticket or a search text, which are not kept.
SHORT_QUERY_BYTES = 24


class _Request(Request):
    """Short queries are parsed once. A body in one piece is read without a generator; nearly all are."""

    @property
    def query_params(self) -> QueryParams:
        query: bytes = self.scope["query_string"]
        return _short_query(query) if len(query) <= SHORT_QUERY_BYTES else super().query_params

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


@lru_cache(maxsize=256)
def _short_query(query: bytes) -> QueryParams:
    """As of `wait=60`; the same value comes again and again."""
    return QueryParams(query)


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
