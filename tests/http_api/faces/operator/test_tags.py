"""`GET /workers/tags`: what waits for workers, by tag, and which workers serve it."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from pyoco_server.operations.fleet import tags
from pyoco_server.operations.fleet.tags import TagBacklog
from pyoco_server.store.store import Store
from tests.conftest import NatsServer
from tests.http_api.serving import submit
from tests.http_api.tenants import as_tenants


async def by_tag(client: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    answer = await client.get("/workers/tags")
    assert answer.status_code == 200, answer.text
    return {one["tag"]: one for one in answer.json()}


async def entered(store: Store, worker_id: str, **members: object) -> None:
    entry = {"state": "IDLE", "last_seen_at": time.time(), "instance_id": worker_id, "tags": ["default"]}
    await store.registry.merge(worker_id, entry | {"slots": 4, "free_slots": 3} | members)


async def test_each_tag_has_its_backlog_its_oldest_wait_and_its_workers(
    client: httpx.AsyncClient, store: Store
) -> None:
    assert await by_tag(client) == {}
    for _ in range(3):
        await submit(client, "any", tag="gpu")
    await submit(client, "any", tag="default")
    await entered(store, "w1")
    await entered(store, "w2", tags=["default", "idle"], draining=True)
    found = await by_tag(client)
    # What waits without a worker comes first.
    assert list(found) == ["gpu", "default", "idle"]
    assert (found["gpu"]["backlog"], found["gpu"]["workers"], found["gpu"]["slots"]) == (3, 0, 0)
    assert found["gpu"]["oldest_since"] <= time.time()
    default = found["default"]
    assert (default["backlog"], default["workers"], default["draining"]) == (1, 2, 1)
    assert (default["slots"], default["free_slots"]) == (4, 3)
    assert (found["idle"]["backlog"], found["idle"]["oldest_since"]) == (0, None)


async def test_a_backlog_is_counted_up_to_a_limit(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tags, "BACKLOG_MAX", 2)
    for _ in range(2):
        await submit(client, "any", tag="gpu")
    assert ((await by_tag(client))["gpu"]["backlog"], (await by_tag(client))["gpu"]["backlog_is_more"]) == (
        2,
        False,
    )
    await submit(client, "any", tag="gpu")
    assert ((await by_tag(client))["gpu"]["backlog"], (await by_tag(client))["gpu"]["backlog_is_more"]) == (
        2,
        True,
    )


async def test_only_the_tags_that_are_shown_are_counted(
    client: httpx.AsyncClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller can name any number of tags."""
    counted: list[TagBacklog] = []
    whole = tags._queue

    def count(*given: Any) -> TagBacklog:
        counted.append(whole(*given))
        return counted[-1]

    monkeypatch.setattr(tags, "_queue", count)
    monkeypatch.setattr(tags, "TAGS_MAX", 2)
    monkeypatch.setattr(tags, "TAGS_AT_ONCE", 1)
    for tag in ("x3", "x1", "x2"):
        await submit(client, "any", tag=tag)
    await entered(store, "w1")
    assert list(await by_tag(client)) == ["x1", "x2"]
    assert len(counted) == 2


async def test_a_tenant_sees_no_tag_that_only_runs_of_others_name(nats_server: NatsServer) -> None:
    async with as_tenants(nats_server, "acme", "other") as (store, [acme, other]):
        await submit(acme, "any", tag="secret-project")
        await entered(store, "w1")
        assert set(await by_tag(acme)) == {"secret-project", "default"}
        assert set(await by_tag(other)) == {"default"}
