"""Opaque tokens: a position that clients send back unchanged, for the same query only.

A token contains a position and a code (HMAC) over the position, the kind of token and the query (filters,
tenant, resource). A token of another kind or query, or with another code, is refused. The position is not
secret: the code prevents changes, not reading.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence

import msgspec

VERSION = b"1"
CODE_BYTES = 16
TOKEN_CHARS_MAX = 512
SECRET_BYTES = 32

Scope = Mapping[str, str | int | float | None]

_decode = msgspec.json.Decoder(list[int]).decode


class TokenRefused(ValueError):
    """Not a valid token, or a token for another query."""


def seal(secret: bytes, kind: str, scope: Scope, position: Sequence[int]) -> str:
    written = msgspec.json.encode(list(position))
    sealed = VERSION + _code(secret, kind, scope, written) + written
    return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()


def sealer(secret: bytes, kind: str, scope: Scope) -> Callable[[Sequence[int]], str]:
    """`seal` for many positions of one kind and scope: their common part is encoded once."""
    prefix = _prefix(kind, scope)

    def sealed(position: Sequence[int]) -> str:
        written = b"[%b]" % b",".join(b"%d" % number for number in position)
        code = hmac.digest(secret, prefix + written, hashlib.sha256)[:CODE_BYTES]
        return base64.urlsafe_b64encode(VERSION + code + written).rstrip(b"=").decode()

    return sealed


def unseal(secret: bytes, kind: str, scope: Scope, token: str) -> list[int]:
    """The position that was sealed for this kind and scope. Raises TokenRefused for anything else."""
    sealed = _bytes_of(token)
    code, written = sealed[len(VERSION) : len(VERSION) + CODE_BYTES], sealed[len(VERSION) + CODE_BYTES :]
    known = sealed.startswith(VERSION) and hmac.compare_digest(code, _code(secret, kind, scope, written))
    if not known:
        raise TokenRefused("not a token for this")
    return _decode(written)


def _bytes_of(token: str) -> bytes:
    if len(token) > TOKEN_CHARS_MAX:
        raise TokenRefused("too long for a token")
    try:
        text = token.encode("ascii")
        sealed = base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise TokenRefused("not a token") from error
    # Two texts may decode to the same bytes; only the canonical one is valid.
    if base64.urlsafe_b64encode(sealed).rstrip(b"=") != text:
        raise TokenRefused("not a token")
    return sealed


def _code(secret: bytes, kind: str, scope: Scope, written: bytes) -> bytes:
    return hmac.digest(secret, _prefix(kind, scope) + written, hashlib.sha256)[:CODE_BYTES]


def _prefix(kind: str, scope: Scope) -> bytes:
    bound = msgspec.json.encode([kind, dict(scope)], order="sorted")
    # The length in front separates the bound part from the position.
    return VERSION + len(bound).to_bytes(4, "big") + bound
