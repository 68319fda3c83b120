"""Authenticate JWTs: RS256 only, with a key of the JWKS. Nothing in an unverified token is trusted.

A token that was accepted is cached by its digest until it expires or the keys change: most requests use a
token that was used a moment ago, and a look-up is cheaper than a signature check.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import NamedTuple

import jwt

from pyoco_server.api_keys import is_tenant_id
from pyoco_server.config import NatsBackendConfig
from pyoco_server.operations.bounded_dict import put_bounded
from pyoco_server.operations.identity.callers import DEFAULT_TENANT, Caller
from pyoco_server.operations.identity.failed_attempts import FailedAttempts
from pyoco_server.operations.identity.jwks import ALGORITHM, Jwks
from pyoco_server.operations.identity.tokens import GUI, RECHECK, InvalidToken
from pyoco_server.printable import has_control

INSTANTS = ("exp", "nbf", "iat")
TOKEN_CHARS_MAX = 8_192
SUBJECT_CHARS_MAX = 256
SCOPES_MAX = 100
CACHED_MAX = 1024


class _CachedToken(NamedTuple):
    caller: Caller
    keys_version: int


class JwtCheck:
    """Lives as long as its gateway."""

    def __init__(self, config: NatsBackendConfig, failures: FailedAttempts | None = None) -> None:
        self._failures = FailedAttempts(0) if failures is None else failures
        self.jwks = Jwks(config.jwt_jwks)
        self._issuer = config.jwt_issuer
        self._leeway_sec = config.jwt_leeway_sec
        self._audiences = frozenset({RECHECK, GUI, config.jwt_audience})
        self._cache: dict[bytes, _CachedToken] = {}

    def start(self) -> None:
        self.jwks.start()

    async def stop(self) -> None:
        await self.jwks.stop()

    async def caller(self, token: str, peer: str = "") -> Caller:
        """InvalidToken; Unavailable while tokens cannot be checked; Limited after too many invalid ones."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        cached = self._cache.get(digest)
        if cached is not None and self._is_current(cached):
            return cached.caller
        self._failures.check(peer)
        try:
            caller = await self._authenticate(token)
        except InvalidToken:
            self._failures.note(peer)
            raise
        put_bounded(self._cache, digest, _CachedToken(caller, self.jwks.version), CACHED_MAX)
        return caller

    def still_good(self, caller: Caller) -> bool:
        """Whether the token has not expired and the JWKS still has the key that signed it."""
        is_signed = caller.signed_by is None or self.jwks.has(caller.signed_by)
        return is_signed and time.time() < caller.good_until

    def _is_current(self, cached: _CachedToken) -> bool:
        return cached.keys_version == self.jwks.version and self.still_good(cached.caller)

    async def _authenticate(self, token: str) -> Caller:
        kid = _kid(token)
        key = await self.jwks.key(kid)
        if key is None:
            raise InvalidToken("The token's key (kid) is not known.")
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=[ALGORITHM],
                issuer=self._issuer,
                leeway=self._leeway_sec,
                # Checked below: a known but wrong audience gets another error than an unknown one.
                options={"require": ["exp", "sub", "iss", "aud"], "verify_aud": False},
            )
        except jwt.InvalidTokenError as error:
            raise InvalidToken(_error_text(error)) from None
        except (OverflowError, ValueError, TypeError):  # an instant that is no number, or no finite one
            raise InvalidToken("The token is not valid.") from None
        _check_instants(claims)
        return self._caller(claims, kid, float(claims["exp"]))

    def _caller(self, claims: Mapping[str, object], kid: str, expires_at: float) -> Caller:
        subject, tenant = claims["sub"], claims.get("tenant_id", DEFAULT_TENANT)
        if not isinstance(subject, str) or not 1 <= len(subject) <= SUBJECT_CHARS_MAX or has_control(subject):
            raise InvalidToken(
                f"The token's sub must have 1 to {SUBJECT_CHARS_MAX} characters, without control characters."
            )
        if not isinstance(tenant, str) or not is_tenant_id(tenant):
            raise InvalidToken("The token's tenant_id must be 1 to 64 letters, digits, '_' or '-'.")
        return Caller(
            tenant_id=tenant,
            id=subject,
            scopes=_scopes(claims),
            audiences=self._known_audiences(claims["aud"]),
            issuer=self._issuer,
            signed_by=kid,
            good_until=expires_at + self._leeway_sec,
        )

    def _known_audiences(self, aud: object) -> frozenset[str]:
        named = [aud] if isinstance(aud, str) else aud if isinstance(aud, list) else []
        known = self._audiences.intersection(one for one in named if isinstance(one, str))
        if not known:
            raise InvalidToken("The token is for another audience.")
        return known


def _kid(token: str) -> str:
    """The only member of the header that is used. The others are checked for what is supported."""
    if len(token) > TOKEN_CHARS_MAX:
        raise InvalidToken(f"The token is longer than {TOKEN_CHARS_MAX} characters.")
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.InvalidTokenError, ValueError, RecursionError):
        raise InvalidToken("This is no JWT.") from None
    if header.get("alg") != ALGORITHM:
        raise InvalidToken(f"The token must be signed with {ALGORITHM}.")
    if "crit" in header:
        raise InvalidToken("The token asks for something (crit) that is not understood here.")
    kid = header.get("kid")
    if not isinstance(kid, str) or not kid:
        raise InvalidToken("The token does not name its key (kid).")
    return kid


def _check_instants(claims: Mapping[str, object]) -> None:
    """Instants must be numbers (RFC 7519). The library also accepts strings of digits and booleans."""
    for name in INSTANTS:
        if name in claims and type(claims[name]) not in (int, float):
            raise InvalidToken(f"The token's {name} must be a number.")


def _scopes(claims: Mapping[str, object]) -> frozenset[str]:
    """A string of words or a list of strings, in upper or lower case."""
    given = claims.get("scope")
    words = given.split() if isinstance(given, str) else given
    if not isinstance(words, list) or not all(isinstance(one, str) for one in words):
        raise InvalidToken("The token has no scope claim.")
    return frozenset(one.lower() for one in words[:SCOPES_MAX])


def _error_text(error: jwt.InvalidTokenError) -> str:
    match error:
        case jwt.ExpiredSignatureError():
            return "The token has expired."
        case jwt.ImmatureSignatureError():
            return "The token is not valid yet."
        case jwt.InvalidSignatureError():
            return "The token's signature is wrong."
        case jwt.InvalidIssuerError():
            return "The token is of another issuer."
        case jwt.MissingRequiredClaimError():
            return f"The token has no claim {error.claim}."
        case _:
            return "The token is not valid."
