"""A worker compared with a raw cycle: runs and tasks per second, cancels, printing, memory."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import nats
from nats.js.api import ConsumerConfig, RetentionPolicy, StreamConfig

from bench.http_client import Connection
from bench.stack import TAG, Durability, Stack, stack
from bench.summaries import percentile

WARM_UP = 100
# Each poll costs the gateway time too: every list first applies pending commits.
POLL_SEC = 0.03
LINES = 100_000
LISTED = f"/runs?tag={TAG}&limit=1&status="
PRINT = f"for number in range({LINES}): print('line', number)"


async def worker_rates(durability: Durability, *, burst: int = 2000) -> dict[str, float]:
    figures: dict[str, float] = {}
    for slots in (1, 8):
        async with stack(durability) as started:
            raw = await raw_cycles(started.broker.url, count=1000, in_flight=slots)
            await started.gateway()
            await submitted(started, "noop", burst)
            await begun(started, slots)
            rate = burst / await drained(started)
            figures[f"raw cycles/s, {slots} in flight"] = raw
            figures[f"no-op runs/s, {slots} slots"] = rate
            figures[f"ratio, {slots} slots"] = rate / raw
            figures[f"worker parent MB, {slots} slots"] = started.memory_mb()[-1]
    return figures


async def task_rates(durability: Durability, *, chains: int = 200, fans: int = 60) -> dict[str, float]:
    figures: dict[str, float] = {}
    for flow, count, tasks in (("chain_10", chains, 10), ("fan_100", fans, 100)):
        async with stack(durability) as started:
            await started.gateway()
            await submitted(started, flow, count)
            await begun(started, 8)
            seconds = await drained(started)
            figures[f"{flow}: tasks/s, 8 slots"] = count * tasks / seconds
    return figures


async def cancel_cost(durability: Durability = "interval", *, count: int = 50) -> dict[str, float]:
    seen: list[float] = []
    ended: list[float] = []
    async with stack(durability) as started:
        await started.gateway()
        started.worker(2)
        connection = await started.connect()
        for _ in range(count):
            to_code, to_end = await _cancelled(connection, started.seen)
            seen.append(to_code)
            ended.append(to_end)
    return {
        "POST cancel → user code sees it, p50 ms": percentile(seen, 0.5) * 1000,
        "POST cancel → user code sees it, p99 ms": percentile(seen, 0.99) * 1000,
        "POST cancel → CANCELLED, p50 ms": percentile(ended, 0.5) * 1000,
        "POST cancel → CANCELLED, p99 ms": percentile(ended, 0.99) * 1000,
    }


async def print_cost(durability: Durability = "interval", *, times: int = 5) -> dict[str, float]:
    """Compares a slot with a process that prints the same lines into a pipe with a reader."""
    async with stack(durability) as started:
        await started.gateway()
        started.worker(1)
        connection = await started.connect()
        await _ended(connection, "noop")
        ours, plain = [], []
        for _ in range(times):
            run = await _ended(connection, "print", {"lines": LINES})
            ours.append(run["task_records"]["speak"]["duration_ms"] / 1000)
            plain.append(await asyncio.to_thread(_plain_print))
    return {
        f"{LINES} lines printed into a pipe, s": min(plain),
        f"{LINES} lines printed in a slot, s": min(ours),
        "ratio": min(ours) / min(plain),
    }


async def raw_cycles(url: str, *, count: int, in_flight: int) -> float:
    """Fetch a job, write two commits, acknowledge: the minimum that a run needs from the broker."""
    client = await nats.connect(url)
    js = client.jetstream()
    await js.add_stream(StreamConfig(name="RAWQ", subjects=["rawq"], retention=RetentionPolicy.WORK_QUEUE))
    await js.add_stream(StreamConfig(name="RAWE", subjects=["rawe.>"]))
    await asyncio.gather(*(js.publish("rawq", b"x" * 200) for _ in range(count)))
    config = ConsumerConfig(max_ack_pending=1000)
    left = count

    async def work(number: int) -> None:
        nonlocal left
        subscription = await js.pull_subscribe("rawq", "raw", config=config)
        while left > 0:
            left -= 1
            (job,) = await subscription.fetch(1, timeout=5)
            for _ in range(2):
                await js.publish(f"rawe.{number}", b"x" * 300, headers={"A": "b"})
            await job.ack()

    begun = time.perf_counter()
    await asyncio.gather(*map(work, range(in_flight)))
    seconds = time.perf_counter() - begun
    for name in ("RAWQ", "RAWE"):
        await js.delete_stream(name)
    await client.close()
    return count / seconds


async def submitted(started: Stack, flow: str, count: int) -> None:
    body = msgspec.json.encode({"flow_name": flow, "tag": TAG})
    connections = [await started.connect() for _ in range(32)]

    async def submit(connection: Connection, share: int) -> None:
        for _ in range(share):
            status, answer = await connection.post("/runs", body)
            assert status < 300, answer

    shares = [count // 32 + (number < count % 32) for number in range(32)]
    await asyncio.gather(*map(submit, connections, shares))
    for connection in connections:
        connection.close()


async def begun(started: Stack, slots: int) -> None:
    """Start a worker and wait for the end of its first run, so that the start is not measured."""
    started.worker(slots)
    connection = await started.connect()
    await _until(lambda: _has(connection, f"{LISTED}COMPLETED"))
    connection.close()


async def drained(started: Stack) -> float:
    """Seconds until the last run has ended."""
    begun = time.perf_counter()
    connection = await started.connect()
    for status in ("PENDING", "RUNNING"):
        await _until(lambda status=status: _has_none(connection, LISTED + status))  # type: ignore[misc]
    connection.close()
    return time.perf_counter() - begun


async def _has(connection: Connection, path: str) -> bool:
    return bool((await connection.get(path))[1])


async def _has_none(connection: Connection, path: str) -> bool:
    return not await _has(connection, path)


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    while not await condition():  # noqa: ASYNC110 — the condition is read over HTTP
        await asyncio.sleep(POLL_SEC)


async def _cancelled(connection: Connection, seen: Path) -> tuple[float, float]:
    """Seconds from the POST until the flow's code saw the cancel, and until the caller saw the end."""
    body = msgspec.json.encode({"flow_name": "until_cancelled", "tag": TAG})
    _, run = await connection.post("/runs", body)
    run_id = run["run_id"]
    await _until(lambda: _runs(connection, run_id))
    asked, begun = time.time(), time.perf_counter()
    await connection.post(f"/runs/{run_id}/cancel", b"")
    _, ended = await connection.get(f"/runs/{run_id}?wait=30")
    to_end = time.perf_counter() - begun
    assert ended["status"] == "CANCELLED", ended
    return float(await asyncio.to_thread(seen.read_text)) - asked, to_end


async def _runs(connection: Connection, run_id: str) -> bool:
    _, tasks = await connection.get(f"/runs/{run_id}/tasks")
    return "RUNNING" in str(tasks)


async def _ended(connection: Connection, flow: str, params: dict[str, int] | None = None) -> dict[str, Any]:
    body = msgspec.json.encode({"flow_name": flow, "tag": TAG, "params": params or {}})
    _, run = await connection.post("/runs", body)
    _, ended = await connection.get(f"/runs/{run['run_id']}?wait=60&include=records")
    assert ended["status"] == "COMPLETED", ended
    return dict(ended)


def _plain_print() -> float:
    script = "import sys, time; sys.stdout.reconfigure(line_buffering=True); begun = time.perf_counter()"
    script += f"\n{PRINT}\nsys.stderr.write(str(time.perf_counter() - begun))"
    reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=reader.stdin, stderr=subprocess.PIPE, check=True
    )
    assert reader.stdin is not None
    reader.stdin.close()
    reader.wait()
    return float(done.stderr)
