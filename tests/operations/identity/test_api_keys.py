"""Keys made, listed, revoked and rotated."""

from __future__ import annotations

import asyncio

import pytest

from pyoco_server.api_keys import verify_api_key
from pyoco_server.errors import Conflict, Invalid, NotFound
from pyoco_server.operations.identity.api_keys import create_key, list_keys, revoke_key, rotate_key
from pyoco_server.store.store import Store
from tests.keyring import id_of, record_of, secret_of


async def test_a_made_key_is_stored_without_its_secret(store: Store) -> None:
    key, record = await create_key(
        store, "acme", name="ci", scopes=["runs:read", "runs:read"], expires_in_sec=60
    )
    assert await record_of(store, key) == record
    assert (record.name, record.scopes) == ("ci", ("runs:read",))
    assert record.expires_at == record.created_at + 60
    stored = await store.jetstream.after(f"KV_{store.config.auth_kv_bucket}", ">", 0)
    assert stored
    assert not any(secret_of(key).encode() in message.data for message in stored)


async def test_wrong_wishes_are_refused(store: Store) -> None:
    with pytest.raises(Invalid, match="tenant"):
        await create_key(store, "no tenant")
    with pytest.raises(Invalid, match=r"'runs:all'\. There are runs:read"):
        await create_key(store, "acme", scopes=["runs:all"])
    with pytest.raises(Invalid, match="name"):
        await create_key(store, "acme", name="")
    assert await list_keys(store) == []


async def test_a_key_ends_when_it_is_first_revoked(store: Store) -> None:
    key, _ = await create_key(store, "acme")
    first = await revoke_key(store, id_of(key))
    again = await revoke_key(store, id_of(key))
    assert first.revoked_at is not None
    assert again == first
    with pytest.raises(Conflict, match="revoked"):
        await rotate_key(store, id_of(key), grace_sec=60)


async def test_what_is_not_there_cannot_be_revoked_or_rotated(store: Store) -> None:
    with pytest.raises(NotFound):
        await revoke_key(store, "0" * 24)
    with pytest.raises(NotFound):
        await rotate_key(store, "a b", grace_sec=1)


async def test_of_two_rotations_at_once_both_secrets_are_good(store: Store) -> None:
    key, _ = await create_key(store, "acme")
    made = await asyncio.gather(*(rotate_key(store, id_of(key), grace_sec=60) for _ in range(2)))
    record = await record_of(store, key)
    assert [verify_api_key(one, record=record, pepper=None) for one, _ in made] == [True, True]
    assert verify_api_key(key, record=record, pepper=None) is False
