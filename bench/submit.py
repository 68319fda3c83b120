"""`POST /runs` compared with raw publishes of the same client library, and an idle submit from end to end."""

from __future__ import annotations

import asyncio
import time

import nats
from nats.js.api import StreamConfig

from bench.http_client import Connection
from bench.stack import TAG, Durability, Stack, stack
from bench.summaries import percentile

BODY = b'{"flow_name":"noop","tag":"%s","params":{"n":1}}' % TAG.encode()
WARM_UP = 300
# One submit writes an event, a snapshot and a job.
WRITES_PER_SUBMIT = 3


async def submit_rate(durability: Durability, *, count: int = 6000, clients: int = 64) -> dict[str, float]:
    async with stack(durability) as started:
        await started.gateway()
        raw = await raw_publishes(started.broker.url, count=count, in_flight=clients)
        await _submits(started, WARM_UP, 8)
        latencies, seconds = await _submits(started, count, clients)
        some, some_seconds = await _submits(started, count // 2, 16)
        alone, _ = await _submits(started, 300, 1)
        rate = count / seconds
        return {
            "raw publishes/s": raw,
            f"POST /runs/s, {clients} clients": rate,
            "durable writes/s of them": rate * WRITES_PER_SUBMIT,
            "ratio to raw": rate * WRITES_PER_SUBMIT / raw,
            f"p50 ms, {clients} clients": percentile(latencies, 0.5) * 1000,
            f"p99 ms, {clients} clients": percentile(latencies, 0.99) * 1000,
            "POST /runs/s, 16 clients": len(some) / some_seconds,
            "p50 ms, 16 clients": percentile(some, 0.5) * 1000,
            "p50 ms, 1 client": percentile(alone, 0.5) * 1000,
        }


async def end_to_end(durability: Durability, *, count: int = 400, burst: int = 2000) -> dict[str, float]:
    async with stack(durability) as started:
        await started.gateway()
        started.worker()
        connection = await started.connect()
        for _ in range(WARM_UP):
            await _run(connection)
        idle = [await _run(connection) for _ in range(count)]
        raw = await _raw_round_trip(started.broker.url)
        begun = time.perf_counter()
        await _submits(started, burst, 64)
        await _drained(started)
        seconds = time.perf_counter() - begun
        return {
            "raw publish round trip ms": raw * 1000,
            "idle submit → terminal p50 ms": percentile(idle, 0.5) * 1000,
            "idle submit → terminal p99 ms": percentile(idle, 0.99) * 1000,
            "ratio of p50 to raw": percentile(idle, 0.5) / raw,
            f"no-op runs/s, burst of {burst}": burst / seconds,
            "gateway MB": started.memory_mb()[0],
            "worker MB": started.memory_mb()[1],
        }


async def raw_publishes(url: str, *, count: int, in_flight: int) -> float:
    client = await nats.connect(url)
    stream = client.jetstream()
    await stream.add_stream(StreamConfig(name="RAW", subjects=["raw.>"]))
    gate = asyncio.Semaphore(in_flight)

    async def publish(number: int) -> None:
        async with gate:
            await stream.publish(f"raw.{number}", b"x" * 200, headers={"A": "b"})

    begun = time.perf_counter()
    await asyncio.gather(*map(publish, range(count)))
    seconds = time.perf_counter() - begun
    await client.close()
    return count / seconds


async def _raw_round_trip(url: str) -> float:
    client = await nats.connect(url)
    stream = client.jetstream()
    await stream.add_stream(StreamConfig(name="RAW", subjects=["raw.>"]))
    taken = []
    for number in range(300):
        begun = time.perf_counter()
        await stream.publish(f"raw.{number}", b"x" * 200)
        taken.append(time.perf_counter() - begun)
    await client.close()
    return percentile(taken, 0.5)


async def _submits(started: Stack, count: int, clients: int) -> tuple[list[float], float]:
    connections = [await started.connect() for _ in range(clients)]
    latencies: list[float] = []
    left = iter(range(count))

    async def client(connection: Connection) -> None:
        for _ in left:
            begun = time.perf_counter()
            status, _ = await connection.post("/runs", BODY)
            latencies.append(time.perf_counter() - begun)
            assert status == 200

    begun = time.perf_counter()
    await asyncio.gather(*map(client, connections))
    seconds = time.perf_counter() - begun
    for connection in connections:
        connection.close()
    return latencies, seconds


async def _run(connection: Connection) -> float:
    begun = time.perf_counter()
    _, accepted = await connection.post("/runs", BODY)
    _, run = await connection.get(f"/runs/{accepted['run_id']}?wait=10")
    assert run["status"] == "COMPLETED", run
    return time.perf_counter() - begun


async def _drained(started: Stack) -> None:
    connection = await started.connect()
    for status in ("PENDING", "RUNNING"):
        left = True
        while left:
            await asyncio.sleep(0.02)  # each poll costs the gateway time too
            _, runs = await connection.get(f"/runs?status={status}&limit=1")
            left = bool(runs)
    connection.close()
