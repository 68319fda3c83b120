"""API keys for tests: in our format, and in the format of upstream."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time

from pyoco_server.api_keys import ApiKeyRecord, generate_api_key
from pyoco_server.jetstream.kv import Bucket
from pyoco_server.store.keys import PREFIX
from pyoco_server.store.store import Store


async def new_key(
    store: Store,
    tenant_id: str = "acme",
    *,
    scopes: tuple[str, ...] | None = None,
    expires_at: float | None = None,
) -> str:
    key, record = generate_api_key(
        tenant_id=tenant_id, pepper=store.config.auth_pepper, scopes=scopes, expires_at=expires_at
    )
    await store.keys.create(record)
    return key


def id_of(key: str) -> str:
    return key.removeprefix("pyoco_").partition(".")[0]


def secret_of(key: str) -> str:
    return key.partition(".")[2]


def with_wrong_secret(key: str) -> str:
    return f"{key.partition('.')[0]}.{secrets.token_urlsafe(32)}"


def unpadded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def upstreams_record(
    key: str, *, tenant_id: str = "acme", pepper: str = "", iterations: int = 200_000, salt: bytes = b"s" * 16
) -> bytes:
    """Byte for byte as upstream writes it, without code of this project."""
    derived = hashlib.pbkdf2_hmac("sha256", (secret_of(key) + pepper).encode(), salt, iterations, dklen=32)
    members = {
        "key_id": id_of(key),
        "tenant_id": tenant_id,
        "kdf": "pbkdf2_hmac_sha256",
        "iterations": iterations,
        "salt_b64": unpadded(salt),
        "hash_b64": unpadded(derived),
        "created_at": time.time(),
        "revoked_at": None,
    }
    return json.dumps(members, ensure_ascii=True, separators=(",", ":")).encode()


async def put_upstreams_record(store: Store, key: str, record: bytes) -> int:
    return await Bucket(store.jetstream, store.config.auth_kv_bucket).put(
        PREFIX + id_of(key), record, revision=0
    )


async def record_of(store: Store, key: str) -> ApiKeyRecord:
    stored = await store.keys.get(id_of(key))
    assert stored is not None
    return stored.record
