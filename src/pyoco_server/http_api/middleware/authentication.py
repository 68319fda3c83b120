"""Authenticates the caller and checks its scope, before any route and before hot routes.

Routes get the caller from `caller_of(request)`. Every path that is not public needs credentials, so a new
route is closed by default. An open stream ends when the credentials of its caller are no longer valid.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import PyocoError, Unauthenticated
from pyoco_server.http_api.error_answers import error_answer
from pyoco_server.http_api.middleware.addresses import SELF_AUTHENTICATING, first_step, is_public, path_of
from pyoco_server.http_api.middleware.callers import note_caller
from pyoco_server.http_api.middleware.credentials import Authenticators, Credentials, Method, security_schemes
from pyoco_server.http_api.middleware.scopes import check_scope
from pyoco_server.http_api.routing.schemas import Schema
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.identity.tokens import InvalidToken

POLICY_VIOLATION = 1008
# First step of the path where idempotency keys are looked up.
IDEMPOTENCY_KEYS = "idempotency"


class Authentication:
    def __init__(
        self,
        app: ASGIApp,
        config: NatsBackendConfig,
        checks: Authenticators,
        *more: Method,
        known: Credentials | None = None,
    ) -> None:
        """`more`: methods besides headers. `known`: credentials of any face, to look up idempotency keys."""
        credentials = Credentials(config, checks, *more)
        self._app = app
        self._checks = checks
        self._known = known or credentials
        # None: routes need no credentials, unless their face authenticates callers itself.
        self._needed = credentials if config.auth_methods else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        path = path_of(scope)
        if is_public(path) or (scope["type"] == "http" and first_step(path) in SELF_AUTHENTICATING):
            await self._app(scope, receive, send)
            return
        try:
            caller = await self._caller(scope, path)
        except PyocoError as error:
            await self._refuse(error, scope, receive, send)
            return
        if caller is not None:
            note_caller(scope, caller)
            if scope.get("method") == "GET":  # the only responses that may be endless
                send = _WhileAuthorized(send, caller, self._checks.still_good)
            elif scope["type"] == "websocket":
                talk = _SocketWhileAuthorized(receive, send, caller, self._checks.still_good)
                receive, send = talk.receive, talk
        await self._app(scope, receive, send)

    async def _caller(self, scope: Scope, path: str) -> Caller | None:
        """None where no credentials are needed."""
        is_lookup = first_step(path) == IDEMPOTENCY_KEYS and scope.get("method") == "GET"
        caller = await self._owner_of_keys(scope) if is_lookup else None
        if caller is None and self._needed is not None:
            caller = await self._needed.caller(scope)
            check_scope(caller, scope.get("method", "GET"), path)
        return caller

    async def _owner_of_keys(self, scope: Scope) -> Caller | None:
        """Callers of every face may look up their idempotency keys, with the credentials of that face."""
        try:
            return await self._known.find(scope)
        except InvalidToken:
            raise
        except PyocoError:
            return None  # then the credentials that other routes need decide

    async def _refuse(self, error: PyocoError, scope: Scope, receive: Receive, send: Send) -> None:
        answer = error_answer(HTTPConnection(scope), error)
        if isinstance(error, Unauthenticated):
            answer.headers["WWW-Authenticate"] = (self._needed or self._known).challenge(error)
        await answer(scope, receive, send)


def with_security(schema: Schema, config: NatsBackendConfig) -> Schema:
    """The document with security schemes, so that /docs accepts a key or a token."""
    schemes = security_schemes(config, config.auth_methods)
    schema.setdefault("components", {}).setdefault("securitySchemes", {}).update(schemes)
    return schema | {"security": [{name: []} for name in schemes]}


class _WhileAuthorized:
    """Passes a response on. An endless one ends when the credentials of its caller are no longer valid."""

    __slots__ = ("_caller", "_ended", "_endless", "_send", "_still_good")

    def __init__(self, send: Send, caller: Caller, still_good: Callable[[Caller], bool]) -> None:
        self._send = send
        self._caller = caller
        self._still_good = still_good
        self._endless = False
        self._ended = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._endless = b"content-length" not in dict(message["headers"])
        elif self._endless and message.get("more_body") and not self._still_good(self._caller):
            message = {**message, "body": b"", "more_body": False}
        if not self._ended:
            self._ended = self._endless and message.get("more_body") is False
            await self._send(message)


class _SocketWhileAuthorized:
    """The same for a WebSocket, in both directions."""

    __slots__ = ("_caller", "_ended", "_receive", "_send", "_still_good")

    def __init__(
        self, receive: Receive, send: Send, caller: Caller, still_good: Callable[[Caller], bool]
    ) -> None:
        self._receive = receive
        self._send = send
        self._caller = caller
        self._still_good = still_good
        self._ended = False

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "websocket.receive" and not self._still_good(self._caller):
            await self._end()
            return {"type": "websocket.disconnect", "code": POLICY_VIOLATION}
        return message

    async def __call__(self, message: Message) -> None:
        if self._ended:
            return
        if message["type"] == "websocket.send" and not self._still_good(self._caller):
            await self._end()
            return
        await self._send(message)

    async def _end(self) -> None:
        if not self._ended:
            self._ended = True
            await self._send({"type": "websocket.close", "code": POLICY_VIOLATION})
