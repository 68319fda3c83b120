"""What every system under measurement must be able to do: start, submit, wait, list. One subclass for each.

A class is imported in two environments. `compare` reads what to install; there the client library of the
system is missing, so methods import it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from bench.peers import events
from bench.peers.services import Service

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = 8
CHAIN, FAN = 10, 100
NAP_SEC = 2.0
NOTHING: Mapping[str, object] = {}

Handle = Any
T = TypeVar("T")
R = TypeVar("R")


class Kind(StrEnum):
    """What a run does: one task, ten in a row, a hundred beside each other, or one that sleeps."""

    NOOP = "noop"
    CHAIN = "chain"
    FAN = "fan"
    NAP = "nap"


class System(ABC):
    title: ClassVar[str]
    # What pip installs, programs with the Debian packages that bring them, and npm packages.
    packages: ClassVar[Sequence[str]]
    debian: ClassVar[Sequence[tuple[str, str]]] = ()
    npm: ClassVar[Sequence[str]] = ()
    # For the reader of the results: what a run is there, how a client submits it and sees its end; and what
    # is on disk when a submit returns.
    driven: ClassVar[str]
    durability: ClassVar[str]
    # A slow system gets fewer runs. The results are rates.
    share: ClassVar[float] = 1.0

    def __init__(self, folder: Path, npm_folder: Path) -> None:
        self.folder = folder
        self.npm_folder = npm_folder
        self.events = folder / "events"
        self.events.touch(mode=0o666)
        self.servers: list[Service] = []
        self.workers: list[Service] = []
        self.stored = 0  # completed runs
        self.pool = ThreadPoolExecutor(CLIENTS)

    @abstractmethod
    def start_server(self) -> None: ...

    @abstractmethod
    def start_worker(self, slots: int) -> None: ...

    @abstractmethod
    def connect(self) -> None: ...

    @abstractmethod
    def submit(self, kind: Kind, number: int) -> Handle: ...

    @abstractmethod
    def wait(self, handle: Handle, seconds: float) -> bool:
        """Whether the run has completed in this time."""

    def submit_many(self, kind: Kind, count: int) -> list[Handle]:
        return list(self.pool.map(lambda number: self.submit(kind, number), range(count)))

    def wait_all(self, handles: Sequence[Handle], seconds: float) -> int:
        """How many have completed. The last is waited for first: then most waits find an ended run."""
        return sum(self.pool.map(lambda handle: self.wait(handle, seconds), reversed(handles)))

    def list_runs(self, limit: int) -> int | None:
        """How many runs a list has returned; None where runs cannot be listed."""
        return None

    def disconnect(self) -> None:  # noqa: B027 — not every client needs it
        """Close the client."""

    def stop_worker(self) -> None:
        _end_all(self.workers, Service.stop)

    def kill_worker(self) -> None:
        _end_all(self.workers, Service.kill)

    def stop(self) -> None:
        try:
            self.pool.shutdown(cancel_futures=True)
            self.disconnect()
        finally:
            self.stop_worker()
            _end_all(self.servers, Service.stop)

    def pids(self) -> list[int]:
        return [pid for service in self.servers + self.workers for pid in service.pids()]

    def roots(self) -> dict[str, int]:
        return {service.name: service.process.pid for service in self.servers + self.workers}

    def run_server(
        self,
        name: str,
        command: Sequence[object],
        env: Mapping[str, object] = NOTHING,
        user: str | None = None,
    ) -> None:
        self.servers.append(Service(name, command, self.environment(env), self.folder, user))

    def run_worker(self, command: Sequence[object], env: Mapping[str, object] = NOTHING) -> None:
        self.workers.append(Service("worker", command, self.environment(env), self.folder))

    def environment(self, more: Mapping[str, object]) -> dict[str, str]:
        """Workers import `bench.peers.apps` from the checkout, and nothing else of it."""
        own: dict[str, object] = {
            "PYTHONPATH": ROOT,
            events.VARIABLE: self.events,
            "NO_PROXY": "127.0.0.1,localhost",
        }
        own |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        # Nothing may be compiled again at every start.
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return kept | {name: str(value) for name, value in (own | dict(more)).items()}

    def program(self, name: str) -> str:
        """A program of this environment."""
        return shutil.which(name, path=str(Path(sys.executable).parent)) or name


class AsyncSystem(System):
    """A system whose client library is asynchronous: eight requests at a time on one loop."""

    def __init__(self, folder: Path, npm_folder: Path) -> None:
        super().__init__(folder, npm_folder)
        self.loop = asyncio.new_event_loop()

    @abstractmethod
    async def submit_one(self, kind: Kind, number: int) -> Handle: ...

    @abstractmethod
    async def wait_one(self, handle: Handle, seconds: float) -> bool: ...

    def submit(self, kind: Kind, number: int) -> Handle:
        return self.loop.run_until_complete(self.submit_one(kind, number))

    def wait(self, handle: Handle, seconds: float) -> bool:
        return self.loop.run_until_complete(self.wait_one(handle, seconds))

    def submit_many(self, kind: Kind, count: int) -> list[Handle]:
        return self.for_each(lambda number: self.submit_one(kind, number), range(count))

    def wait_all(self, handles: Sequence[Handle], seconds: float) -> int:
        return sum(self.for_each(lambda handle: self.wait_one(handle, seconds), handles[::-1]))

    def for_each(self, act: Callable[[T], Awaitable[R]], items: Sequence[T]) -> list[R]:
        return self.loop.run_until_complete(_for_each(act, items))


async def _for_each(act: Callable[[T], Awaitable[R]], items: Sequence[T]) -> list[R]:
    gate = asyncio.Semaphore(CLIENTS)

    async def one(item: T) -> R:
        async with gate:
            return await act(item)

    return await asyncio.gather(*map(one, items))


def _end_all(services: list[Service], end: Callable[[Service], None]) -> None:
    """The last started ends first. Each is removed before it ends, so that this can be called twice."""
    while services:
        end(services.pop())
