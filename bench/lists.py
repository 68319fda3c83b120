"""The cost of a list with few and with many stored runs."""

from __future__ import annotations

import time
import uuid

import nats

from bench.stack import Stack, stack
from bench.summaries import percentile
from pyoco_server.config import NatsBackendConfig
from pyoco_server.lifecycle.events import Event, RunClaimed, RunCompleted, RunSubmitted
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.snapshot import snapshot_of
from pyoco_server.store.runs.codec import encode_commit, encode_snapshot

PATHS = ("/runs", "/runs?status=FAILED", "/runs?flow=flow_3&limit=50", "/runs?status=PENDING&tag=t1")
ASKED = 300
CONFIG = NatsBackendConfig()


async def list_cost(*, few: int = 1_000, many: int = 200_000) -> dict[str, float]:
    async with stack("interval") as started:
        await started.gateway()
        await fill(started, few)
        small = await _costs(started)
        await fill(started, many - few)
        large = await _costs(started)
        figures: dict[str, float] = {"gateway MB with all of them": started.memory_mb()[0]}
        for path in PATHS:
            figures[f"{path} p50 ms at {few}"] = small[path]
            figures[f"{path} p50 ms at {many}"] = large[path]
            figures[f"{path} ratio"] = large[path] / small[path]
        return figures


async def fill(started: Stack, count: int, *, with_snapshots: bool = False) -> None:
    """Write runs directly into the log, in the form that gateways and workers use."""
    client = await nats.connect(started.broker.url)
    position = (await client.jetstream().stream_info(CONFIG.events_stream)).state.last_seq
    for number in range(count):
        run_id = str(uuid.uuid4())
        events = _events_of(run_id, number)
        headers = {"Pyoco-Commit": run_id, "Pyoco-Commit-No": "1"}
        subject = f"{CONFIG.events_subject_prefix}.{run_id}"
        await client.publish(subject, encode_commit(events), headers=headers)
        if with_snapshots:
            # The broker stores what one connection publishes in order.
            snapshot = _snapshot_of(events, position + number + 1)
            await client.publish(f"$KV.{CONFIG.runs_kv_bucket}.{run_id}", snapshot)
        if number % 500 == 0:
            await client.flush(60)
    await client.flush(60)
    await client.close()
    connection = await started.connect()
    status = 503
    while status != 200:
        status, _ = await connection.get("/runs?limit=1")
    connection.close()


def _events_of(run_id: str, number: int) -> list[Event]:
    """Nine of ten runs have ended."""
    at = time.time()
    submitted = RunSubmitted(
        at=at,
        run_id=run_id,
        flow_name=f"flow_{number % 7}",
        params={},
        tag=f"t{number % 3}",
        tags=[],
    )
    if number % 10 == 0:
        return [submitted]
    return [
        submitted,
        RunClaimed(at=at, worker_id="w", instance_id="w.1", fence=1),
        RunCompleted(at=at),
    ]


def _snapshot_of(events: list[Event], log_seq: int) -> bytes:
    run = fold(None, events)
    assert run is not None
    return encode_snapshot(
        snapshot_of(run, max_bytes=CONFIG.max_run_snapshot_bytes, commits=1, log_seq=log_seq)
    )


async def _costs(started: Stack) -> dict[str, float]:
    connection = await started.connect()
    costs = {}
    for path in PATHS:
        taken = []
        for _ in range(ASKED):
            begun = time.perf_counter()
            status, _ = await connection.get(path)
            taken.append(time.perf_counter() - begun)
            assert status == 200
        costs[path] = percentile(taken, 0.5) * 1000
    connection.close()
    return costs
