"""The meta message of an object, in the JSON that all nats clients write.

Clients differ in details, and all forms are read: nats.go writes headers as lists and no time, nats-py writes
them as plain values and with a time. This module writes the form of nats-py.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import msgspec

DIGEST_PREFIX = "SHA-256="


class ObjectInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`revision` is what compare-and-set takes; `nuid` changes with every put, also of the same bytes."""

    name: str
    bucket: str
    nuid: str
    size: int = 0
    chunks: int = 0
    digest: str = ""
    headers: dict[str, str] = {}
    modified: str = ""
    max_chunk_size: int = 0
    deleted: bool = False
    revision: int = 0

    @property
    def sha256_hex(self) -> str | None:
        """None if the digest is not a SHA-256; then no bytes match it."""
        try:
            raw = base64.urlsafe_b64decode(_padded(self.digest.removeprefix(DIGEST_PREFIX)))
        except ValueError:
            return None
        return raw.hex() if len(raw) == 32 else None

    @property
    def modified_at(self) -> float:
        """Unix seconds; 0 if it is missing."""
        try:
            at = datetime.fromisoformat(self.modified)
        except ValueError:
            return 0.0
        return max((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp(), 0.0)

    def at(self, revision: int) -> ObjectInfo:
        return msgspec.structs.replace(self, revision=revision)

    def gone(self, at: str) -> ObjectInfo:
        return msgspec.structs.replace(self, deleted=True, size=0, chunks=0, digest="", modified=at)


def encode_info(info: ObjectInfo) -> bytes:
    meta: dict[str, object] = {
        "name": info.name,
        "bucket": info.bucket,
        "nuid": info.nuid,
        "size": info.size,
        "chunks": info.chunks,
        "digest": info.digest,
        "mtime": info.modified,
        "options": {"max_chunk_size": info.max_chunk_size},
    }
    if info.headers:
        meta["headers"] = info.headers
    if info.deleted:
        meta["deleted"] = True
    return msgspec.json.encode(meta)


def decode_info(data: bytes, revision: int, stored_at: str | None) -> ObjectInfo | None:
    """None if it is not a meta message: a wrong message must not hide the other objects."""
    try:
        meta = msgspec.json.decode(data, type=_Meta)
    except msgspec.MsgspecError:
        return None
    written = meta.mtime if meta.mtime and not meta.mtime.startswith("0001-") else stored_at
    return ObjectInfo(
        name=meta.name,
        bucket=meta.bucket,
        nuid=meta.nuid,
        size=meta.size or 0,
        chunks=meta.chunks or 0,
        digest=meta.digest or "",
        headers=_flat(meta.headers or {}),
        modified=written or "",
        max_chunk_size=meta.options.max_chunk_size if meta.options else 0,
        deleted=bool(meta.deleted),
        revision=revision,
    )


def encode_name(name: str) -> str:
    """As one token of a subject."""
    return base64.urlsafe_b64encode(name.encode()).decode()


def digest_text(digest: bytes) -> str:
    return DIGEST_PREFIX + base64.urlsafe_b64encode(digest).decode()


def now_text() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


class _Options(msgspec.Struct):
    max_chunk_size: int = 0


class _Meta(msgspec.Struct):
    name: str
    bucket: str
    nuid: str = ""
    size: int | None = 0
    chunks: int | None = 0
    digest: str | None = ""
    mtime: str | None = ""
    deleted: bool | None = False
    headers: dict[str, object] | None = None
    options: _Options | None = None


def _flat(headers: dict[str, object]) -> dict[str, str]:
    return {name: ",".join(map(str, value)) if isinstance(value, list) else str(value)
            for name, value in headers.items()}  # fmt: skip


def _padded(text: str) -> str:
    return text + "=" * (-len(text) % 4)
