"""From a JWT to its caller. RS256 only, by a key that we have; what a token says of itself is not believed.

A token that has proved itself is remembered by its digest for as long as it counts and the keys are the same:
most requests come with one that was here a moment ago, and a signature costs more than a look.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import jwt

from pyoco_server.api_keys import is_tenant_id
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unauthenticated
from pyoco_server.operations.identity.callers import DEFAULT_TENANT, Caller
from pyoco_server.operations.identity.failed_attempts import FailedAttempts
from pyoco_server.operations.identity.jwks import ALGORITHM, Jwks
from pyoco_server.printable import has_control

# The two products of the recheck face; everything else is ours (PYOCO_JWT_AUDIENCE).
RECHECK, GUI = "pdca", "pdca.gui"
INSTANTS = ("exp", "nbf", "iat")
TOKEN_CHARS_MAX = 8_192
SUBJECT_CHARS_MAX = 256
SCOPES_MAX = 100
REMEMBERED_MAX = 1024


class InvalidToken(Unauthenticated):
    """There is a token, and it is no proof."""

    def __init__(self, message: str) -> None:
        super().__init__(f"{message} Get a new token.", err_id="")


class _Proven(NamedTuple):
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
        self._proven: dict[bytes, _Proven] = {}

    def start(self) -> None:
        self.jwks.start()

    async def stop(self) -> None:
        await self.jwks.stop()

    async def caller(self, token: str, peer: str = "") -> Caller:
        """InvalidToken; Unavailable while we cannot know; Limited when this peer sent too many bad ones."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        proven = self._proven.get(digest)
        if proven is not None and self._still_holds(proven):
            return proven.caller
        self._failures.check(peer)
        try:
            caller = await self._proved(token)
        except InvalidToken:
            self._failures.note(peer)
            raise
        self._remember(digest, _Proven(caller, self.jwks.version))
        return caller

    def still_good(self, caller: Caller) -> bool:
        """It has not expired, and the key that signed it has not been withdrawn."""
        is_signed = caller.signed_by is None or self.jwks.has(caller.signed_by)
        return is_signed and time.time() < caller.good_until

    def _still_holds(self, proven: _Proven) -> bool:
        return proven.keys_version == self.jwks.version and self.still_good(proven.caller)

    def _remember(self, digest: bytes, proven: _Proven) -> None:
        self._proven.pop(digest, None)
        while len(self._proven) >= REMEMBERED_MAX:
            del self._proven[next(iter(self._proven))]
        self._proven[digest] = proven

    async def _proved(self, token: str) -> Caller:
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
                # The audience is ours to judge: a known but wrong one is another answer than a strange one.
                options={"require": ["exp", "sub", "iss", "aud"], "verify_aud": False},
            )
        except jwt.InvalidTokenError as error:
            raise InvalidToken(_said_of(error)) from None
        except (OverflowError, ValueError, TypeError):  # an instant that is no number, or no finite one
            raise InvalidToken("The token is not valid.") from None
        _check_instants(claims)
        return self._caller(claims, kid)

    def _caller(self, claims: Mapping[str, Any], kid: str) -> Caller:
        subject, tenant = claims["sub"], claims.get("tenant_id", DEFAULT_TENANT)
        if not 1 <= len(subject) <= SUBJECT_CHARS_MAX or has_control(subject):
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
            good_until=float(claims["exp"]) + self._leeway_sec,
        )

    def _known_audiences(self, aud: Any) -> frozenset[str]:
        named = [aud] if isinstance(aud, str) else aud if isinstance(aud, list) else []
        known = self._audiences.intersection(one for one in named if isinstance(one, str))
        if not known:
            raise InvalidToken("The token is for another audience.")
        return known


def _kid(token: str) -> str:
    """Nothing else of the header counts; it is only asked to be one that we can mean."""
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


def _check_instants(claims: Mapping[str, Any]) -> None:
    """Numbers, as RFC 7519 has them. The library also takes text of digits and truth values."""
    for name in INSTANTS:
        if name in claims and type(claims[name]) not in (int, float):
            raise InvalidToken(f"The token's {name} must be a number.")


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """A text of words or a list of them, in any case."""
    given = claims.get("scope")
    words = given.split() if isinstance(given, str) else given
    if not isinstance(words, list) or not all(isinstance(one, str) for one in words):
        raise InvalidToken("The token has no scope claim.")
    return frozenset(one.lower() for one in words[:SCOPES_MAX])


def _said_of(error: jwt.InvalidTokenError) -> str:
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
