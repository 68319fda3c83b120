"""Schedules that are deleted in the moment in which they are due, over several gateways."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from pyoco_server.schedules.record import planned_run_id
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, config_for, until
from tests.promises.stack import processes

SCHEDULES = 50
DUE_IN_SEC = 5.0


async def test_a_deleted_schedule_begins_nothing(nats_server: NatsServer, tmp_path: Path) -> None:
    config = config_for(nats_server, housekeeping_interval_sec=0.1)
    store = await Store.connect(config, name="test")
    with processes(config, tmp_path) as started:
        gateways = [started.gateway() for _ in range(3)]
        for gateway in gateways:
            await gateway.ready()
        clients = [httpx.AsyncClient(base_url=one.url, timeout=30) for one in gateways]
        made = await _made(clients[0])
        due_at = made[-1]["next_at"]
        # While housekeeping is at them, one after the other.
        await until(lambda: time.time() >= due_at, every_sec=0.001)
        logged = await asyncio.gather(
            *(_deleted(clients[number % 3], store, one) for number, one in enumerate(made))
        )
        # Each of them was either too late, and has a run already, or began nothing, then or later.
        await until(lambda: time.time() >= due_at + 2.0)
        begun_at = [await _begun_at(store, one) for one in made]
        for client in clients:
            await client.aclose()
    await store.close()
    late = [one for one, last in zip(begun_at, logged, strict=True) if one > last]
    assert late == []


async def _made(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    """All due within a tenth of a second."""
    begin = time.time() + DUE_IN_SEC
    instants = [begin + number * 0.1 / SCHEDULES for number in range(SCHEDULES)]
    texts = [datetime.fromtimestamp(at, UTC).isoformat() for at in instants]
    bodies = [{"flow_name": "quick", "run_at": text} for text in texts]
    made = await asyncio.gather(*(client.post("/schedules", json=body) for body in bodies))
    return [answer.raise_for_status().json() for answer in made]


async def _deleted(client: httpx.AsyncClient, store: Store, schedule: dict[str, Any]) -> int:
    """Where the log stood when the delete had been answered."""
    path = f"/schedules/{schedule['schedule_id']}"
    (await client.delete(path)).raise_for_status()
    return await store.jetstream.last_seq(store.config.events_stream)


async def _begun_at(store: Store, schedule: dict[str, Any]) -> int:
    """Where its run stands in the log; 0: it has none."""
    planned_at = schedule["next_at"]
    assert isinstance(planned_at, float)
    run_id = planned_run_id(str(schedule["schedule_id"]), planned_at)
    first = await store.jetstream.first(
        store.config.events_stream, f"{store.config.events_subject_prefix}.{run_id}"
    )
    return 0 if first is None else first.seq
