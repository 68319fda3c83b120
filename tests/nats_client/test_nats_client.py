"""`PyocoNatsClient`: the same verbs as over HTTP, straight at the broker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.flows import demo
from pyoco_server.nats_client import PyocoNatsClient
from pyoco_server.store.store import Store
from pyoco_server.worker import PyocoNatsWorker

UNKNOWN = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
async def client(config: NatsBackendConfig) -> AsyncIterator[PyocoNatsClient]:
    async with await PyocoNatsClient.connect(config) as connected:
        yield connected


async def test_a_submitted_run_is_stored_queued_and_executed(
    client: PyocoNatsClient, config: NatsBackendConfig, store: Store
) -> None:
    run_id = await client.submit_run("hello", params={"name": "you"}, tag="demo", tags=["demo", "x"])
    fresh = await client.get_run(run_id)
    assert (fresh["status"], fresh["params"], fresh["tags"]) == ("PENDING", {"name": "you"}, ["demo", "x"])
    assert len(await store.runs.events(run_id)) == 1
    worker = await PyocoNatsWorker.connect(config, flow_resolver=demo.resolver, worker_id="w", tags=["demo"])
    assert await worker.run_once(timeout=20.0) == run_id
    await worker.close()
    done = await client.get_run(run_id)
    assert done["status"] == "COMPLETED"
    assert done["task_records"]["greet"]["output"] == "Hello, you!"
    assert done["heartbeat_at"] >= done["updated_at"]


async def test_cancel_says_cancelling_and_the_run_is_cancelled(client: PyocoNatsClient) -> None:
    run_id = await client.submit_run("hello")
    assert (await client.cancel_run(run_id))["status"] == "CANCELLING"
    assert (await client.get_run(run_id))["status"] == "CANCELLED"


@pytest.mark.parametrize("run_id", [UNKNOWN, "a.b", "*", ""])
async def test_an_unknown_run_is_a_key_error(client: PyocoNatsClient, run_id: str) -> None:
    with pytest.raises(KeyError):
        await client.get_run(run_id)
    with pytest.raises(KeyError):
        await client.cancel_run(run_id)


async def test_what_cannot_be_accepted_is_a_value_error(
    client: PyocoNatsClient, config: NatsBackendConfig
) -> None:
    with pytest.raises(ValueError, match="tag"):
        await client.submit_run("hello", tag="a.b")
    with pytest.raises(ValueError, match="flow_name"):
        await client.submit_run(" ")
    with pytest.raises(ValueError, match="bytes"):
        await client.submit_run("hello", {"x": "y" * config.params_max_bytes})
