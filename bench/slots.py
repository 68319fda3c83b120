"""How long a slot is missing after a hard cancel: the flow does not stop, so its process is replaced."""

from __future__ import annotations

import asyncio
import time

import msgspec

from bench.http_client import Connection
from bench.stack import TAG, Durability, stack
from bench.summaries import percentile

GRACE_SEC = 0.2
POLL_SEC = 0.01


async def replacement_cost(durability: Durability = "interval", *, count: int = 15) -> dict[str, float]:
    """With one slot, the next run waits for the replacement."""
    async with stack(durability) as started:
        started.env |= {"PYOCO_CANCEL_GRACE_PERIOD_SEC": str(GRACE_SEC)}
        await started.gateway()
        started.worker(1)
        connection = await started.connect()
        await _end_of(connection, await _submit(connection, "noop"))
        usual, after, killed = [], [], []
        for _ in range(count):
            usual.append(await _time_of_noop(connection))
            killed.append(await _hard_cancel(connection) - GRACE_SEC)
            after.append(await _time_of_noop(connection))
        connection.close()
    return {
        "no-op run, p50 ms": percentile(usual, 0.5) * 1000,
        "no-op run after a hard cancel, p50 ms": percentile(after, 0.5) * 1000,
        "slot missing after a hard cancel, p50 ms": (percentile(after, 0.5) - percentile(usual, 0.5)) * 1000,
        "slot missing after a hard cancel, worst ms": (max(after) - percentile(usual, 0.5)) * 1000,
        "end of the grace period → CANCELLED, p50 ms": percentile(killed, 0.5) * 1000,
    }


async def _hard_cancel(connection: Connection) -> float:
    """Seconds from the cancel to the end of the run."""
    run_id = await _submit(connection, "stubborn")
    while not await _is_running(connection, run_id):  # noqa: ASYNC110 — the condition is read over HTTP
        await asyncio.sleep(POLL_SEC)
    begun = time.perf_counter()
    await connection.post(f"/runs/{run_id}/cancel", b"")
    assert await _end_of(connection, run_id) == "CANCELLED"
    return time.perf_counter() - begun


async def _time_of_noop(connection: Connection) -> float:
    begun = time.perf_counter()
    assert await _end_of(connection, await _submit(connection, "noop")) == "COMPLETED"
    return time.perf_counter() - begun


async def _submit(connection: Connection, flow: str) -> str:
    _, accepted = await connection.post("/runs", msgspec.json.encode({"flow_name": flow, "tag": TAG}))
    return str(accepted["run_id"])


async def _end_of(connection: Connection, run_id: str) -> str:
    _, run = await connection.get(f"/runs/{run_id}?wait=60")
    return str(run["status"])


async def _is_running(connection: Connection, run_id: str) -> bool:
    _, tasks = await connection.get(f"/runs/{run_id}/tasks")
    return "RUNNING" in str(tasks)
