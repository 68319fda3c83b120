"""API keys: their format, their stored record, and the check of one against the other. Stores nothing.

A key is `pyoco_<key id>.<secret>`: the id selects the record, the secret authenticates the caller. The secret
has 256 random bits, so an HMAC of it is as safe as a slow password hash, and costs a microsecond. Records of
upstream with a slow hash (PBKDF2) can be read and verified, too.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import math
import re
import secrets
import time
from dataclasses import dataclass, fields, replace

import msgspec

HMAC = "hmac_sha256"
PBKDF2 = "pbkdf2_hmac_sha256"
PBKDF2_ITERATIONS_MAX = 10_000_000  # a written record must not be able to block a gateway
SALT_BYTES = 16
SECRET_BYTES = 32
KEY_PREFIX = "pyoco_"

_TENANT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KEY_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")
_API_KEY = re.compile(KEY_PREFIX + r"([A-Za-z0-9_-]{8,64})\.([A-Za-z0-9_-]{16,256})")


class ApiKeyError(ValueError):
    """A key or a record that cannot be one. `code`: missing, invalid_format or invalid_record."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class HashedSecret:
    """The stored hash of a secret, decoded. `until`: it is valid before this instant."""

    kdf: str
    iterations: int
    salt: bytes
    hash: bytes
    until: float = math.inf

    @property
    def is_slow(self) -> bool:
        return self.kdf == PBKDF2


@dataclass(frozen=True)
class PreviousSecret:
    """The secret before the last rotation, as it is stored."""

    kdf: str
    iterations: int
    salt_b64: str
    hash_b64: str
    valid_until: float


