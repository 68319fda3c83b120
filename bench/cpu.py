"""Processor time and context switches per run, by process. Other load on the machine changes them little.

The same bursts as in `bench.worker`, counted with the kernel's own bookkeeping (`bench.processes`). The raw
reference is a publish with nats-py: microseconds of the client, and of the broker that answers it.
"""

from __future__ import annotations

from collections import defaultdict

from bench.processes import ENDED, Spent, Watch
from bench.stack import Durability, Stack, stack
from bench.submit import raw_publishes
from bench.worker import begun, drained, submitted

RAW = 6000
WARM_UP = 100


async def cpu_costs(durability: Durability = "interval") -> dict[str, float]:
    figures = await _raw(durability)
    for flow, count in (("noop", 3000), ("chain_10", 400), ("fan_100", 120)):
        async with stack(durability) as started:
            await started.gateway()
            await submitted(started, flow, WARM_UP)
            with Watch(roots(started)) as watch:
                await submitted(started, flow, count)
            figures |= costs(f"{flow}, submit", watch, count)
            await begun(started, 8)
            with Watch(roots(started)) as watch:
                seconds = await drained(started)
            figures |= costs(f"{flow}, run", watch, count + WARM_UP)
            figures |= {f"{flow}, runs/s": (count + WARM_UP) / seconds}
    return figures


async def _raw(durability: Durability) -> dict[str, float]:
    async with stack(durability) as started:
        with Watch(roots(started)) as watch:
            rate = await raw_publishes(started.broker.url, count=RAW, in_flight=64)
    return {"raw publishes/s": rate} | costs("raw publish", watch, RAW)


def roots(started: Stack) -> dict[str, int]:
    pids = [started.broker.pid, *(child.pid for child in started.children)]
    named = zip(("broker", "gateway", "worker"), pids, strict=False)
    return {name: pid for name, pid in named if pid}


def costs(what: str, watch: Watch, count: int) -> dict[str, float]:
    """Microseconds and context switches of each process, divided by `count`. The client is this process."""
    figures = {f"{what}: client µs": watch.client_sec / count * 1e6}
    for name, spent in by_part(watch.roles).items():
        figures[f"{what}: {name} µs"] = spent.cpu_sec / count * 1e6
        figures[f"{what}: {name} switches, voluntary"] = spent.voluntary / count
        figures[f"{what}: {name} switches, forced"] = spent.forced / count
    return figures


def by_part(roles: dict[str, Spent]) -> dict[str, Spent]:
    """Broker, gateway, worker, and as `slots` everything below the worker, at any depth."""
    parts: dict[str, Spent] = defaultdict(Spent)
    for role, spent in roles.items():
        part = parts["slots" if role.startswith("worker › ") or role == ENDED else role.partition(" › ")[0]]
        part.cpu_sec += spent.cpu_sec
        part.voluntary += spent.voluntary
        part.forced += spent.forced
    return dict(parts)
