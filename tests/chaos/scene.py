"""Gateways, workers and brokers as processes, and their faults. Each client of a broker has its own proxy."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from pyoco_server.config import NatsBackendConfig
from tests.chaos import flows as chaos_flows
from tests.chaos.schedule import Fault, Kind
from tests.cli.nursery import Process
from tests.faults.cluster.routed_cluster import RoutedCluster, Routes
from tests.faults.tcp_proxy import Link, Way
from tests.promises.stack import Gateway, Processes, processes

GATEWAYS = ("g1", "g2")
WORKERS = ("w1", "w2", "w3")
SLOTS = 2
SLOW_BYTES_PER_SEC = 8_000.0


class Broker(Protocol):
    port: int

    def start(self) -> None: ...

    def kill(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class Scene:
    """Who is there. `brokers` by name; in a cluster, more than one."""

    def __init__(
        self,
        config: NatsBackendConfig,
        brokers: Mapping[str, Broker],
        folder: Path,
        cluster: RoutedCluster | None = None,
    ) -> None:
        self.config = config
        self.brokers = brokers
        self.cluster = cluster
        self.marks = folder / "marks"
        self.links: dict[str, Link] = {}
        self.gateways: dict[str, Gateway] = {}
        self.workers: dict[str, Process] = {}
        self.happened: list[str] = []
        self._started: Processes | None = None

    async def start(self, started: Processes) -> None:
        self._started = started
        for name in (*GATEWAYS, *WORKERS):
            self.links[name] = Link([broker.port for broker in self.brokers.values()])
            await self.links[name].start()
        for name in GATEWAYS:
            self.gateways[name] = started.gateway(settings=self._settings(name))
        for name in WORKERS:
            self._start_worker(name)
        await self.ready()

    async def ready(self) -> None:
        await asyncio.gather(*(gateway.ready() for gateway in self.gateways.values()))

    async def stop(self) -> None:
        for link in self.links.values():
            await link.stop()

    async def happens(self, fault: Fault) -> None:
        """The fault, its time, and its end."""
        end = await self._begin(fault)
        self.happened.append(str(fault))
        try:
            await asyncio.sleep(fault.lasting_sec)
        finally:
            end()

    async def play(self, faults: Sequence[Fault]) -> None:
        for fault in faults:
            await asyncio.sleep(fault.after_sec)
            await self.happens(fault)

    async def _begin(self, fault: Fault) -> Callable[[], None]:
        if fault.kind is Kind.KILL_LEADER:
            return self._begin_at_broker(await self.leader(), Kind.KILL)
        if fault.target in self.brokers:
            return self._begin_at_broker(self.brokers[fault.target], fault.kind)
        if fault.kind is Kind.KILL:
            return self._killed(fault.target)
        if fault.kind is Kind.PAUSE:
            return self._paused(fault.target)
        return self._begin_at_link(self.links[fault.target], fault.kind)

    def _begin_at_link(self, link: Link, kind: Kind) -> Callable[[], None]:
        match kind:
            case Kind.PARTITION:
                link.partition()
            case Kind.DEAF:
                link.one_way(Way.TO_CLIENT)
            case Kind.MUTE:
                link.one_way(Way.TO_SERVER)
            case Kind.STALL:
                link.stall()
            case Kind.THROTTLE:
                link.throttle(SLOW_BYTES_PER_SEC)
            case Kind.CUT:
                link.cut()
            case _:
                raise AssertionError(f"{kind} is not a fault of a link")
        return link.heal

    def _begin_at_broker(self, broker: Broker, kind: Kind) -> Callable[[], None]:
        match kind:
            case Kind.PAUSE:
                broker.pause()
                return broker.resume
            case Kind.KILL:
                broker.kill()
                return broker.start
            case Kind.ROUTES_CUT:
                return self.routes.cut(broker)
            case Kind.ROUTES_SLOW:
                return self.routes.slow(broker)
            case _:
                raise AssertionError(f"{kind} is not a fault of a broker")

    async def leader(self) -> Broker:
        """Of the log; some broker while there is none."""
        assert self.cluster is not None
        try:
            return await self.cluster.leader_of(self.config.events_stream)
        except Exception:  # it is being elected, or the one that was asked is away
            return next(iter(self.brokers.values()))

    @property
    def routes(self) -> Routes:
        assert self.cluster is not None
        return self.cluster.routes

    def _killed(self, name: str) -> Callable[[], None]:
        if name in self.gateways:
            gateway = self.gateways[name]
            gateway.kill()
            return gateway.start
        self.workers[name].kill()
        self.workers[name].wait()
        return lambda: self._start_worker(name)

    def _paused(self, name: str) -> Callable[[], None]:
        process = self.gateways[name].process if name in self.gateways else self.workers[name]
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        return lambda: process.send_signal(signal.SIGCONT)

    def _start_worker(self, name: str) -> None:
        assert self._started is not None
        self.workers[name] = self._started.worker(
            name,
            concurrency=SLOTS,
            flows=Path(chaos_flows.__file__),
            settings=self._settings(name),
        )

    def _settings(self, name: str) -> dict[str, str]:
        return {"PYOCO_NATS_URL": self.links[name].url, chaos_flows.MARKS: str(self.marks)}


@asynccontextmanager
async def scene(
    config: NatsBackendConfig,
    brokers: Mapping[str, Broker],
    folder: Path,
    cluster: RoutedCluster | None = None,
) -> AsyncIterator[Scene]:
    staged = Scene(config, brokers, folder, cluster)
    with processes(config, folder) as started:
        try:
            await staged.start(started)
            yield staged
        finally:
            await staged.stop()
