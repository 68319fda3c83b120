"""Credentials of callers: an API key or a JWT in a header, or another method that is added.

An API key is sent in its own header or as `Authorization: Bearer`. A key begins with `pyoco_`, which no JWT
does, so the two kinds of bearer tokens cannot be confused. Finds callers; decides nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from starlette.types import Scope

from pyoco_server.api_keys import KEY_PREFIX
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Forbidden, Unauthenticated
from pyoco_server.http_api.routing.schemas import Schema
from pyoco_server.operations.identity.authenticate import KeyCheck
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.identity.tokens import InvalidToken

if TYPE_CHECKING:
    from pyoco_server.operations.identity.authenticate_jwt import JwtCheck

AUTHORIZATION = b"authorization"
BEARER = b"bearer "
_KEY_PREFIX = KEY_PREFIX.encode()

# Finds the caller by one kind of credential; None when the request has none of that kind.
Method = Callable[[Scope], Awaitable[Caller | None]]


class Authenticators(NamedTuple):
    """The checks by kind of credential; None for a kind that is not accepted."""

    keys: KeyCheck | None = None
    tokens: JwtCheck | None = None

    def still_good(self, caller: Caller) -> bool:
        """For open streams: whether the credentials they were opened with are still valid."""
        if caller.audiences is not None:
            return self.tokens is not None and self.tokens.still_good(caller)
        return self.keys is None or self.keys.still_good(caller)


class Credentials:
    """The credentials that are accepted: headers first, then the other methods in their order."""

    def __init__(self, config: NatsBackendConfig, checks: Authenticators, *more: Method) -> None:
        self._key_header = config.http_api_key_header
        self._takes_keys, self._takes_tokens = checks.keys is not None, checks.tokens is not None
        self._by_header = ByHeader(config, checks)
        self._methods: Sequence[Method] = [self._by_header, *more]

    async def caller(self, scope: Scope) -> Caller:
        caller = self._by_header.find_cached(scope) or await self.find(scope)
        if caller is None:
            raise Unauthenticated(f"{' or '.join(self._wanted())}.")
        return caller

    async def find(self, scope: Scope) -> Caller | None:
        """None when the request has no credentials; invalid ones are refused."""
        for method in self._methods:
            caller = await method(scope)
            if caller is not None:
                return caller
        return None

    def challenge(self, error: Unauthenticated) -> str:
        """The value of `WWW-Authenticate`."""
        if isinstance(error, InvalidToken):
            why = error.public_message.replace('"', "'")
            return f'Bearer realm="pyoco-server", error="invalid_token", error_description="{why}"'
        by_bearer = ['Bearer realm="pyoco-server"']
        by_key = [f'ApiKey realm="pyoco-server", header="{self._key_header}"'] if self._takes_keys else []
        return ", ".join(by_bearer + by_key if self._takes_tokens else by_key + by_bearer)

    def _wanted(self) -> Sequence[str]:
        by_key = f"An API key is needed. Send it in the header {self._key_header}"
        by_token = "A token is needed. Send it as Authorization: Bearer <JWT>"
        if self._takes_keys and self._takes_tokens:
            return [by_token, f"an API key in the header {self._key_header}, or as the bearer token"]
        return [by_token] if self._takes_tokens else [by_key, "as Authorization: Bearer <key>"]


def security_schemes(config: NatsBackendConfig, methods: Collection[str]) -> dict[str, Schema]:
    """The OpenAPI security schemes of these methods."""
    by_key = {"type": "apiKey", "in": "header", "name": config.http_api_key_header}
    by_token = {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
    known: dict[str, Schema] = {"api_key": by_key, "jwt": by_token}
    schemes = {name: known[name] for name in sorted(methods)}
    if "api_key" in schemes:
        schemes["api_key_bearer"] = {"type": "http", "scheme": "bearer", "bearerFormat": "API key"}
    return schemes


class _Sent(NamedTuple):
    """A credential as it was sent; `is_key`: an API key, else a JWT."""

    is_key: bool
    value: bytes


class ByHeader:
    """The API key's header and `Authorization: Bearer`. If both are sent, they must be equal."""

    def __init__(self, config: NatsBackendConfig, checks: Authenticators) -> None:
        self._header = config.http_api_key_header.lower().encode()
        self._header_name = config.http_api_key_header
        self._keys, self._tokens = checks.keys, checks.tokens
        # Without keys their header means nothing.
        self._names = {AUTHORIZATION, self._header} if checks.keys is not None else {AUTHORIZATION}

    def find_cached(self, scope: Scope) -> Caller | None:
        """The caller with a key that was accepted a moment ago: nearly all requests with a key."""
        sent = self._sent(scope) if self._keys is not None else None
        if sent is None or not sent.is_key or self._keys is None:
            return None
        return self._keys.find_cached(hashlib.sha256(sent.value).digest())

    async def __call__(self, scope: Scope) -> Caller | None:
        sent = self._sent(scope)
        if sent is None:
            return None
        if sent.is_key:
            assert self._keys is not None
            return await self._keys.caller(sent.value, _peer(scope))
        assert self._tokens is not None
        return await self._tokens.caller(sent.value.decode("latin-1"), _peer(scope))

    def _sent(self, scope: Scope) -> _Sent | None:
        """None when there is none. Raises Forbidden when there are two different ones."""
        mentions = [header for header in scope["headers"] if header[0] in self._names]
        if len(mentions) == 1 and mentions[0][0] != AUTHORIZATION and mentions[0][1]:  # the usual request
            return _Sent(True, mentions[0][1])
        by_header, by_bearer = set[_Sent](), set[_Sent]()
        for name, value in mentions:
            if name == AUTHORIZATION and value[: len(BEARER)].lower() == BEARER:
                token = value[len(BEARER) :].strip()
                if token:
                    by_bearer.add(_Sent(self._is_key(token), token))
            elif name == self._header and value and self._keys is not None:
                by_header.add(_Sent(True, value))
        if by_header and self._tokens is None:
            # A bearer token of a proxy is ignored; only an API key counts.
            by_bearer = {one for one in by_bearer if one.value.startswith(_KEY_PREFIX)}
        sent = by_header | by_bearer
        if len(sent) > 1:
            raise Forbidden(
                f"The request carries more than one key or token (headers {self._header_name} and "
                "Authorization), and they differ. Send one of them."
            )
        return next(iter(sent), None)

    def _is_key(self, bearer: bytes) -> bool:
        if self._keys is None or self._tokens is None:
            return self._tokens is None
        return bearer.startswith(_KEY_PREFIX)


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""
