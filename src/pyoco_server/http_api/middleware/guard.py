"""The outermost middleware: request ids, the refusal log, the limit of bodies, host and origin checks.

Without authentication anything that reaches the port may run code on the workers. So the gateway then serves
only loopback connections (unless configured otherwise), only known host names (against DNS rebinding) and
only its own pages (browsers send `Origin` and `Sec-Fetch-Site`).
"""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Forbidden, PyocoError, TooLarge
from pyoco_server.http_api.error_answers import CLIENT_CLOSED_REQUEST, error_answer, nothing_here
from pyoco_server.http_api.middleware.addresses import SELF_AUTHENTICATING, host_name, path_of
from pyoco_server.http_api.middleware.callers import REQUEST_ID
from pyoco_server.http_api.middleware.own_hosts import OwnHosts
from pyoco_server.http_api.middleware.refusal_log import VISIT, RefusalLog, Visit
from pyoco_server.http_api.middleware.start_wait import StartWait
from pyoco_server.http_api.middleware.tracing_headers import line_fields
from pyoco_server.http_api.requests.bodies import LENGTH_DIGITS_MAX
from pyoco_server.http_api.responses.error_table import FrameworkRefusal
from pyoco_server.ids import new_ulid
from pyoco_server.log_context import set_context

# None of these may come twice: two parsers could then use different values.
_LOOKED_AT = frozenset({b"host", b"origin", b"sec-fetch-site", b"content-length"})
_OWN_SITE = (b"same-origin", b"none")  # `none`: entered by the user, or a bookmark
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# Wheels and batches are larger than other bodies: their routes count the bytes against their own limits.
COUNTED_BY_THE_ROUTE = frozenset({("POST", "/wheels"), ("POST", "/runs/batch")})
# These faces check the size of a body after they have authenticated the caller.
COUNTED_BY_THE_FACE = tuple(f"/{step}/" for step in SELF_AUTHENTICATING)
NOT_LOOPBACK = (
    "Authentication is off: only connections to a loopback address are served. Set PYOCO_HTTP_AUTH_MODE, "
    "or PYOCO_ALLOW_UNAUTHENTICATED=1 if everything that can reach this address may run code on the workers."
)


class BodyTooLarge(TooLarge):
    """Raised by `receive`: it ends the code that reads the body, and is answered like any error."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(f"The body is larger than {bytes_max} bytes.", err_id="ERR-PYOCO-0002")


class RequestGuard:
    def __init__(
        self, app: ASGIApp, config: NatsBackendConfig, start_wait: StartWait, own_hosts: OwnHosts
    ) -> None:
        self._app = app
        self._start_wait = start_wait
        self._body_bytes_max = config.http_max_body_bytes
        self._open_to_all = not config.auth_methods
        self._only_loopback = self._open_to_all and not config.allow_unauthenticated
        self._own_hosts = own_hosts
        self._refusals = RefusalLog(config)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        visit = scope[VISIT] = Visit(new_ulid())
        scope[REQUEST_ID] = visit.request_id
        answer = _Answer(send, scope, visit, self._refusals)
        set_context(lambda: line_fields(scope))
        try:
            refused = self._refusal_of(scope)
            if refused is not None:
                await error_answer(HTTPConnection(scope), refused)(scope, receive, answer)
            else:
                if not self._start_wait.is_over:
                    await self._start_wait.wait(scope)
                capped = receive if _has_own_limit(scope) else _Capped(receive, self._body_bytes_max)
                await self._app(scope, capped, answer)
        except BodyTooLarge as error:
            if not answer.started:
                await error_answer(HTTPConnection(scope), error)(scope, receive, answer)
        except Exception as error:  # Starlette's own handler is outside and has no request id
            if answer.started and visit.error is not error:
                raise
            if not answer.started:  # else Starlette has answered it and raises it again
                await error_answer(HTTPConnection(scope), error)(scope, receive, answer)

    def _refusal_of(self, scope: Scope) -> PyocoError | None:
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name in _LOOKED_AT:
                if name in headers:
                    return FrameworkRefusal(400, f"The header {name.decode().title()} may come only once.")
                headers[name] = value
        if self._open_to_all and (refused := self._refusal_while_open(scope, headers)) is not None:
            return refused
        length = b"" if _has_own_limit(scope) else headers.get(b"content-length", b"")
        if length.isdigit() and (len(length) > LENGTH_DIGITS_MAX or int(length) > self._body_bytes_max):
            return BodyTooLarge(self._body_bytes_max)
        return None

    def _refusal_while_open(self, scope: Scope, headers: dict[bytes, bytes]) -> Forbidden | None:
        if self._only_loopback and not self._own_hosts.is_at_loopback(scope):
            return Forbidden(NOT_LOOPBACK, err_id="")
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._own_hosts.has(host, scope):
            return Forbidden("This host name is not served. Add it to PYOCO_ALLOWED_HOSTS.", err_id="")
        if self._is_foreign(scope, headers, host):
            return Forbidden("Requests from pages of other sites are refused.", err_id="")
        return None

    def _is_foreign(self, scope: Scope, headers: dict[bytes, bytes], host: str) -> bool:
        if scope["type"] == "http" and scope["method"] in SAFE_METHODS:
            return False
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
        if origin is not None:
            place = origin.decode("latin-1").partition("://")[2]
            if host_name(place) in self._own_hosts.allowed:
                return False  # an allowed host may be another site
            if place != host:
                return True
        return site is not None and site.lower() not in _OWN_SITE


class _Answer:
    """Adds the request id to every response, and logs refusals."""

    __slots__ = ("_refusals", "_scope", "_send", "_visit", "started")

    def __init__(self, send: Send, scope: Scope, visit: Visit, refusals: RefusalLog) -> None:
        self._send = send
        self._scope = scope
        self._visit = visit
        self._refusals = refusals
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "websocket.close" and not self.started:
            # From the router, where there is no such socket. The server would answer a bare 403.
            missing = error_answer(HTTPConnection(self._scope), nothing_here())
            await missing(self._scope, _no_more, self)
            return
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            self.started = True
            message["headers"] = [*message["headers"], (b"x-request-id", self._visit.request_id.encode())]
            if message["status"] >= 400 and message["status"] != CLIENT_CLOSED_REQUEST:
                self._refusals.write(self._scope, message["status"])
        elif message["type"] == "websocket.accept":
            self.started = True
        await self._send(message)


class _Capped:
    __slots__ = ("_bytes_max", "_left", "_receive")

    def __init__(self, receive: Receive, bytes_max: int) -> None:
        self._receive = receive
        self._bytes_max = self._left = bytes_max

    async def __call__(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise BodyTooLarge(self._bytes_max)
        return message


async def _no_more() -> Message:
    return {"type": "websocket.disconnect"}


def _has_own_limit(scope: Scope) -> bool:
    path = path_of(scope)
    return (scope.get("method"), path) in COUNTED_BY_THE_ROUTE or path.startswith(COUNTED_BY_THE_FACE)
