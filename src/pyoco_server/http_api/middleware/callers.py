"""What the middleware adds to the scope of a request: its caller and its id."""

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
    """For limits per caller: the caller, or without authentication the address of the peer."""
    caller = caller_of(request)
    if caller.principal is not None:
        return f"{caller.tenant_id}/{caller.principal}"
    return request.client.host if request.client is not None else "local"
