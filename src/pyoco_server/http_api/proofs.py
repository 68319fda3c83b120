"""How callers prove who they are: one kind of proof after the other. Finds callers; decides nothing else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, NamedTuple

from starlette.types import Scope

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unauthenticated
from pyoco_server.operations.authenticate import KeyCheck
from pyoco_server.operations.authenticate_jwt import InvalidToken, JwtCheck
from pyoco_server.operations.callers import Caller

BEARER = b"bearer "

# Finds the caller by one kind of proof; None when the request carries none of that kind.
Method = Callable[[Scope], Awaitable[Caller | None]]


class Checks(NamedTuple):
    """What proofs are checked with; None for a kind that is not accepted anywhere."""

    keys: KeyCheck | None = None
    tokens: JwtCheck | None = None

    def still_good(self, caller: Caller) -> bool:
        """For what lasts longer than a moment: a stream that began with a good proof."""
        if caller.audiences is not None:
            return self.tokens is not None and self.tokens.still_good(caller)
        return self.keys is None or self.keys.still_good(caller)


class Proofs:
    """Those that are accepted in one place, in the order in which they are looked for."""

    def __init__(self, config: NatsBackendConfig, checks: Checks, *more: Method) -> None:
        self._key_header = config.http_api_key_header
        self._takes_keys, self._takes_tokens = checks.keys is not None, checks.tokens is not None
        self._methods = [*_methods(config, checks), *more]

    async def caller(self, scope: Scope) -> Caller:
        caller = await self.find(scope)
        if caller is None:
            raise Unauthenticated(f"{' or '.join(self._wanted())}.")
        return caller

    async def find(self, scope: Scope) -> Caller | None:
        """None when the request carries no proof at all; a bad one is refused."""
        for method in self._methods:
            caller = await method(scope)
            if caller is not None:
                return caller
        return None

    def challenge(self, error: Unauthenticated) -> str:
        """What `WWW-Authenticate` says."""
        if isinstance(error, InvalidToken):
            said = error.message.replace('"', "'")
            return f'Bearer realm="pyoco-server", error="invalid_token", error_description="{said}"'
        by_token = ['Bearer realm="pyoco-server"'] if self._takes_tokens else []
        by_key = [f'ApiKey realm="pyoco-server", header="{self._key_header}"'] if self._takes_keys else []
        return ", ".join(by_token + by_key)

    def _wanted(self) -> Sequence[str]:
        by_key = f"An API key is needed. Send it in the header {self._key_header}"
        by_token = "A token is needed. Send it as Authorization: Bearer <JWT>"
        if self._takes_keys and self._takes_tokens:
            return [by_token, f"an API key in the header {self._key_header}"]
        return [by_token] if self._takes_tokens else [by_key]


def _methods(config: NatsBackendConfig, checks: Checks) -> Sequence[Method]:
    by_token = [ByToken(checks.tokens)] if checks.tokens is not None else []
    by_key = [ByApiKey(config, checks.keys)] if checks.keys is not None else []
    return [*by_token, *by_key]


def security_schemes(config: NatsBackendConfig, methods: Collection[str]) -> dict[str, Any]:
    """How OpenAPI describes these kinds of proof."""
    by_key = {"type": "apiKey", "in": "header", "name": config.http_api_key_header}
    by_token = {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
    known = {"api_key": by_key, "jwt": by_token}
    return {name: known[name] for name in sorted(methods)}


class ByApiKey:
    def __init__(self, config: NatsBackendConfig, keys: KeyCheck) -> None:
        self._header = config.http_api_key_header.lower().encode()
        self._keys = keys

    async def __call__(self, scope: Scope) -> Caller | None:
        for name, value in scope["headers"]:
            if name == self._header and value:
                return await self._keys.caller(value)
        return None


class ByToken:
    def __init__(self, tokens: JwtCheck) -> None:
        self._tokens = tokens

    async def __call__(self, scope: Scope) -> Caller | None:
        for name, value in scope["headers"]:
            if name == b"authorization" and value[: len(BEARER)].lower() == BEARER:
                return await self._tokens.caller(value[len(BEARER) :].strip().decode("latin-1"))
        return None
