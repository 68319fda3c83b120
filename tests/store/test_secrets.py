"""The secret that closes tokens: made once, the same for everybody, and there again after a restart."""

from __future__ import annotations

import asyncio

from pyoco_server.cursors import SECRET_BYTES
from pyoco_server.store.secrets import TOKENS_KEY, Secrets
from pyoco_server.store.store import Store


async def test_of_many_who_need_it_at_once_all_get_the_same(store: Store) -> None:
    gateways = [Secrets(store.jetstream, store.config) for _ in range(20)]
    found = await asyncio.gather(*(gateway.for_tokens() for gateway in gateways))
    assert len(set(found)) == 1
    assert len(found[0]) == SECRET_BYTES


async def test_it_is_asked_for_once_and_again_when_it_is_forgotten(store: Store) -> None:
    first = await store.secrets.for_tokens()
    bucket = store.config.auth_kv_bucket
    await store.jetstream.api(f"STREAM.PURGE.KV_{bucket}", {"filter": f"$KV.{bucket}.{TOKENS_KEY}"})
    assert await store.secrets.for_tokens() == first
    store.secrets.forget()
    again = await store.secrets.for_tokens()
    assert again != first
    assert await Secrets(store.jetstream, store.config).for_tokens() == again


async def test_it_is_no_api_key(store: Store) -> None:
    await store.secrets.for_tokens()
    assert await store.keys.list() == []