@dataclass(frozen=True)
class ApiKeyRecord:
    """The stored record of a key: upstream's members, then our own, which upstream ignores."""

    key_id: str
    tenant_id: str
    kdf: str
    iterations: int
    salt_b64: str
    hash_b64: str
    created_at: float
    revoked_at: float | None = None
    name: str | None = None
    scopes: tuple[str, ...] | None = None  # None: everything
    expires_at: float | None = None
    previous: PreviousSecret | None = None

    def is_revoked(self) -> bool:
        return self.revoked_at is not None

    def is_expired(self, now: float) -> bool:
        return self.expires_at is not None and now >= self.expires_at

    def hashed_secrets(self) -> tuple[HashedSecret, ...]:
        """The current one first; ApiKeyError if the record cannot be verified."""
        current = _hashed(self.kdf, self.iterations, self.salt_b64, self.hash_b64, math.inf)
        if self.previous is None:
            return (current,)
        old = self.previous
        return (current, _hashed(old.kdf, old.iterations, old.salt_b64, old.hash_b64, old.valid_until))

    def to_json_bytes(self) -> bytes:
        members = {field.name: getattr(self, field.name) for field in fields(self)}
        upstreams = dict(list(members.items())[:8])
        ours = {name: value for name, value in members.items() if value is not None}
        return msgspec.json.encode(upstreams | ours)

    @classmethod
    def from_json_bytes(cls, raw: bytes) -> ApiKeyRecord:
        try:
            return msgspec.json.decode(raw, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ApiKeyError("invalid_record", f"This is no record of an API key: {error}.") from error


def is_key_id(text: str) -> bool:
    return _KEY_ID.fullmatch(text) is not None


def is_tenant_id(text: str) -> bool:
    return _TENANT_ID.fullmatch(text) is not None


def parse_api_key(api_key: str) -> tuple[str, str]:
    """Key id and secret."""
    if not api_key:
        raise ApiKeyError("missing", "There is no API key.")
    found = _API_KEY.fullmatch(api_key)
    if found is None:
        raise ApiKeyError("invalid_format", "An API key reads pyoco_<key id>.<secret>.")
    return found[1], found[2]


def generate_api_key(
    *,
    tenant_id: str,
    now: float | None = None,
    iterations: int | None = None,
    pepper: str | None = None,
    name: str | None = None,
    scopes: tuple[str, ...] | None = None,
    expires_at: float | None = None,
) -> tuple[str, ApiKeyRecord]:
    """A new key and the record to store. `iterations`: use the slow hash, for upstream."""
    if not is_tenant_id(tenant_id):
        raise ApiKeyError("invalid_tenant", "A tenant's name is 1 to 64 letters, digits, '_' or '-'.")
    key_id = secrets.token_hex(12)
    secret = secrets.token_urlsafe(SECRET_BYTES)
    kept = hash_secret(secret, pepper) if iterations is None else _hash_slowly(secret, pepper, iterations)
    record = ApiKeyRecord(
        key_id=key_id,
        tenant_id=tenant_id,
        kdf=kept.kdf,
        iterations=kept.iterations,
        salt_b64=_encoded(kept.salt),
        hash_b64=_encoded(kept.hash),
        created_at=time.time() if now is None else now,
        name=name,
        scopes=scopes,
        expires_at=expires_at,
    )
    return f"{KEY_PREFIX}{key_id}.{secret}", record


def verify_api_key(
    api_key: str, *, record: ApiKeyRecord, pepper: str | None, now: float | None = None
) -> bool:
    """Whether this is the record's key, and it is valid. Slow for a record with a slow hash."""
    at = time.time() if now is None else now
    if record.is_revoked() or record.is_expired(at):
        return False
    key_id, secret = parse_api_key(api_key)
    if key_id != record.key_id:
        return False
    return any(matches(secret, kept, pepper) for kept in record.hashed_secrets() if at < kept.until)


def matches(secret: str, kept: HashedSecret, pepper: str | None) -> bool:
    """The only place that compares secrets, in constant time."""
    return hmac.compare_digest(_derived(secret, kept, pepper), kept.hash)


def rotate_secret(
    record: ApiKeyRecord, *, pepper: str | None, now: float, grace_sec: float
) -> tuple[str, ApiKeyRecord]:
    """The same key with a new secret. The old one is valid for the grace period; older ones end."""
    secret = secrets.token_urlsafe(SECRET_BYTES)
    old = PreviousSecret(
        record.kdf, record.iterations, record.salt_b64, record.hash_b64, valid_until=now + grace_sec
    )
    return f"{KEY_PREFIX}{record.key_id}.{secret}", replace(
        _with(record, hash_secret(secret, pepper)), previous=old
    )


def rehash(record: ApiKeyRecord, was: HashedSecret, secret: str, pepper: str | None) -> ApiKeyRecord:
    """The record with an HMAC of this secret instead of its slow hash."""
    kept = hash_secret(secret, pepper)
    if was.until == math.inf:
        return _with(record, kept)
    old = PreviousSecret(kept.kdf, kept.iterations, _encoded(kept.salt), _encoded(kept.hash), was.until)
    return replace(record, previous=old)


def hash_secret(secret: str, pepper: str | None) -> HashedSecret:
    empty = HashedSecret(HMAC, 1, secrets.token_bytes(SALT_BYTES), b"")
    return replace(empty, hash=_derived(secret, empty, pepper))


def _hash_slowly(secret: str, pepper: str | None, iterations: int) -> HashedSecret:
    empty = HashedSecret(PBKDF2, iterations, secrets.token_bytes(SALT_BYTES), b"")
    return replace(empty, hash=_derived(secret, empty, pepper))


def _derived(secret: str, kept: HashedSecret, pepper: str | None) -> bytes:
    if kept.kdf == HMAC:
        return hmac.digest((pepper or "").encode(), kept.salt + secret.encode(), "sha256")
    password = (secret + (pepper or "")).encode()
    return hashlib.pbkdf2_hmac("sha256", password, kept.salt, kept.iterations, dklen=32)


def _with(record: ApiKeyRecord, kept: HashedSecret) -> ApiKeyRecord:
    return replace(
        record,
        kdf=kept.kdf,
        iterations=kept.iterations,
        salt_b64=_encoded(kept.salt),
        hash_b64=_encoded(kept.hash),
    )


def _hashed(kdf: str, iterations: int, salt_b64: str, hash_b64: str, until: float) -> HashedSecret:
    if kdf not in (HMAC, PBKDF2) or not 1 <= iterations <= PBKDF2_ITERATIONS_MAX:
        raise ApiKeyError("invalid_record", f"A hash of the kind {kdf!r} ({iterations}) is not known here.")
    return HashedSecret(kdf, iterations, _decoded(salt_b64), _decoded(hash_b64), until)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ApiKeyError("invalid_record", f"This is no salt or hash: {error}.") from error
