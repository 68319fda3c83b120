"""After a reconnect everything is served at once that can be, and nothing that does not fit."""

from __future__ import annotations

import re

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.faults.faulty_client import Fault, Faults, FaultyClient
from tests.worker.stage import submitted, the_run


async def reconnected(store: Store) -> None:
    assert isinstance(store.client, FaultyClient)
    before = store.reconnects
    await store.client.cut()
    await until(lambda: store.reconnects > before)


async def test_a_stream_without_a_leader_keeps_nobody_from_being_served(
    config: NatsBackendConfig, faulty_store: Store, faults: Faults
) -> None:
    leaderless = re.compile(rf"STREAM\.INFO\.{config.dlq_stream}$")
    faults.add(leaderless, Fault.LOSE_REQUEST, times=100)
    heard: list[str] = []
    faulty_store.on_reconnect(lambda: heard.append("reconnected"))
    await reconnected(faulty_store)
    await until(lambda: faulty_store.why_not_ready is None)
    assert heard == ["reconnected"]
    run_id = await submitted(faulty_store)
    assert (await the_run(faulty_store, run_id)).status == "PENDING"
    await until(lambda: any(leaderless.search(subject) for subject, _ in faults.happened))


async def test_a_stream_that_is_gone_is_made_again_and_followed_again(
    config: NatsBackendConfig, store: Store, faulty_store: Store
) -> None:
    heard: list[str] = []
    faulty_store.on_reconnect(lambda: heard.append("reconnected"))
    await store.jetstream.api(f"STREAM.DELETE.{config.dlq_stream}")
    await reconnected(faulty_store)
    await until(lambda: len(heard) == 2)
    assert await store.jetstream.last_seq(config.dlq_stream) == 0
    assert faulty_store.why_not_ready is None


async def test_a_stream_that_does_not_fit_after_a_reconnect_stops_everything_until_it_is_gone(
    config: NatsBackendConfig, store: Store, faulty_store: Store
) -> None:
    other = {"name": config.work_stream, "subjects": [f"{config.work_stream}.elsewhere"]}
    await store.jetstream.api(f"STREAM.DELETE.{config.work_stream}")
    await store.jetstream.api(f"STREAM.CREATE.{config.work_stream}", other)
    await reconnected(faulty_store)
    await until(lambda: faulty_store.why_not_ready is not None)
    await store.jetstream.api(f"STREAM.DELETE.{config.work_stream}")
    await until(lambda: faulty_store.why_not_ready is None)
    assert await submitted(faulty_store)


async def test_the_broker_s_clock_is_measured_after_a_reconnect(
    config: NatsBackendConfig, faulty_store: Store, faults: Faults
) -> None:
    """It may be another broker, with another clock."""
    measured: list[float] = []
    ask = faulty_store.clock._ask

    async def counted() -> float:
        measured.append(1)
        return await ask()

    faulty_store.clock._ask = counted  # type: ignore[method-assign]
    await reconnected(faulty_store)
    await until(lambda: measured)
