"""Before any route: a request id for every answer, a cap on bodies, and no strangers while there are no keys.

Without authentication anything that reaches the port may run code on the workers. So the gateway answers
only to names it knows (DNS rebinding sends others) and to pages it served itself (browsers send `Origin`).
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Forbidden, PyocoError, TooLarge
from pyoco_server.http_api.answers import error_answer
from pyoco_server.http_api.request_id import new_ulid

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class BodyTooLarge(Exception):
    """Raised out of `receive`; whoever reads the body is ended by it."""


class Guard:
    def __init__(self, app: ASGIApp, config: NatsBackendConfig) -> None:
        self._app = app
        self._body_bytes_max = config.http_max_body_bytes
        self._open_to_all = not config.auth_methods
        self._hosts = {"localhost", config.http_host.strip("[]").lower()}
        self._hosts |= {name.lower() for name in config.allowed_host_names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        answer = _WithRequestId(send)
        headers = Headers(scope=scope)
        refused = self._refused(scope, headers)
        if refused is not None:
            await error_answer(Request(scope), refused)(scope, receive, answer)
            return
        try:
            await self._app(scope, _Capped(receive, self._body_bytes_max), answer)
        except BodyTooLarge:
            if not answer.started:
                await error_answer(Request(scope), self._too_large())(scope, receive, answer)

    def _refused(self, scope: Scope, headers: Headers) -> PyocoError | None:
        if self._open_to_all:
            if not self._is_ours(headers.get("host", "")):
                return Forbidden("This host name is not served. Add it to PYOCO_ALLOWED_HOSTS.", err_id="")
            if self._is_foreign(scope, headers):
                return Forbidden("Requests from pages of other sites are refused.", err_id="")
        length = headers.get("content-length", "")
        if length.isdigit() and int(length) > self._body_bytes_max:
            return self._too_large()
        return None

    def _is_ours(self, host: str) -> bool:
        name = (urlsplit(f"//{host}").hostname or "").lower()
        return name in self._hosts or _is_loopback(name)

    def _is_foreign(self, scope: Scope, headers: Headers) -> bool:
        origin = headers.get("origin")
        if origin is None or (scope["type"] == "http" and scope["method"] in SAFE_METHODS):
            return False
        place = urlsplit(origin)
        return place.netloc != headers.get("host") and (place.hostname or "") not in self._hosts - {
            "localhost"
        }

    def _too_large(self) -> TooLarge:
        return TooLarge(f"The body is larger than {self._body_bytes_max} bytes.", err_id="ERR-PYOCO-0002")


class _WithRequestId:
    __slots__ = ("_send", "started")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            message["headers"] = [*message["headers"], (b"x-request-id", new_ulid().encode())]
        await self._send(message)


class _Capped:
    __slots__ = ("_left", "_receive")

    def __init__(self, receive: Receive, bytes_max: int) -> None:
        self._receive = receive
        self._left = bytes_max

    async def __call__(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise BodyTooLarge
        return message


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
