"""A gateway with authentication, and a client of it for each of several tenants."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import httpx

from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.http_api.serving import serving
from tests.keyring import new_key
from tests.worker.stage import config_on


@asynccontextmanager
async def as_tenants(
    server: NatsServer, *tenants: str, scopes: Sequence[str] | None = None
) -> AsyncIterator[tuple[Store, list[httpx.AsyncClient]]]:
    config = config_on(server, http_auth_mode="api_key")
    async with AsyncExitStack() as stack:
        nobody = await stack.enter_async_context(serving(config))
        store = await Store.connect(config, name="test")
        stack.push_async_callback(store.close)
        clients = []
        for tenant in tenants:
            key = await new_key(store, tenant, scopes=tuple(scopes) if scopes is not None else None)
            client = httpx.AsyncClient(
                transport=nobody._transport, base_url=nobody.base_url, headers={"X-API-Key": key}, timeout=30
            )
            await until(partial(_is_known, client))
            clients.append(client)
        yield store, clients


async def _is_known(client: httpx.AsyncClient) -> bool:
    """The gateway has heard of its key, whatever that is good for."""
    return bool((await client.get("/nowhere")).json().get("err_id") != "ERR-PYOCO-0015")
