"""What a request asked for, as digests: equal for all ways to write the same, and silent about values."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from pyoco_server.canonical_json import (
    NOT_DIGESTED,
    CanonicalJsonError,
    canonical_bytes,
    digest,
    parse,
)
from pyoco_server.errors import Invalid

# Only to name what differs: beyond these the digest of the whole still tells.
MEMBERS_MAX = 64
MEMBER_CHARS_MAX = 64
MEMBER_DIGITS = 16
# Above this reading takes long enough that others should be answered meanwhile.
ASIDE_BYTES = 32 * 1024


class RequestDigest(msgspec.Struct, frozen=True, kw_only=True):
    """`digest` decides; `members`, of an object's top level, only explain."""

    digest: str
    members: dict[str, str] = {}


async def fingerprint_of(asked: bytes | Mapping[str, Any], *, size: int = 0) -> RequestDigest:
    """Of a body as it was received (an empty one is `{}`), or of the parts of one that was `size` bytes."""
    if (len(asked) if isinstance(asked, bytes) else size) > ASIDE_BYTES:
        return await asyncio.to_thread(_taken, asked)
    return _taken(asked)


def differing(first: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Names of members that were added, left out or changed; empty when that was not remembered."""
    return sorted(name for name in first.keys() | now.keys() if first.get(name) != now.get(name))


def _taken(asked: bytes | Mapping[str, Any]) -> RequestDigest:
    try:
        value = parse(asked if asked.strip() else b"{}") if isinstance(asked, bytes) else dict(asked)
        plain = msgspec.json.decode(canonical_bytes(value))
    except CanonicalJsonError as error:
        message = f"With an idempotency key the body must be JSON in which nothing is said twice: {error}."
        problem = {"loc": ["body"], "msg": message, "type": "json_invalid"}
        raise Invalid(message, details=[problem]) from error
    return RequestDigest(digest=digest(value), members=_members(plain) if isinstance(plain, dict) else {})


def _members(plain: dict[str, Any]) -> dict[str, str]:
    named = [name for name in plain if name not in NOT_DIGESTED and len(name) <= MEMBER_CHARS_MAX]
    return {name: _short(plain[name]) for name in named[:MEMBERS_MAX]}


def _short(value: Any) -> str:
    return hashlib.sha256(canonical_bytes(value)).hexdigest()[:MEMBER_DIGITS]
