"""Before any route: a request id for every answer, a cap on bodies, and no strangers while there are no keys.

Without authentication anything that reaches the port may run code on the workers. So the gateway answers
only to names it knows (DNS rebinding sends others) and to pages it served itself (browsers send `Origin`).
"""

from __future__ import annotations

from starlette.requests import HTTPConnection, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Forbidden, PyocoError, TooLarge
from pyoco_server.http_api.addresses import host_name, is_loopback, path_of
from pyoco_server.http_api.answers import error_answer, on_unexpected
from pyoco_server.ids import new_ulid

_LOOKED_AT = frozenset({b"host", b"origin", b"content-length"})
KNOWN_HOSTS_MAX = 64
LENGTH_DIGITS_MAX = 18  # a number with thousands of them is not even worth reading
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# Wheels are larger than any other body: their route has a limit of its own, and counts for itself.
COUNTED_BY_THE_ROUTE = ("POST", "/wheels")
# This face looks at a body's size after it knows who sent it.
COUNTED_BY_THE_FACE = ("/pdca/", "/gui/")
# In the scope: what the answer's `X-Request-Id` will say.
REQUEST_ID = "pyoco.request_id"


class BodyTooLarge(TooLarge):
    """Raised out of `receive`; whoever reads the body is ended by it, and it is answered like any error."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(f"The body is larger than {bytes_max} bytes.", err_id="ERR-PYOCO-0002")


class Guard:
    def __init__(self, app: ASGIApp, config: NatsBackendConfig) -> None:
        self._app = app
        self._body_bytes_max = config.http_max_body_bytes
        self._open_to_all = not config.auth_methods
        self._allowed = {name.lower() for name in config.allowed_host_names}
        self._hosts = {"localhost", config.http_host.strip("[]").lower()} | self._allowed
        self._known_hosts: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        answer = _WithRequestId(send)
        scope[REQUEST_ID] = answer.request_id
        try:
            refused = self._refused(scope)
            if refused is not None:
                await error_answer(HTTPConnection(scope), refused)(scope, receive, answer)
            else:
                capped = receive if _has_own_limit(scope) else _Capped(receive, self._body_bytes_max)
                await self._app(scope, capped, answer)
        except BodyTooLarge as error:
            if not answer.started:
                await error_answer(Request(scope), error)(scope, receive, answer)
        except Exception as error:  # the framework's last resort stands outside and knows no request id
            if answer.started or scope["type"] != "http":
                raise
            await (await on_unexpected(Request(scope), error))(scope, receive, answer)

    def _refused(self, scope: Scope) -> PyocoError | None:
        headers = {name: value for name, value in scope["headers"] if name in _LOOKED_AT}
        if self._open_to_all:
            host = headers.get(b"host", b"").decode("latin-1")
            if host not in self._known_hosts and not self._is_ours(host):
                return Forbidden("This host name is not served. Add it to PYOCO_ALLOWED_HOSTS.", err_id="")
            if b"origin" in headers and self._is_foreign(scope, headers[b"origin"].decode("latin-1"), host):
                return Forbidden("Requests from pages of other sites are refused.", err_id="")
        length = b"" if _has_own_limit(scope) else headers.get(b"content-length", b"")
        if length.isdigit() and (len(length) > LENGTH_DIGITS_MAX or int(length) > self._body_bytes_max):
            return BodyTooLarge(self._body_bytes_max)
        return None

    def _is_ours(self, host: str) -> bool:
        name = host_name(host)
        ours = name in self._hosts or is_loopback(name)
        if ours and len(self._known_hosts) < KNOWN_HOSTS_MAX:
            self._known_hosts.add(host)
        return ours

    def _is_foreign(self, scope: Scope, origin: str, host: str) -> bool:
        if scope["type"] == "http" and scope["method"] in SAFE_METHODS:
            return False
        place = origin.partition("://")[2]
        return place != host and host_name(place) not in self._allowed


class _WithRequestId:
    __slots__ = ("_send", "request_id", "started")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.request_id = new_ulid()
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            self.started = True
            message["headers"] = [*message["headers"], (b"x-request-id", self.request_id.encode())]
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


def _has_own_limit(scope: Scope) -> bool:
    path = path_of(scope)
    return (scope.get("method"), path) == COUNTED_BY_THE_ROUTE or path.startswith(COUNTED_BY_THE_FACE)
