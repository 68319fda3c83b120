"""A cluster of three whose members reach each other through proxies, one for each pair and direction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import permutations
from pathlib import Path
from typing import Any

from tests.faults.tcp_proxy import TcpProxy
from tests.promises.cluster.nodes import Cluster

# Heartbeats pass, a burst of commits takes long.
SLOW_BYTES_PER_SEC = 30_000.0


class Routes:
    def __init__(self, cluster: Cluster) -> None:
        self._proxies = {
            (one, other): TcpProxy(cluster.route_ports[other])
            for one, other in permutations(cluster.members, 2)
        }

    async def start(self) -> None:
        for proxy in self._proxies.values():
            await proxy.start()

    async def stop(self) -> None:
        for proxy in self._proxies.values():
            await proxy.stop()

    def reached_at(self, one: Any, other: Any) -> int:
        return self._proxies[one, other].port

    def cut(self, member: Any) -> Callable[[], None]:
        """The member hears of no other, and no other of it. Returns what heals this."""
        for proxy in self._of(member):
            proxy.partition()
        return lambda: self._heal(member)

    def slow(self, member: Any) -> Callable[[], None]:
        """Its copies lag behind. Returns what heals this."""
        for proxy in self._of(member):
            proxy.throttle(SLOW_BYTES_PER_SEC)
        return lambda: self._heal(member)

    def _heal(self, member: Any) -> None:
        for proxy in self._of(member):
            proxy.heal()

    def _of(self, member: Any) -> list[TcpProxy]:
        return [proxy for pair, proxy in self._proxies.items() if member in pair]


class RoutedCluster(Cluster):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.routes = Routes(self)


@asynccontextmanager
async def routed_cluster(folder: Path) -> AsyncIterator[RoutedCluster]:
    """`folder` is there, and empty."""
    started = RoutedCluster(folder)
    await started.routes.start()
    try:
        started.configure(started.routes.reached_at)
        with started.running():
            yield started
    finally:
        await started.routes.stop()
