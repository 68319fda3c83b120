"""What wraps every operation of the recheck face: authentication, access, rate limit, timeout, errors, audit.

The face has its own order of checks, and each of its responses has the rate limit headers. So the general
authentication lets its requests pass, and they are checked here (docs/decisions/0020). The audit log gets one
line per request, without token, key or body. Rate limits have two families of headers: `X-RateLimit-…` and
those of the IETF draft.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from functools import wraps
from typing import NamedTuple

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from pyoco_server.errors import Forbidden, Invalid, Limited, NotFound, Unauthenticated, Unavailable
from pyoco_server.http_api.context import gateway_of
from pyoco_server.http_api.faces.recheck.errors import TABLE, word_of
from pyoco_server.http_api.faces.recheck.request_context import ABOUT
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.http_api.middleware.addresses import SELF_AUTHENTICATING, first_step, path_of
from pyoco_server.http_api.middleware.callers import REQUEST_ID, caller_of, limit_key_of, note_caller
from pyoco_server.http_api.requests.idempotency import HEADER
from pyoco_server.http_api.routing.operation import Operation, Serve
from pyoco_server.http_api.routing.path_table import PathTable
from pyoco_server.operations.idempotency.key_scope import hashed
from pyoco_server.operations.identity.callers import Caller, Scope
from pyoco_server.operations.identity.tokens import GUI, RECHECK
from pyoco_server.operations.rechecks.context import ANONYMOUS_CLIENT, client_of, tenant_of
from pyoco_server.token_bucket import WINDOW_SEC, Taken

log = logging.getLogger("pyoco_server.audit")

# The longest time until a response of this face.
ANSWER_SEC_MAX = 9.0
UNKNOWN = "unknown"
# The names of the rate limits.
READS_LIMIT, RECHECK_LIMIT, RECHECK_ALL_LIMIT = "reads", "recheck", "recheck_all"

# Raises Forbidden unless the address carries a valid signature.
CheckSignature = Callable[[Request], Awaitable[None]]


class Access(NamedTuple):
    """Sufficient scopes by audience. A caller without a token needs any one of them."""

    needs: dict[str, tuple[str, ...]]

    def check(self, caller: Caller) -> None:
        if caller.audiences is None:
            enough = tuple(dict.fromkeys(scope for need in self.needs.values() for scope in need))
        else:
            fitting = [need for audience, need in self.needs.items() if audience in caller.audiences]
            if not fitting:
                wanted = " or ".join(self.needs)
                raise Forbidden(f"This needs a token for the audience {wanted}.", err_id="")
            enough = tuple(dict.fromkeys(scope for need in fitting for scope in need))
        if not any(caller.may(scope) for scope in enough):
            raise Forbidden(f"This needs the scope {' or '.join(enough)}.", err_id="")


ASK = Access({RECHECK: (Scope.PDCA_RECHECK,)})
ASK_ALL = Access({RECHECK: (Scope.PDCA_RECHECK_ALL,)})
READ = Access({GUI: (Scope.PDCA_READ,)})
DOWNLOAD = Access({GUI: (Scope.PDCA_DOWNLOAD,)})
# A caller that may request a recheck may read its status too.
STATUS = Access(
    {RECHECK: (Scope.PDCA_RECHECK, Scope.PDCA_RECHECK_ALL, Scope.PDCA_READ), GUI: (Scope.PDCA_READ,)}
)
CHANGE = Access({RECHECK: (Scope.PDCA_ADMIN,), GUI: (Scope.PDCA_ADMIN,)})


def guarded(
    operation: Operation,
    access: Access | None,
    limit: str = READS_LIMIT,
    check_signature: CheckSignature | None = None,
) -> Operation:
    """The operation behind the checks of this face. With `check_signature` it needs no other credentials."""
    assert operation.serve is not None
    guard = _Guard(operation.path, operation.serve, access, limit, check_signature)

    @wraps(operation.serve)
    async def serve(request: Request) -> Response:
        return await guard.serve_within_limits(request)

    return replace(operation, serve=serve, is_hot=True)


class UnknownPaths(BaseRoute):
    """Requests below this face's paths that no operation serves. They are checked, counted and logged too."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._served = PathTable(operations)
        self._guard = _Guard(UNKNOWN, self._refuse, None)

    def matches(self, scope: AsgiScope) -> tuple[Match, AsgiScope]:
        path = path_of(scope)
        is_ours = scope["type"] == "http" and first_step(path) in SELF_AUTHENTICATING
        is_unknown = is_ours and self._served.find(scope["method"], path) is None
        return (Match.FULL if is_unknown else Match.NONE), {}

    async def handle(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        response = await self._guard.serve_within_limits(Request(scope, receive))
        await response(scope, receive, send)

    async def _refuse(self, request: Request) -> Response:
        if methods := self._served.methods_at(path_of(request.scope)):
            raise Invalid(f"{request.method} is not possible here; {' or '.join(methods)} is.")
        raise NotFound("There is nothing at this address. The routes are described at /docs.", err_id="")


@dataclass(frozen=True, slots=True)
class _Guard:
    """`endpoint`: the path template, in metrics and in the audit log. `access` None: any caller."""

    endpoint: str
    serve: Serve
    access: Access | None
    limit: str = READS_LIMIT
    check_signature: CheckSignature | None = None

    async def serve_within_limits(self, request: Request) -> Response:
        visit = _Visit(request, self.endpoint)
        try:
            async with asyncio.timeout(ANSWER_SEC_MAX):
                response = await self._serve(request, visit)
        except ClientDisconnect:
            raise  # there is no client to answer
        except TimeoutError:
            late = Unavailable("This could not be done in time. Try again, with the same key.")
            response = visit.refuse(late)
        except Exception as error:  # also a 500 has the limit headers and a line in the audit log
            response = visit.refuse(error)
        response.headers.update(visit.limit_headers)
        visit.record(response.status_code)
        return response

    async def _serve(self, request: Request, visit: _Visit) -> Response:
        gateway = gateway_of(request)
        caller = await self._authenticate(request, gateway)
        if self.access is not None:
            self.access.check(caller)
        gateway.check()
        whose = caller.principal or ANONYMOUS_CLIENT
        if self.check_signature is not None:
            # Before it is counted: each count is an entry at the broker, and anyone can make up addresses.
            await self.check_signature(request)
            whose = f"signed for {limit_key_of(request)}"
        taken = await _take(gateway, tenant_of(caller), whose, self.limit)
        visit.limit_headers = _limit_headers(self.limit, taken)
        if not taken.allowed:
            raise Limited(
                f"More than {taken.limit} requests of this kind ({self.limit}) in a minute. "
                f"Come back in {taken.retry_after_sec} s.",
                retry_after_sec=taken.retry_after_sec,
            )
        return await self.serve(request)

    async def _authenticate(self, request: Request, gateway: Gateway) -> Caller:
        if gateway.credentials is None or self.check_signature is not None:
            return caller_of(request)
        try:
            caller = await gateway.credentials.caller(request.scope)
        except Forbidden as error:
            # On this face an invalid API key is 401, as an invalid token is.
            raise Unauthenticated(error.message, err_id="") from None
        note_caller(request.scope, caller)
        return caller


class _Visit:
    """One request, for the metrics and its line in the audit log."""

    def __init__(self, request: Request, endpoint: str) -> None:
        self._request = request
        self._endpoint = endpoint
        self._began = time.perf_counter()
        self._outcome = "ok"
        self.limit_headers: dict[str, str] = {}

    def refuse(self, error: Exception) -> Response:
        self._outcome = word_of(error)
        answer = TABLE.answer(self._request, error)
        credentials = gateway_of(self._request).credentials
        if isinstance(error, Unauthenticated) and credentials is not None:
            answer.headers["WWW-Authenticate"] = credentials.challenge(error)
        return answer

    def record(self, status: int) -> None:
        latency_ms = (time.perf_counter() - self._began) * 1000
        request, scope = self._request, self._request.scope
        gateway_of(request).rechecks.counters.request(self._endpoint, self._outcome, latency_ms)
        caller = caller_of(request)
        key = request.headers.get(HEADER)
        fields = {
            "x_request_id": scope.get(REQUEST_ID),
            "client_id": client_of(caller),
            "tenant_id": tenant_of(caller),
            "method": request.method,
            "endpoint": self._endpoint,
            "http_status": status,
            "latency_ms": round(latency_ms, 3),
            "request_id": scope.get(ABOUT),
            "idempotency_key_hash": hashed(key) if key else None,
        }
        log.info(
            "recheck request", extra={name: value for name, value in fields.items() if value is not None}
        )


async def _take(gateway: Gateway, tenant: str, client: str, limit: str) -> Taken:
    config = gateway.config
    per_minute = {
        READS_LIMIT: config.recheck_reads_per_min,
        RECHECK_LIMIT: config.recheck_per_min,
        RECHECK_ALL_LIMIT: config.recheck_all_per_min,
    }
    return await gateway.store.limits.take(tenant, client, limit, per_minute=per_minute[limit])


def _limit_headers(limit: str, taken: Taken) -> dict[str, str]:
    return {
        "X-RateLimit-Limit": str(taken.limit),
        "X-RateLimit-Remaining": str(taken.remaining),
        "X-RateLimit-Reset": str(taken.reset_sec),
        "RateLimit-Policy": f'"{limit}";q={taken.limit};w={round(WINDOW_SEC)}',
        "RateLimit": f'"{limit}";r={taken.remaining};t={taken.reset_sec}',
    }
