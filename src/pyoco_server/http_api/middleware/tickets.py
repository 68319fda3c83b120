"""The caller of a request that carries `?ticket=` instead of a header (`operations.identity.tickets`)."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.types import Scope

from pyoco_server.errors import Forbidden, Unavailable
from pyoco_server.http_api.middleware.addresses import path_of
from pyoco_server.http_api.middleware.credentials import Authenticators
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.identity.tickets import redeem
from pyoco_server.store.store import Store


class ByTicket:
    """For clients that cannot send a header. GET requests only."""

    def __init__(self, store: Store, checks: Authenticators) -> None:
        self._store = store
        self._checks = checks

    async def __call__(self, scope: Scope) -> Caller | None:
        if b"ticket=" not in scope["query_string"] or scope.get("method", "GET") != "GET":
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("ticket", [])
        if not given:
            return None
        if self._store.why_not_ready is not None:
            raise Unavailable(f"Not ready: {self._store.why_not_ready}.")
        caller = await redeem(self._store, given[0], path_of(scope))
        if not self._checks.still_good(caller):
            raise Forbidden("The API key or token that this ticket was given for is no longer good.")
        return caller
