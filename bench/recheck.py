"""The cost of rechecks: requests accepted per second, and a page of few and of many strategies."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.http_client import Connection
from bench.stack import Durability, Stack, stack
from bench.summaries import percentile
from pyoco_server.config import NatsBackendConfig
from pyoco_server.ids import new_ulid
from pyoco_server.recheck.catalogue import Strategy
from pyoco_server.store.store import Store

PATHS = (
    "/gui/strategies",
    "/gui/strategies?sort=id.asc&page=2",
    "/gui/strategies?health=unknown&instrument=USDJPY&sort=instrument.desc",
    "/gui/strategies?tags_any=rare,daily",
    "/gui/strategies?q=s000042",
    "/gui/strategies?q=%25",
)
ASKED = 200
CLIENTS = 16
NO_LIMIT = str(10**9)


async def accept_rate(durability: Durability, *, count: int = 2_000) -> dict[str, float]:
    """Evaluated requests (`dry_run` false) and dry runs, each with its own key."""
    async with _started(durability) as started:
        await fill(started, 100)
        figures: dict[str, float] = {}
        for what, dry_run in (("dry run", True), ("evaluated", False)):
            found = await _asked(started, dry_run=dry_run, count=count)
            figures |= {f"{what}, {name}": figure for name, figure in found.items()}
        return figures


async def page_cost(*, few: int = 100, many: int = 100_000) -> dict[str, float]:
    async with _started("interval") as started:
        await fill(started, few)
        small = await _costs(started)
        await fill(started, many)
        large = await _costs(started)
        figures: dict[str, float] = {"gateway MB with all of them": started.memory_mb()[0]}
        for path in PATHS:
            figures[f"{path} p50 ms at {few}"] = small[path]
            figures[f"{path} p50 ms at {many}"] = large[path]
        return figures


@asynccontextmanager
async def _started(durability: Durability) -> AsyncIterator[Stack]:
    """A stack whose gateway has practically no rate limit for its only client."""
    async with stack(durability) as begun:
        for name in ("RECHECK_READS", "RECHECK", "RECHECK_ALL"):
            begun.env[f"PYOCO_{name}_PER_MIN"] = NO_LIMIT
        await begun.gateway()
        yield begun


async def fill(started: Stack, count: int) -> None:
    store = await Store.connect(NatsBackendConfig(nats_url=started.broker.url), name="bench")
    await store.rechecks.put_strategies("default", map(_strategy, range(count)))
    await store.close()
    connection = await started.connect()
    total = -1
    while total != count:
        _, page = await connection.get("/gui/strategies?page_size=10")
        total = page.get("total", -1) if isinstance(page, dict) else -1
    connection.close()


def _strategy(number: int) -> Strategy:
    return Strategy(
        id=f"strat.s{number:06d}",
        title=f"Strategy {number}",
        instrument=("USDJPY", "EURUSD", "GBPUSD")[number % 3],
        tags=("rare",) if number % 1000 == 0 else ("daily", "fx") if number % 4 == 0 else ("fx",),
    )


async def _asked(started: Stack, *, dry_run: bool, count: int) -> dict[str, float]:
    body = {"strategies": ["strat.s000001"], "reason": "bench", "dry_run": dry_run}
    content = json.dumps(body).encode()
    connections = [await started.connect() for _ in range(CLIENTS)]
    left, taken = iter(range(count)), []

    async def client(connection: Connection) -> None:
        for _ in left:
            begun = time.perf_counter()
            # The key is appended to the path, because this client sends a fixed set of headers.
            path = f"/pdca/recheck HTTP/1.1\r\nIdempotency-Key: {new_ulid()}\r\nX-Rest:"
            status, _ = await connection.post(path, content)
            taken.append(time.perf_counter() - begun)
            assert status == 202

    begun = time.perf_counter()
    await asyncio.gather(*map(client, connections))
    seconds = time.perf_counter() - begun
    for connection in connections:
        connection.close()
    return {
        f"accepted/s, {CLIENTS} clients": count / seconds,
        "p50 ms": percentile(taken, 0.5) * 1000,
        "p99 ms": percentile(taken, 0.99) * 1000,
    }


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
