"""At the door: who is asking, and may they do this? Before validation, and before the short way to routes.

Only here is a request's caller found out; routes ask `caller_of(request)`. Whatever is not public needs
one, so a new route is closed until somebody opens it. A stream ends when its caller is no longer welcome.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import ConfigError, PyocoError, Unauthenticated
from pyoco_server.http_api.addresses import path_of
from pyoco_server.http_api.answers import error_answer
from pyoco_server.http_api.callers import note_caller
from pyoco_server.http_api.keyed import loggable_path
from pyoco_server.http_api.scopes import scope_needed
from pyoco_server.operations.authenticate import KeyCheck
from pyoco_server.operations.callers import Caller

log = logging.getLogger(__name__)

PUBLIC = frozenset({"/", "/health", "/ready", "/docs", "/openapi.json", "/static"})
PUBLIC_BELOW = "/static/"
NO_LONGER_WELCOME = 1008

# Finds the caller by one kind of proof; None when the request carries none of that kind.
Method = Callable[[Scope], Awaitable[Caller | None]]


class Authentication:
    def __init__(self, app: ASGIApp, config: NatsBackendConfig, keys: KeyCheck, *more: Method) -> None:
        self._app = app
        self._keys = keys
        self._key_header = config.http_api_key_header
        self._methods: list[Method] = [*_methods(config, keys), *more]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        path = path_of(scope)
        if path in PUBLIC or path.startswith(PUBLIC_BELOW):
            await self._app(scope, receive, send)
            return
        try:
            caller = await self._caller(scope)
            needed = scope_needed(scope.get("method", "GET"), path)
            if needed is not None:
                caller.require(needed)
        except PyocoError as error:
            await self._refuse(error, scope, receive, send)
            return
        note_caller(scope, caller)
        if scope.get("method") == "GET":  # the only ones that may have no end
            send = _WhileWelcome(send, caller, self._keys.still_good)
        elif scope["type"] == "websocket":
            send = _TalkWhileWelcome(send, caller, self._keys.still_good)
        await self._app(scope, receive, send)

    async def _caller(self, scope: Scope) -> Caller:
        for method in self._methods:
            caller = await method(scope)
            if caller is not None:
                return caller
        raise Unauthenticated(f"An API key is needed. Send it in the header {self._key_header}.")

    async def _refuse(self, error: PyocoError, scope: Scope, receive: Receive, send: Send) -> None:
        known = error.details if isinstance(error.details, dict) else {}
        fields = {"err_id": error.err_id, "msg_id": error.msg_id, "path": loggable_path(scope), **known}
        log.info("caller refused", extra=fields)
        answer = error_answer(HTTPConnection(scope), error)
        if isinstance(error, Unauthenticated):
            answer.headers["WWW-Authenticate"] = f'ApiKey realm="pyoco-server", header="{self._key_header}"'
        await answer(scope, receive, send)


def with_security(schema: dict[str, Any], config: NatsBackendConfig) -> dict[str, Any]:
    """So that the page at /docs can be given a key."""
    by_key = {"type": "apiKey", "in": "header", "name": config.http_api_key_header}
    schema.setdefault("components", {})["securitySchemes"] = {"api_key": by_key}
    return schema | {"security": [{"api_key": []}]}


class ByApiKey:
    def __init__(self, config: NatsBackendConfig, keys: KeyCheck) -> None:
        self._header = config.http_api_key_header.lower().encode()
        self._keys = keys

    async def __call__(self, scope: Scope) -> Caller | None:
        for name, value in scope["headers"]:
            if name == self._header and value:
                return await self._keys.caller(value)
        return None


class _WhileWelcome:
    """Lets an answer through. One without an end is ended when its caller's key is: nothing leaves after."""

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


class _TalkWhileWelcome:
    """The same for a socket: it is closed when its caller's key has ended."""

    __slots__ = ("_caller", "_ended", "_send", "_still_good")

    def __init__(self, send: Send, caller: Caller, still_good: Callable[[Caller], bool]) -> None:
        self._send = send
        self._caller = caller
        self._still_good = still_good
        self._ended = False

    async def __call__(self, message: Message) -> None:
        if self._ended:
            return
        if message["type"] == "websocket.send" and not self._still_good(self._caller):
            self._ended = True
            message = {"type": "websocket.close", "code": NO_LONGER_WELCOME}
        await self._send(message)


def _methods(config: NatsBackendConfig, keys: KeyCheck) -> list[Method]:
    if "jwt" in config.auth_methods:
        raise ConfigError(
            "PYOCO_HTTP_AUTH_MODE names jwt, which this version does not have yet; write api_key."
        )
    return [ByApiKey(config, keys)]
