"""The caller of a request, as whoever stands at the door has found out."""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.types import Scope

from pyoco_server.operations.callers import ANYBODY, Caller

_CALLER = "pyoco.caller"


def note_caller(scope: Scope, caller: Caller) -> None:
    scope[_CALLER] = caller


def caller_of(request: HTTPConnection) -> Caller:
    found: Caller = request.scope.get(_CALLER, ANYBODY)
    return found
