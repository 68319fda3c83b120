"""Processor time per run, by process. Other load on a shared machine changes it little.

The same bursts as in `bench.worker`, counted with the kernel's own bookkeeping (`/proc/<pid>/stat`). The raw
reference is a publish with nats-py: microseconds of the client, and of the broker that answers it.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import NamedTuple

from bench.processes import all_stats, descendants
from bench.stack import Durability, Stack, stack
from bench.submit import raw_publishes
from bench.worker import begun, drained, submitted

RAW = 6000
WARM_UP = 100
TICKS = os.sysconf("SC_CLK_TCK")


class Spent(NamedTuple):
    """Seconds of processor time so far. The client is this process."""

    client: float
    broker: float
    gateway: float
    worker: float
    slots: float

    def since(self, before: Spent, count: int) -> Spent:
        """Microseconds of each process since `before`, divided by `count`."""
        return Spent(*((now - then) / count * 1e6 for now, then in zip(self, before, strict=True)))


async def cpu_costs(durability: Durability = "interval") -> dict[str, float]:
    figures = await _raw(durability)
    for flow, count in (("noop", 3000), ("chain_10", 400), ("fan_100", 120)):
        async with stack(durability) as started:
            await started.gateway()
            await submitted(started, flow, WARM_UP)
            before = spent(started)
            await submitted(started, flow, count)
            figures |= _named(f"{flow}, submit", spent(started).since(before, count))
            await begun(started, 8)
            before = spent(started)
            seconds = await drained(started)
            figures |= _named(f"{flow}, run", spent(started).since(before, count + WARM_UP))
            figures |= {f"{flow}, runs/s": (count + WARM_UP) / seconds}
    return figures


async def _raw(durability: Durability) -> dict[str, float]:
    async with stack(durability) as started:
        before = spent(started)
        rate = await raw_publishes(started.broker.url, count=RAW, in_flight=64)
        cost = spent(started).since(before, RAW)
    return {"raw publishes/s": rate} | _named("raw publish", cost)


def _named(what: str, cost: Spent) -> dict[str, float]:
    return {f"{what}: {name} µs": value for name, value in cost._asdict().items() if value}


def spent(started: Stack) -> Spent:
    ours = resource.getrusage(resource.RUSAGE_SELF)
    broker = started.broker.pid
    pids = [child.pid for child in started.children]
    worker = pids[1] if len(pids) > 1 else None
    return Spent(
        client=ours.ru_utime + ours.ru_stime,
        broker=_seconds(broker) if broker else 0.0,
        gateway=_seconds(pids[0]) if pids else 0.0,
        worker=_seconds(worker) if worker else 0.0,
        slots=sum(map(_seconds, descendants(worker, all_stats()))) if worker else 0.0,
    )


def _seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
