"""The way of every request of the recheck face: authenticate, authorise, limit, and only then its route.

This face has an order of its own, and says in every answer how much is left; so it has a door of its own
before that of the other faces. Of each request one line is written, without token, key or body.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_server.errors import (
    Forbidden,
    Invalid,
    Limited,
    NotFound,
    PyocoError,
    Unauthenticated,
    Unavailable,
)
from pyoco_server.http_api.context import Gateway
from pyoco_server.http_api.faces.recheck.errors import word_of
from pyoco_server.http_api.faces.recheck.limits import Limiter
from pyoco_server.http_api.faces.recheck.request_context import ABOUT
from pyoco_server.http_api.faces.recheck.routes import ROUTES
from pyoco_server.http_api.faces.recheck.table import READS
from pyoco_server.http_api.middleware.addresses import path_of
from pyoco_server.http_api.middleware.callers import REQUEST_ID, caller_of, counted_as, note_caller
from pyoco_server.http_api.middleware.credentials import Authenticators, Credentials
from pyoco_server.http_api.requests.idempotency import HEADER
from pyoco_server.http_api.routing.path_table import PathTable
from pyoco_server.operations.idempotency.key_scope import hashed
from pyoco_server.operations.identity.authenticate_jwt import InvalidToken
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.rechecks.context import ANONYMOUS, client_of, tenant_of

log = logging.getLogger("pyoco_server.audit")

FACES = frozenset({"pdca", "gui"})
KNOWN_KEYS = "idempotency"
# Whatever we wait for: nobody waits longer for an answer.
ANSWER_SEC_MAX = 9.0
UNKNOWN = "unknown"
_TABLE = PathTable(ROUTES)

# The answer to a request that is refused, or that has failed, in the words of the face at its path.
ErrorAnswer = Callable[[HTTPConnection, Exception], Response]


class RecheckMiddleware:
    def __init__(self, app: ASGIApp, inner: ASGIApp, gateway: Gateway, error_answer: ErrorAnswer) -> None:
        """`app`: everything else. `inner`: the same, for callers that are authenticated already."""
        self._error_answer = error_answer
        self._app = app
        self._inner = inner
        self._gateway = gateway
        self._limiter = Limiter(gateway.store, gateway.config)
        checks = Authenticators(gateway.keys, gateway.tokens)
        self._proofs = Credentials(gateway.config, checks) if any(checks) else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        first = path_of(scope)[1:].partition("/")[0] if scope["type"] == "http" else ""
        if first in FACES:
            await self._serve(scope, receive, send)
        elif first == KNOWN_KEYS and scope["method"] == "GET" and self._proofs is not None:
            await self._show_known_key(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        visit = _Visit(scope)
        request = Request(scope, receive)
        try:
            async with asyncio.timeout(ANSWER_SEC_MAX):
                response = await self._answer(request, visit)
        except ClientDisconnect:
            return  # the client has disconnected
        except TimeoutError:
            late = Unavailable("This could not be done in time. Try again, with the same key.")
            response = await self._refused(request, visit, late)
        except PyocoError as error:
            response = await self._refused(request, visit, error)
        except Exception as error:  # what the framework's outermost layer would do
            visit.outcome = "INTERNAL_ERROR"
            response = self._error_answer(request, error)
        response.headers.update(visit.limit_headers)
        visit.write_down(self._gateway.rechecks.observed, response.status_code)
        await response(scope, receive, send)

    async def _answer(self, request: Request, visit: _Visit) -> Response:
        path = path_of(request.scope)
        endpoint, path_params = _TABLE.find(request.method, path) or (None, {})
        visit.endpoint = endpoint.path if endpoint else UNKNOWN
        signed = endpoint is not None and endpoint.access is None
        caller = await self._caller(request.scope, signed=signed)
        if endpoint is not None and endpoint.access is not None:
            endpoint.access.check(caller)
        self._gateway.check()
        request.scope["path_params"] = path_params
        if endpoint is not None and endpoint.proof is not None:
            # Before it is counted: each count is an entry at the broker, and anyone can make up addresses.
            await endpoint.proof(request)
        limit = endpoint.limit if endpoint else READS
        whose = f"signed for {counted_as(request)}" if signed else caller.principal or ANONYMOUS
        taken = await self._limiter.take(tenant_of(caller), whose, limit)
        visit.limit_headers = self._limiter.headers(limit, taken)
        if not taken.allowed:
            raise Limited(
                f"More than {taken.limit} requests of this kind ({limit}) in a minute. "
                f"Come back in {taken.retry_after_sec} s.",
                retry_after_sec=taken.retry_after_sec,
            )
        if endpoint is None:
            raise _not_served(request.method, path)
        assert endpoint.operation.serve is not None
        return await endpoint.operation.serve(request)

    async def _caller(self, scope: Scope, *, signed: bool) -> Caller:
        if self._proofs is None or signed:
            return caller_of(HTTPConnection(scope))
        try:
            caller = await self._proofs.caller(scope)
        except Forbidden as error:
            # Here an API key that is not good is like a token that is not.
            raise Unauthenticated(error.message, err_id="") from None
        note_caller(scope, caller)
        return caller

    async def _refused(self, request: Request, visit: _Visit, error: PyocoError) -> Response:
        visit.outcome = word_of(error)
        answer = self._error_answer(request, error)
        if isinstance(error, Unauthenticated) and self._proofs is not None:
            answer.headers["WWW-Authenticate"] = self._proofs.challenge(error)
        return answer

    async def _show_known_key(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Callers of this face may ask for their keys, wherever else their proof counts or does not."""
        assert self._proofs is not None
        try:
            caller = await self._proofs.find(scope)
        except InvalidToken as error:
            answer = self._error_answer(HTTPConnection(scope), error)
            answer.headers["WWW-Authenticate"] = self._proofs.challenge(error)
            await answer(scope, receive, send)
            return
        except PyocoError:
            caller = None  # then it is for the other faces' door to say
        if caller is None:
            await self._app(scope, receive, send)
            return
        note_caller(scope, caller)
        await self._inner(scope, receive, send)


class _Visit:
    """One request from the first byte to the last, for numbers and the line that is written of it."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._began = time.perf_counter()
        self.endpoint = UNKNOWN
        self.outcome = "ok"
        self.limit_headers: dict[str, str] = {}

    def write_down(self, observed: Any, status: int) -> None:
        latency_ms = (time.perf_counter() - self._began) * 1000
        observed.request(self.endpoint, self.outcome, latency_ms)
        connection = HTTPConnection(self._scope)
        caller = caller_of(connection)
        key = connection.headers.get(HEADER)
        fields = {
            "x_request_id": self._scope.get(REQUEST_ID),
            "client_id": client_of(caller),
            "tenant_id": tenant_of(caller),
            "method": self._scope["method"],
            "endpoint": self.endpoint,
            "http_status": status,
            "latency_ms": round(latency_ms, 3),
            "request_id": self._scope.get(ABOUT),
            "idempotency_key_hash": hashed(key) if key else None,
        }
        log.info(
            "recheck request", extra={name: value for name, value in fields.items() if value is not None}
        )


def _not_served(method: str, path: str) -> PyocoError:
    if methods := _TABLE.methods_at(path):
        return Invalid(f"{method} is not possible here; {' or '.join(methods)} is.")
    return NotFound("There is nothing at this address. The routes are described at /docs.", err_id="")
