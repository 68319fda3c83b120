"""The scope of an idempotency key (its caller, method and path) and its syntax.

A key may be a secret of the caller. It is hashed here; only the hash is stored and logged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from pyoco_server.errors import Invalid
from pyoco_server.operations.identity.callers import Caller

KEY_CHARS_MAX = 255


class IdempotencyKey(msgspec.Struct, frozen=True, kw_only=True):
    """`path` has its parameters filled in: one key on two resources, or of two callers, has two effects."""

    tenant: str | None
    principal: str | None
    method: str
    path: str
    key: str

    @property
    def address(self) -> str:
        """The key of its record: below the hash of the caller and the key."""
        return f"{owner_of(self.tenant, self.principal, self.key)}.{_hash(self.method, self.path)}"

    @property
    def hashed(self) -> str:
        """For logs."""
        return hashed(self.key)

    def __repr__(self) -> str:
        return f"IdempotencyKey({self.method} {self.path}, {self.hashed})"


def key_for(caller: Caller, method: str, path: str, key: str) -> IdempotencyKey:
    return IdempotencyKey(
        tenant=caller.tenant_id, principal=caller.principal, method=method, path=path, key=key
    )


def owner_of(tenant: str | None, principal: str | None, key: str) -> str:
    return _hash(tenant, principal, key)


def hashed(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def checked_key(
    values: Sequence[str], *, name: str, place: str = "header", least: int = 1, most: int = KEY_CHARS_MAX
) -> str:
    """The key from the values that were sent. An error does not repeat them."""
    if len(values) != 1:
        problem = "is required" if not values else f"was sent {len(values)} times; send it once"
        raise Invalid.at([place, name], f"{name} {problem}.", "value_error" if values else "missing")
    key = values[0]
    if not least <= len(key) <= most or key != key.strip(" "):
        raise Invalid.at(
            [place, name],
            f"{name} has {len(key)} characters; send {least} to {most}, none of them a blank at its ends.",
        )
    if not (key.isascii() and key.isprintable()):
        raise Invalid.at(
            [place, name], f"{name} may have letters, digits and signs of ASCII only, like a UUID."
        )
    return key


def _hash(*parts: str | None) -> str:
    """JSON separates the parts, whatever characters they have."""
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()
