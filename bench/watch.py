"""The cost of watchers: memory of a gateway with a thousand streams, and the delay of an end."""

from __future__ import annotations

import asyncio
import resource
import time

from bench.http_client import Connection
from bench.stack import Stack, stack
from bench.summaries import percentile

SUBMISSION = b'{"flow_name":"noop","tag":"nobody","params":{"n":1}}'
END = b'"status":"CANCELLED"'
ROUNDS = 5


async def watcher_cost(*, watchers: int = 1_000) -> dict[str, float]:
    _allow_sockets(watchers * 2 + 200)
    async with stack("interval") as started:
        await started.gateway()
        alone = started.memory_mb()[0]
        same = [await _end_of_one_run(started, watchers) for _ in range(ROUNDS)]
        own, figure = await _ends_of_own_runs(started, watchers)
        return {
            "gateway MB before": alone,
            f"gateway MB, {watchers} watchers of one run": max(memory for memory, _ in same),
            "ms from the cancel to the last of them, p50": percentile([sec for _, sec in same], 0.5) * 1000,
            f"gateway MB, {watchers} watchers of a run each": own,
            "cancels/s while each is watched": figure,
        }


async def _end_of_one_run(started: Stack, watchers: int) -> tuple[float, float]:
    connection = await started.connect()
    run_id = await _submitted(connection)
    connection.close()
    readers = await asyncio.gather(*(_watch(started.port, run_id) for _ in range(watchers)))
    memory = started.memory_mb()[0]
    connection = await started.connect()  # the first one would have been idle for too long
    begun = time.perf_counter()
    ends = asyncio.gather(*(reader.readuntil(END) for reader, _ in readers))
    await connection.post(f"/runs/{run_id}/cancel", b"")
    await ends
    seconds = time.perf_counter() - begun
    _close(connection, readers)
    return memory, seconds


async def _ends_of_own_runs(started: Stack, watchers: int) -> tuple[float, float]:
    connection = await started.connect()
    run_ids = [await _submitted(connection) for _ in range(watchers)]
    connection.close()
    readers = [await _watch(started.port, run_id) for run_id in run_ids]
    memory = started.memory_mb()[0]
    connection = await started.connect()  # the first one would have been idle for too long
    begun = time.perf_counter()
    ends = asyncio.gather(*(reader.readuntil(END) for reader, _ in readers))
    for run_id in run_ids:
        await connection.post(f"/runs/{run_id}/cancel", b"")
    await ends
    seconds = time.perf_counter() - begun
    _close(connection, readers)
    return memory, watchers / seconds


async def _submitted(connection: Connection) -> str:
    _, accepted = await connection.post("/runs", SUBMISSION)
    return str(accepted["run_id"])


async def _watch(port: int, run_id: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect, and read until the first snapshot has arrived."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /runs/{run_id}/watch?timeout_sec=600 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    await reader.readuntil(b'"status":"PENDING"')
    return reader, writer


def _close(connection: Connection, readers: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]) -> None:
    connection.close()
    for _, writer in readers:
        writer.close()


def _allow_sockets(count: int) -> None:
    """For this process and the processes that it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, count), hard), hard))
