"""A thousand nodes: more than a snapshot holds, and nothing is lost of them."""

from __future__ import annotations

import httpx

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.faces.executions.state import state_at
from pyoco_server.store.store import Store
from tests.http_api.faces.executions.driving import Driver
from tests.http_api.serving import serving
from tests.worker.stage import lawful

WIDE = 999


async def test_a_thousand_nodes_are_readied_and_cancelled_in_a_commit_each(
    config: NatsBackendConfig, client: httpx.AsyncClient, store: Store
) -> None:
    drive = Driver(client)
    roots = [{"id": f"n{number}", "prompt": {"about": "x" * 100}} for number in range(WIDE)]
    execution_id = await drive.started(*roots, {"id": "end", "after": [root["id"] for root in roots]})
    await drive.do(execution_id, "n0", "n1")
    await drive.take(execution_id, "n2")
    shown = await drive.get(execution_id)
    assert [node["status"] for node in shown["nodes"][:4]] == ["SUCCEEDED", "SUCCEEDED", "RUNNING", "READY"]
    async with serving(config) as other:
        # A gateway that has nothing at hand decides on all of it.
        there = Driver(other)
        await there.ok(execution_id, "n2/progress", progress=50)
        await there.ok(execution_id, "cancel")
        shown = await there.get(execution_id)
        events = await there.events(execution_id)
    assert shown == await drive.get(execution_id) == state_at(events)
    assert [node["status"] for node in shown["nodes"]] == ["SUCCEEDED"] * 2 + ["CANCELED"] * (WIDE - 1)
    types = await drive.types(execution_id)
    assert len(types) == len(events) == 1 + (WIDE + 1) + 1 + WIDE + 4 + 1 + 1 + 1 + 1 + (WIDE - 1) + 1
    assert types[-1] == "EXECUTION_CANCELED"
    assert (await drive.get(execution_id, "/verify"))["ok"] is True
    assert len(await store.runs.history(execution_id)) == 9
    await lawful(store, execution_id)
