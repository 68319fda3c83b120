"""How long clients wait when a node of a cluster is lost: `python -m tests.faults.cluster.leader_loss`.

Requests of each kind are sent at a steady pace, whether or not those before were answered. The outage of a
kind is the longest time without a good answer. The lost node leads the log, and g1 is connected to it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import logging
import sys
import tempfile
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx

from tests.chaos.run import settings
from tests.chaos.scene import Scene, scene
from tests.promises.cluster.nodes import Cluster, Member, cluster
from tests.promises.cluster.test_lost_leader import config_at

ASK_EVERY_SEC = 0.25
REQUEST_TIMEOUT_SEC = 20.0
BEFORE_SEC = 3.0
AFTER_SEC = 30.0
KINDS = ("submit", "get", "list", "cancel", "stream")


class Probe:
    """Asks one gateway for everything; remembers when good answers came."""

    def __init__(self, url: str) -> None:
        self._client = httpx.AsyncClient(base_url=url, timeout=REQUEST_TIMEOUT_SEC)
        self._asking: set[asyncio.Task[None]] = set()
        self.answered: dict[str, list[float]] = defaultdict(list)
        self._submitted: list[str] = []

    async def run(self, lasting_sec: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + lasting_sec
        streaming = asyncio.create_task(self._stream())
        while loop.time() < end:
            for kind, ask in self._kinds().items():
                task = asyncio.create_task(self._asked(kind, ask))
                self._asking.add(task)
                task.add_done_callback(self._asking.discard)
            await asyncio.sleep(ASK_EVERY_SEC)
        for task in (*self._asking, streaming):
            task.cancel()
        await asyncio.gather(*self._asking, streaming, return_exceptions=True)
        await self._client.aclose()

    def outage_sec(self, kind: str) -> float:
        times = sorted(self.answered[kind])
        return max((after - before for before, after in itertools.pairwise(times)), default=-1.0)

    def _kinds(self) -> dict[str, Callable[[], Awaitable[httpx.Response]]]:
        last = self._submitted[-1] if self._submitted else "none"
        return {
            "submit": lambda: self._client.post("/runs", json={"flow_name": "quick"}),
            "get": lambda: self._client.get(f"/runs/{last}"),
            "list": lambda: self._client.get("/runs", params={"limit": 10}),
            "cancel": lambda: self._client.post(f"/runs/{last}/cancel"),
        }

    async def _asked(self, kind: str, ask: Callable[[], Awaitable[httpx.Response]]) -> None:
        with contextlib.suppress(httpx.HTTPError):
            answer = await ask()
            if answer.status_code == 200:
                self.answered[kind].append(asyncio.get_running_loop().time())
                if kind == "submit":
                    self._submitted.append(answer.json()["run_id"])

    async def _stream(self) -> None:
        """News of the list: what is heard is a change of some run."""
        while True:
            with contextlib.suppress(httpx.HTTPError):
                async with self._client.stream("GET", "/stream", params={"topic": "runs"}) as stream:
                    async for line in stream.aiter_lines():
                        if line.startswith("data:") and "run_id" in line:
                            self.answered["stream"].append(asyncio.get_running_loop().time())
            await asyncio.sleep(ASK_EVERY_SEC)


async def measured(staged: Scene, victim: Member, how: str) -> dict[str, dict[str, float]]:
    """Outages by gateway and kind."""
    probes = {name: Probe(gateway.url) for name, gateway in staged.gateways.items()}
    asking = asyncio.gather(*(probe.run(BEFORE_SEC + AFTER_SEC) for probe in probes.values()))
    await asyncio.sleep(BEFORE_SEC)
    if how == "kill":
        victim.kill()
    else:
        victim.pause()
    try:
        await asking
    finally:
        victim.start() if how == "kill" else victim.resume()
    return {name: {kind: probe.outage_sec(kind) for kind in KINDS} for name, probe in probes.items()}


def node_of(staged: Scene, brokers: Cluster, name: str) -> Member:
    """Where a process is connected."""
    counts = [proxy.connections for proxy in staged.links[name].proxies]
    return brokers.members[counts.index(max(counts))]


async def main_async(folder: Path, times: int) -> None:
    with cluster(folder / "cluster") as brokers:
        await brokers.ready()
        config = config_at(brokers.url, **settings(folder))
        async with scene(config, {one.name: one for one in brokers.members}, folder) as staged:
            for how in ("kill", "pause"):
                for _ in range(times):
                    await _one(staged, brokers, how)


async def _one(staged: Scene, brokers: Cluster, how: str) -> None:
    await brokers.ready()
    await staged.ready()
    leader = node_of(staged, brokers, "g1")
    await brokers.lead(staged.config.events_stream, leader)
    connected = {name: node_of(staged, brokers, name).name for name in staged.gateways}
    for name, outages in (await measured(staged, leader, how)).items():
        where = "its own node" if connected[name] == leader.name else "another node"
        row = ", ".join(f"{kind} {sec:.1f}" for kind, sec in outages.items())
        sys.stdout.write(f"{how} the leader of the log ({where} of {name}): {row}\n")
        sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.cluster.leader_loss")
    parser.add_argument("--times", type=int, default=2)
    asked = parser.parse_args()
    logging.disable(logging.INFO)
    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(main_async(Path(temporary), asked.times))
    return 0


if __name__ == "__main__":
    sys.exit(main())
