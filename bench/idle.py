"""An idle system: processor time, wake-ups and memory of its processes while nothing is asked of it."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from bench.peers.install import default_cache
from bench.peers.system import Kind
from bench.peers.systems.pyoco import Pyoco
from bench.peers.workloads import RUN_SEC_MAX, SLOTS
from bench.processes import Watch, pss_mb

SETTLE_SEC = 5.0
WATCHED_SEC = 30.0


async def idle_cost(*, seconds: float = WATCHED_SEC) -> dict[str, float]:
    """`pyoco-server up` and a worker with eight slots, after one run."""
    return await asyncio.to_thread(_measure, seconds)


def _measure(seconds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="pyoco-bench-", ignore_cleanup_errors=True) as folder:
        system = Pyoco(Path(folder), default_cache())
        try:
            system.start_server()
            system.start_worker(SLOTS)
            system.connect()
            system.wait(system.submit(Kind.NOOP, 0), RUN_SEC_MAX)
            time.sleep(SETTLE_SEC)
            with Watch(system.roots()) as watch:
                time.sleep(seconds)
            return _figures(watch) | {"memory MB": pss_mb(system.pids())}
        finally:
            system.stop()


def _figures(watch: Watch) -> dict[str, float]:
    figures = {"all, % of a core": watch.cpu_sec / watch.seconds * 100}
    for name, spent in sorted(watch.roles.items()):
        figures[f"{name}, % of a core"] = spent.cpu_sec / watch.seconds * 100
        figures[f"{name}, wake-ups/s"] = spent.voluntary / watch.seconds
    return figures
