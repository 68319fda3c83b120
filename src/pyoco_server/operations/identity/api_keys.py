"""Create, list, change, revoke and rotate API keys. A secret is returned once and never stored."""

from __future__ import annotations

from dataclasses import replace

from pyoco_server import clock
from pyoco_server.api_keys import ApiKeyRecord, generate_api_key, is_tenant_id, rotate_secret
from pyoco_server.errors import Conflict, Invalid, NotFound
from pyoco_server.operations.identity.callers import Scope
from pyoco_server.store.store import Store

NAME_CHARS_MAX = 128


async def create_key(
    store: Store,
    tenant_id: str,
    *,
    name: str | None = None,
    scopes: list[str] | None = None,
    expires_in_sec: float | None = None,
) -> tuple[str, ApiKeyRecord]:
    """The key, which cannot be read later, and its record. Without `scopes`: all rights within its tenant."""
    now = clock.now()
    api_key, record = generate_api_key(
        tenant_id=_tenant(tenant_id),
        now=now,
        pepper=store.config.auth_pepper,
        name=_name(name),
        scopes=_scopes(scopes) if scopes else None,
        expires_at=None if expires_in_sec is None else now + expires_in_sec,
    )
    await store.keys.create(record)
    return api_key, record


async def list_keys(store: Store) -> list[ApiKeyRecord]:
    return await store.keys.list()


async def revoke_key(store: Store, key_id: str) -> ApiKeyRecord:
    """Revoke a key permanently. A second call changes nothing and keeps the first instant."""
    now = clock.now()

    def revoke(record: ApiKeyRecord) -> ApiKeyRecord:
        return record if record.is_revoked() else replace(record, revoked_at=now)

    return _found(await store.keys.change(key_id, revoke), key_id)


async def set_scopes(store: Store, key_id: str, scopes: list[str]) -> ApiKeyRecord:
    """Replace the scopes of a key. Its secret stays."""
    wanted = _scopes(scopes)

    def change(record: ApiKeyRecord) -> ApiKeyRecord:
        if record.is_revoked():
            raise Conflict(f"The API key {key_id} is revoked, and that is for good. Make a new one.")
        return replace(record, scopes=wanted)

    return _found(await store.keys.change(key_id, change), key_id)


async def rotate_key(store: Store, key_id: str, *, grace_sec: float) -> tuple[str, ApiKeyRecord]:
    """A new secret for the same key. The current one stays valid for the grace period; older ones end."""
    made: list[str] = []

    def rotate(record: ApiKeyRecord) -> ApiKeyRecord:
        if record.is_revoked():
            raise Conflict(f"The API key {key_id} is revoked, and that is for good. Make a new one.")
        api_key, changed = rotate_secret(
            record, pepper=store.config.auth_pepper, now=clock.now(), grace_sec=grace_sec
        )
        made.append(api_key)
        return changed

    record = _found(await store.keys.change(key_id, rotate), key_id)
    return made[-1], record


def _tenant(tenant_id: str) -> str:
    if not is_tenant_id(tenant_id):
        raise Invalid("A tenant's name is 1 to 64 letters, digits, '_' or '-'.")
    return tenant_id


def _name(name: str | None) -> str | None:
    if name is not None and not 1 <= len(name) <= NAME_CHARS_MAX:
        raise Invalid(f"A key's name has 1 to {NAME_CHARS_MAX} characters.")
    return name


def _scopes(asked: list[str]) -> tuple[str, ...]:
    known = [scope.value for scope in Scope]
    unknown = sorted(set(asked) - set(known))
    if unknown:
        raise Invalid(f"There is no scope {unknown[0]!r}. There are {', '.join(known)}.")
    return tuple(dict.fromkeys(asked))


def _found(record: ApiKeyRecord | None, key_id: str) -> ApiKeyRecord:
    if record is None:
        raise NotFound(f"There is no API key {key_id!r}.", err_id="")
    return record
