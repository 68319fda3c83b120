"""A gateway that asks for keys, and keys for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.http_api.serving import serving
from tests.keyring import new_key


@asynccontextmanager
async def with_keys(
    config: NatsBackendConfig,
) -> AsyncIterator[tuple[httpx.AsyncClient, Callable[[str], str]]]:
    """The client, and the key of a tenant: there are `a` and `b`."""
    asking = replace(config, http_auth_mode="api_key")
    store = await Store.connect(asking, name="test")
    made = {tenant: await new_key(store, tenant) for tenant in ("a", "b")}
    try:
        async with serving(asking) as client:
            for key in made.values():
                await until(lambda key=key: _is_known(client, key))  # type: ignore[misc]
            yield client, made.__getitem__
    finally:
        await store.close()


async def _is_known(client: httpx.AsyncClient, key: str) -> bool:
    return (await client.get("/runs", headers={"X-API-Key": key})).status_code == 200
