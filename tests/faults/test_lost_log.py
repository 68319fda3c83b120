"""The event log alone is lost. Nothing is made of that silently: no empty log, no job that is taken away."""

from __future__ import annotations

import asyncio
import shutil
from typing import Any

import pytest

from pyoco_server.jetstream.errors import LogLost
from pyoco_server.store import resources
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.http_api.serving import serving
from tests.worker.stage import config_on, submitted, working

JOBS = 3


@pytest.fixture
async def bereft(store: Store) -> Store:
    """Runs with jobs, and no log any more."""
    for _ in range(JOBS):
        await submitted(store)
    await store.jetstream.api(f"STREAM.DELETE.{store.config.events_stream}")
    return store


async def messages(store: Store, stream: str) -> int:
    return int((await store.jetstream.api(f"STREAM.INFO.{stream}"))["state"]["messages"])


async def test_a_gateway_is_not_ready_and_says_what_to_do(bereft: Store) -> None:
    async with serving(bereft.config, wait_ready=False) as client:

        async def reasons() -> list[str]:
            return list((await client.get("/ready")).json()["reasons"])

        await until(lambda: _says(reasons, "accept-lost-log"))
        assert (await client.get("/ready")).status_code == 503
        assert (await client.post("/runs", json={"flow_name": "noop"})).status_code == 503
    names = await bereft.jetstream.api(
        "STREAM.NAMES", {"subject": f"{bereft.config.events_subject_prefix}.*"}
    )
    assert not names["streams"]


async def _says(reasons: Any, what: str) -> bool:
    return any(what in reason for reason in await reasons())


async def test_a_worker_that_starts_takes_nothing(bereft: Store) -> None:
    store = Store(bereft.config, name="worker")
    opening = asyncio.create_task(store.open())
    await until(lambda: "accept-lost-log" in (store.why_not_ready or ""))
    assert not opening.done()
    await resources.accept_lost_log(bereft.jetstream, bereft.config)
    await opening
    await store.close()


async def test_a_worker_that_lives_through_the_loss_takes_nothing(own_nats_server: NatsServer) -> None:
    config = config_on(own_nats_server)
    async with working(config) as worker:
        store, puller = worker._store, worker._puller
        assert puller is not None
        await submitted(store)
        own_nats_server.kill()
        shutil.rmtree(own_nats_server._folder / "jetstream" / "$G" / "streams" / config.events_stream)
        own_nats_server.start()
        await until(lambda: "accept-lost-log" in (store.why_not_ready or ""))
        assert await puller.next(0.5) is None
        await resources.accept_lost_log(store.jetstream, config)
        delivery = await until(lambda: puller.next(1.0))
        assert delivery is not None


async def test_evidence_is_what_only_we_write(store: Store) -> None:
    """Snapshots of an upstream server have no log, and keep nobody from beginning one."""
    config, jetstream = store.config, store.jetstream
    await jetstream.api(f"STREAM.DELETE.{config.events_stream}")
    await jetstream.publish(f"$KV.{config.runs_kv_bucket}.one", b'{"run_id":"one","status":"RUNNING"}')
    await resources.ensure(jetstream, config)
    assert await messages(store, config.events_stream) == 0


async def test_the_loss_can_be_accepted_and_old_jobs_become_letters(bereft: Store) -> None:
    config = bereft.config
    with pytest.raises(LogLost):
        await resources.ensure(bereft.jetstream, config)
    assert await resources.accept_lost_log(bereft.jetstream, config)
    assert not await resources.accept_lost_log(bereft.jetstream, config)
    async with working(config) as worker:
        serving = asyncio.create_task(worker.serve())

        async def are_letters() -> bool:
            return await messages(bereft, config.dlq_stream) == JOBS

        await until(are_letters, within_sec=30)
        await until(lambda: _is_empty(bereft))
        worker.stop()
        await serving
    letters = [kept.letter async for kept in bereft.dead_letters.newest_first(None)]
    assert {letter.reason for letter in letters} == {"never_began"}


async def _is_empty(store: Store) -> bool:
    return await messages(store, store.config.work_stream) == 0
