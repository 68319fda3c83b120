"""A digest of what a request asks for: equal for all ways to write the same JSON, without its values."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping

import msgspec

from pyoco_server.canonical_json import (
    NOT_DIGESTED,
    CanonicalJsonError,
    canonical_bytes,
    digest,
    parse,
)
from pyoco_server.errors import Invalid

# Members are only used to name what differs. Beyond these limits the digest of the whole still decides.
MEMBERS_MAX = 64
MEMBER_CHARS_MAX = 64
MEMBER_DIGITS = 16
# Larger bodies are read in a thread, so that other requests are answered meanwhile.
ASIDE_BYTES = 32 * 1024


class RequestDigest(msgspec.Struct, frozen=True, kw_only=True):
    """`digest` decides. `members`, the digests of the top-level members, only explain a difference."""

    digest: str
    members: dict[str, str] = {}


async def digest_of(asked: bytes | Mapping[str, object], *, size: int = 0) -> RequestDigest:
    """Of a body as received (empty means `{}`), or of its value, which was `size` bytes."""
    if (len(asked) if isinstance(asked, bytes) else size) > ASIDE_BYTES:
        return await asyncio.to_thread(_digest, asked)
    return _digest(asked)


def differing(first: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Names of members that were added, left out or changed; empty if no members were stored."""
    return sorted(name for name in first.keys() | now.keys() if first.get(name) != now.get(name))


def _digest(asked: bytes | Mapping[str, object]) -> RequestDigest:
    try:
        value = parse(asked if asked.strip() else b"{}") if isinstance(asked, bytes) else dict(asked)
        plain = msgspec.json.decode(canonical_bytes(value))
    except CanonicalJsonError as error:
        message = f"With an idempotency key the body must be JSON in which nothing is said twice: {error}."
        raise Invalid.at(["body"], message, "json_invalid") from error
    return RequestDigest(digest=digest(value), members=_members(plain) if isinstance(plain, dict) else {})


def _members(plain: dict[str, object]) -> dict[str, str]:
    named = [name for name in plain if name not in NOT_DIGESTED and len(name) <= MEMBER_CHARS_MAX]
    return {name: _short(plain[name]) for name in named[:MEMBERS_MAX]}


def _short(value: object) -> str:
    return hashlib.sha256(canonical_bytes(value)).hexdigest()[:MEMBER_DIGITS]
