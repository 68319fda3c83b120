"""Opaque tokens: a place that we hand out and want back unchanged, for the same question only.

A token is a position and a code over it, over what kind of place it is, and over what was asked (filters,
tenant, resource). A token of another kind, of another question, or of another making does not open. Nothing
in it is secret: it is closed against change, not against reading.
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
    """Not a token of ours, or one for something else."""


def seal(secret: bytes, kind: str, scope: Scope, position: Sequence[int]) -> str:
    written = msgspec.json.encode(list(position))
    sealed = VERSION + _code(secret, kind, scope, written) + written
    return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()


def sealer(secret: bytes, kind: str, scope: Scope) -> Callable[[Sequence[int]], str]:
    """`seal` for many positions of one kind and scope: what they have in common is written once."""
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
    # Two texts may stand for the same bytes; only the one we wrote is ours.
    if base64.urlsafe_b64encode(sealed).rstrip(b"=") != text:
        raise TokenRefused("not a token")
    return sealed


def _code(secret: bytes, kind: str, scope: Scope, written: bytes) -> bytes:
    return hmac.digest(secret, _prefix(kind, scope) + written, hashlib.sha256)[:CODE_BYTES]


def _prefix(kind: str, scope: Scope) -> bytes:
    bound = msgspec.json.encode([kind, dict(scope)], order="sorted")
    # The length in front: what is bound and what is written cannot flow into each other.
    return VERSION + len(bound).to_bytes(4, "big") + bound
