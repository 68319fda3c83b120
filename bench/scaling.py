"""The cost of a run does not grow: with stored runs, with tags, with connected workers.

Two installations take turns, a small and a large one; only the ratio of their processor time per run counts.
What an installation uses while nothing is asked of it (heartbeats of workers, for example) is measured
before, shown apart, and not counted for runs.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import msgspec

from bench.cpu import by_part, roots
from bench.http_client import Connection
from bench.lists import fill
from bench.processes import Watch
from bench.stack import TAG, Stack, stack
from bench.summaries import median

STORED = 100_000
TAGS = 1_000
WORKERS = 200
SLOTS = CLIENTS = 8
BURST, ROUNDS = 400, 6
WARM_UP = 200
IDLE_SEC = 10.0
PREPARE_SEC_MAX = 120.0
PARTS = ("broker", "gateway", "worker", "slots")

Costs = dict[str, float]
# Makes an installation large, and keeps it so.
Enlarge = Callable[[Stack], AbstractAsyncContextManager[None]]


async def stored_runs(*, stored: int = STORED) -> dict[str, float]:
    """Commits and snapshots of ended runs are written directly to the log, in the form that workers use."""

    @asynccontextmanager
    async def large(started: Stack) -> AsyncIterator[None]:
        await fill(started, stored, with_snapshots=True)
        yield

    return await _compare(f"{stored:,} stored runs", large)


async def many_tags(*, tags: int = TAGS) -> dict[str, float]:
    """Each of the other tags has a run that waits for a worker."""

    @asynccontextmanager
    async def large(started: Stack) -> AsyncIterator[None]:
        await _in_turn(started, [f"other-{number}" for number in range(tags - 1)], _submit)
        yield

    return await _compare(f"{tags:,} tags", large)


async def tags_of_one_worker(*, tags: int = TAGS) -> dict[str, float]:
    """A worker pulls from each of its tags."""

    @asynccontextmanager
    async def large(started: Stack) -> AsyncIterator[None]:
        started.worker_tags += [f"other-{number}" for number in range(tags - 1)]
        yield

    return await _compare(f"a worker of {tags:,} tags", large)


async def many_workers(*, workers: int = WORKERS) -> dict[str, float]:
    """The others have a connection, a lease and a registry entry each, and renew them as workers do."""
    return await _compare(f"{workers} workers", lambda started: _simulated(started, workers - 1))


async def _compare(what: str, enlarge: Enlarge) -> dict[str, float]:
    async with stack("interval") as small, stack("interval") as large:
        for started in (small, large):
            await started.gateway()
        async with enlarge(large):
            for started in (small, large):
                started.worker(SLOTS)
                await _burst(started, WARM_UP)
            idle = await _idle_cost(small), await _idle_cost(large)
            costs = [(await _cost(small, idle[0]), await _cost(large, idle[1])) for _ in range(ROUNDS)]
    shown = {
        "idle, % of a core, small": idle[0]["all"] * 100,
        f"idle, % of a core, {what}": idle[1]["all"] * 100,
    }
    return shown | _figures(what, [few for few, _ in costs], [many for _, many in costs])


def _figures(what: str, small: Sequence[Costs], large: Sequence[Costs]) -> dict[str, float]:
    figures = {}
    for name in (*PARTS, "all"):
        few, many = (median([cost[name] for cost in costs]) or 0.0 for costs in (small, large))
        figures[f"{name}, µs a run, small"] = few
        figures[f"{name}, µs a run, {what}"] = many
        figures[f"{name}, ratio, {what}"] = many / few if few else 0.0
    return figures


async def _idle_cost(started: Stack) -> Costs:
    """Seconds of processor time a second."""
    with Watch(roots(started)) as watch:
        await asyncio.sleep(IDLE_SEC)
    return _summed({name: sec / watch.seconds for name, sec in _by_part(watch).items()})


async def _cost(started: Stack, idle: Costs) -> Costs:
    """Microseconds of processor time a run."""
    with Watch(roots(started)) as watch:
        await _burst(started, BURST)
    used = {name: sec - idle[name] * watch.seconds for name, sec in _by_part(watch).items()}
    return _summed({name: sec / BURST * 1e6 for name, sec in used.items()})


def _by_part(watch: Watch) -> Costs:
    parts = by_part(watch.roles)
    return {name: parts[name].cpu_sec if name in parts else 0.0 for name in PARTS}


def _summed(costs: Costs) -> Costs:
    return costs | {"all": sum(costs.values())}


async def _burst(started: Stack, count: int) -> None:
    await _in_turn(started, [TAG] * count, _run)


async def _in_turn(
    started: Stack, tags: Sequence[str], act: Callable[[Connection, str], Awaitable[None]]
) -> None:
    """One request or run for each tag, by eight clients."""
    left = iter(tags)

    async def client() -> None:
        connection = await started.connect()
        for tag in left:
            await act(connection, tag)
        connection.close()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))


async def _submit(connection: Connection, tag: str) -> None:
    status, answer = await connection.post("/runs", msgspec.json.encode({"flow_name": "noop", "tag": tag}))
    assert status == 200, answer


async def _run(connection: Connection, tag: str) -> None:
    _, accepted = await connection.post("/runs", msgspec.json.encode({"flow_name": "noop", "tag": tag}))
    _, run = await connection.get(f"/runs/{accepted['run_id']}?wait=60")
    assert run["status"] == "COMPLETED", run


@asynccontextmanager
async def _simulated(started: Stack, count: int) -> AsyncIterator[None]:
    """In a process of their own, so that their processor time is not counted."""
    command = [sys.executable, "-m", "bench.simulated_workers", started.broker.url, str(count)]
    process = await asyncio.to_thread(subprocess.Popen, command, env=started.env)
    try:
        await _until_listed(started, count)
        yield
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, 30)


async def _until_listed(started: Stack, count: int) -> None:
    connection, until, listed = await started.connect(), time.monotonic() + PREPARE_SEC_MAX, 0
    while listed < count and time.monotonic() < until:
        await asyncio.sleep(0.2)
        _, workers = await connection.get("/workers?limit=500")
        listed = len(workers)
    connection.close()
    assert listed >= count, f"{listed} of {count} workers are listed"
