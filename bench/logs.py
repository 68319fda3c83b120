"""The cost of logs: from print to frame with many followers, and long logs compared with short ones."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable

from bench.http_client import Connection
from bench.stack import TAG, Stack, stack
from bench.summaries import percentile
from pyoco_server.config import NatsBackendConfig
from pyoco_server.ids import new_token
from pyoco_server.store.logs.writer import LogEnd, LogLine
from pyoco_server.store.store import Store

TICKS = 60
FOLLOWERS = 200
SHORT, LONG = 1_000, 1_000_000
CHUNK_LINES = 1_000
ASKED = 30


async def print_to_frame(*, followers: int = FOLLOWERS) -> dict[str, float]:
    """A flow prints the current time every 50 ms, and each follower compares it with its own clock."""
    async with stack("interval") as started:
        await started.gateway()
        started.worker(concurrency=1)
        alone = await _followed(started, 1)
        crowd = await _followed(started, followers)
        lazy = await _followed(started, followers, with_one_who_stops=True)
        return {
            "ms from print to frame, 1 follower, p50": percentile(alone, 0.5) * 1000,
            "the same, p99": percentile(alone, 0.99) * 1000,
            f"{followers} followers of one job, p50": percentile(crowd, 0.5) * 1000,
            "the same, p99 ": percentile(crowd, 0.99) * 1000,
            "… and one more that stops reading, p50": percentile(lazy, 0.5) * 1000,
            "the same, p99  ": percentile(lazy, 0.99) * 1000,
        }


async def _followed(started: Stack, followers: int, *, with_one_who_stops: bool = False) -> list[float]:
    connection = await started.connect()
    body = json.dumps({"parameters": {"ticks": TICKS}, "flow": "clock", "tag": TAG}).encode()
    _, job = await connection.post("/jobs", body)
    connection.close()
    idle = await _open(started.port, str(job["id"])) if with_one_who_stops else None
    delays = await asyncio.gather(*(_delays(started.port, str(job["id"])) for _ in range(followers)))
    if idle is not None:
        idle[1].close()
    return [delay for one in delays for delay in one]


async def _delays(port: int, job_id: str) -> list[float]:
    reader, writer = await _open(port, job_id)
    found = []
    while True:
        line = await reader.readline()
        if line.startswith(b"data: ") and b'"message":"at ' in line:
            found.append(time.time() - float(json.loads(line[6:])["message"][3:]))
        if line.startswith(b"event: end") or not line:
            writer.close()
            # Lines printed before the connection do not count.
            return found[TICKS // 3 :]


async def _open(port: int, job_id: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /jobs/{job_id}/logs/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    return reader, writer


async def long_logs(*, long: int = LONG) -> dict[str, float]:
    """Pages, a range and a search of a long log, compared with a short one."""
    figures: dict[str, float] = {}
    async with stack("interval") as started:
        await started.gateway()
        store = await Store.connect(NatsBackendConfig(nats_url=started.broker.url), name="bench")
        connection = await started.connect()
        for lines in (SHORT, long):
            job_id, size = await _written(store, connection, lines)
            for what, ask in _questions(job_id, lines, size).items():
                figures[f"{what}, {lines} lines, ms p50"] = await _timed(started, ask)
        connection.close()
        await store.close()
    return figures


async def _written(store: Store, connection: Connection, lines: int) -> tuple[str, int]:
    _, job = await connection.post("/jobs", b'{"parameters":{},"tag":"nobody"}')
    end, at = LogEnd(), time.time()
    for begin in range(0, lines, CHUNK_LINES):
        chunk = [
            LogLine(at, "stdout", f"step {number} of the computation has ended well", "compute", 1)
            for number in range(begin, min(begin + CHUNK_LINES, lines))
        ]
        end = await store.logs.append(str(job["id"]), end, chunk, fence=1, chunk_id=new_token())
    return str(job["id"]), end.size


Ask = Callable[[Connection], Awaitable[object]]


def _questions(job_id: str, lines: int, size: int) -> dict[str, Ask]:
    path = f"/jobs/{job_id}/logs"
    middle = size // 2
    part = f"Accept: application/x-ndjson\r\nRange: bytes={middle}-{middle + 65_535}\r\n"
    return {
        "first page": lambda connection: connection.get_text(path),
        "last page": lambda connection: connection.get_text(f"{path}?tail=1000"),
        "page in the middle": lambda connection: connection.get_text(f"{path}?fromLine={lines // 2}"),
        "64 KiB in the middle": lambda connection: connection.get_text(path, part),
        "search for one line": lambda connection: connection.get_text(f"{path}?q=step+{lines - 7}+of"),
    }


async def _timed(started: Stack, ask: Ask) -> float:
    connection = await started.connect()
    taken = []
    for _ in range(ASKED):
        begun = time.perf_counter()
        await ask(connection)
        taken.append(time.perf_counter() - begun)
    connection.close()
    return percentile(taken, 0.5) * 1000
