"""Commands on executions compared with raw appends, and the cost of reading a long history."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any

import msgspec
import nats
from nats.js.api import StreamConfig

from bench.http_client import Connection
from bench.stack import Durability, Stack, stack
from bench.summaries import percentile

GRAPH = b'{"nodes":[{"id":"a"}]}'
EVENTS = 10_000
_keys = itertools.count()


async def command_rate(durability: Durability, *, count: int = 3_000, clients: int = 32) -> dict[str, float]:
    """Uses progress reports, the cheapest command: one commit of one event."""
    async with stack(durability) as started:
        await started.gateway()
        raw_one, raw_many = await _raw_appends(started.broker.url, count=count, clients=clients)
        first = await started.connect()
        await _put(first, "/graphs/g", GRAPH)
        executions = [await _running(first) for _ in range(clients)]
        await _commands(started, executions, count // 10)
        before = started.processor_sec()[0]
        one, one_sec = await _commands(started, executions[:1], count // 3)
        between = started.processor_sec()[0]
        many, many_sec = await _commands(started, executions, count)
        after = started.processor_sec()[0]
        first.close()
        return {
            "raw appends/s, one subject": raw_one,
            f"raw appends/s, {clients} subjects": raw_many,
            "commands/s on one execution": len(one) / one_sec,
            "ratio to raw, one": len(one) / one_sec / raw_one,
            f"commands/s on {clients} executions": len(many) / many_sec,
            "ratio to raw, many": len(many) / many_sec / raw_many,
            "p50 ms, one execution": percentile(one, 0.5) * 1000,
            f"p50 ms, {clients} executions": percentile(many, 0.5) * 1000,
            f"p99 ms, {clients} executions": percentile(many, 0.99) * 1000,
            "gateway processor ms a command, one": (between - before) / len(one) * 1000,
            "gateway processor ms a command, many": (after - between) / len(many) * 1000,
        }


async def long_history(*, events: int = EVENTS) -> dict[str, float]:
    """The events are reported one by one over HTTP, then read by a gateway without a cached copy."""
    async with stack("interval") as started:
        await started.gateway()
        connection = await started.connect()
        await _put(connection, "/graphs/g", GRAPH)
        execution_id = await _running(connection)
        connection.close()
        await _commands(started, [execution_id], events)
        connection = await started.connect()
        path = f"/executions/{execution_id}"
        figures = {
            f"first page of {events} events, cold ms": await _took(connection, f"{path}/events?limit=500"),
            "the same page, warm ms": await _took(connection, f"{path}/events?limit=500"),
            "all of them in pages of 2 000, ms": await _all_pages(connection, path, events),
            f"state at {events // 2}, ms": await _took(connection, f"{path}/state?atSeq={events // 2}"),
            "state at the end, ms": await _took(connection, f"{path}/state?atSeq={events}"),
            "verify, ms": await _took(connection, f"{path}/verify"),
            "GET of the execution, ms": await _took(connection, path),
        }
        figures["gateway MB"] = started.memory_mb()[0]
        connection.close()
        return figures


async def _raw_appends(url: str, *, count: int, clients: int) -> tuple[float, float]:
    """Appends with nats-py at an expected sequence: one after the other, and on many subjects at once."""
    client = await nats.connect(url)
    js = client.jetstream()
    await js.add_stream(StreamConfig(name="RAWX", subjects=["rawx.>"]))

    async def append(subject: str, times: int) -> None:
        last = 0
        for _ in range(times):
            headers = {"Nats-Expected-Last-Subject-Sequence": str(last)}
            last = (await js.publish(subject, b"x" * 300, headers=headers)).seq

    begun = time.perf_counter()
    await append("rawx.one", count // 3)
    one = count // 3 / (time.perf_counter() - begun)
    begun = time.perf_counter()
    await asyncio.gather(*(append(f"rawx.{number}", count // clients) for number in range(clients)))
    many = count // clients * clients / (time.perf_counter() - begun)
    await client.close()
    return one, many


async def _commands(started: Stack, executions: list[str], count: int) -> tuple[list[float], float]:
    """One client for each execution, because commands on one execution wait for each other."""
    connections = [await started.connect() for _ in executions]
    latencies: list[float] = []

    async def report(connection: Connection, execution_id: str) -> None:
        path = f"/executions/{execution_id}/nodes/a/progress"
        for number in range(count // len(executions)):
            begun = time.perf_counter()
            await _post(connection, path, b'{"progress":%d}' % (number % 101))
            latencies.append(time.perf_counter() - begun)

    begun = time.perf_counter()
    await asyncio.gather(*map(report, connections, executions))
    seconds = time.perf_counter() - begun
    for connection in connections:
        connection.close()
    return latencies, seconds


async def _running(connection: Connection) -> str:
    created = await _post(connection, "/executions", b'{"graphId":"g"}')
    execution_id: str = created["executionId"]
    await _post(connection, f"/executions/{execution_id}/start", b"{}")
    taken = b'{"attempt":1,"workerId":"bench"}'
    await _post(connection, f"/executions/{execution_id}/nodes/a/start", taken)
    return execution_id


async def _post(connection: Connection, path: str, body: bytes) -> Any:
    key = f"X-Idempotency-Key: bench-{next(_keys)}\r\n"
    status, answer = await connection.send("POST", path, body, key)
    assert status == 202, answer
    return answer


async def _put(connection: Connection, path: str, body: bytes) -> None:
    status, answer = await connection.send("PUT", path, body)
    assert status in (200, 201), answer


async def _took(connection: Connection, path: str) -> float:
    begun = time.perf_counter()
    status, body = await connection.get_text(path)
    assert status == 200, body
    return (time.perf_counter() - begun) * 1000


async def _all_pages(connection: Connection, path: str, events: int) -> float:
    begun = time.perf_counter()
    found = 0
    while found < events:
        _, text = await connection.get_text(f"{path}/events?afterSeq={found}&limit=2000")
        found += len(msgspec.json.decode(text)["events"])
    return (time.perf_counter() - begun) * 1000
