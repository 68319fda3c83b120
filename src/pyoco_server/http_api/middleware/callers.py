"""What the middleware has found out about a request, in its scope: the caller, and the id of the request."""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.types import Scope

from pyoco_server.operations.identity.callers import ANONYMOUS, Caller

_CALLER = "pyoco.caller"
REQUEST_ID = "pyoco.request_id"


def note_caller(scope: Scope, caller: Caller) -> None:
    scope[_CALLER] = caller


def caller_of(request: HTTPConnection) -> Caller:
    found: Caller = request.scope.get(_CALLER, ANONYMOUS)
    return found


def limit_key_of(request: HTTPConnection) -> str:
    """Whose share of a limit a request takes: the caller's, or without authentication the peer's address."""
    caller = caller_of(request)
    if caller.principal is not None:
        return f"{caller.tenant_id}/{caller.principal}"
    return request.client.host if request.client is not None else "local"
