"""The cost of `/metrics` with few and with many stored runs."""

from __future__ import annotations

import time

from bench.lists import fill
from bench.stack import Stack, stack
from bench.summaries import percentile

ASKED = 300


async def metrics_cost(*, few: int = 1_000, many: int = 200_000) -> dict[str, float]:
    async with stack("interval") as started:
        await started.gateway()
        await fill(started, few)
        small = await _costs(started)
        await fill(started, many - few)
        large = await _costs(started)
        return {
            f"/metrics p50 ms at {few}": percentile(small, 0.5) * 1000,
            f"/metrics p50 ms at {many}": percentile(large, 0.5) * 1000,
            f"/metrics p99 ms at {many}": percentile(large, 0.99) * 1000,
            "/metrics ratio": percentile(large, 0.5) / percentile(small, 0.5),
        }


async def _costs(started: Stack) -> list[float]:
    connection = await started.connect()
    taken = []
    for _ in range(ASKED):
        begun = time.perf_counter()
        status, _ = await connection.get_text("/metrics")
        taken.append(time.perf_counter() - begun)
        assert status == 200
    connection.close()
    return taken
