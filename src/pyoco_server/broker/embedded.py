"""The interface of the embedded broker: lock a folder, start a server, keep it running, clean up."""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from pyoco_server.broker.credentials import BrokerCredentials, ensure_credentials
from pyoco_server.broker.data_folder import DataFolder
from pyoco_server.broker.disk import Disk, disk_of
from pyoco_server.broker.errors import PortTaken
from pyoco_server.broker.find import find_nats_server
from pyoco_server.broker.launch import launch
from pyoco_server.broker.prepare import ServerPlan, prepare
from pyoco_server.broker.process import ServerProcess
from pyoco_server.broker.server_conf import Durability, address, require_loopback
from pyoco_server.broker.small_files import now
from pyoco_server.broker.supervisor import Supervisor
from pyoco_server.supervision import contain

PORT_ATTEMPTS_MAX = 3

log = logging.getLogger("pyoco_server.broker")


class EmbeddedBroker:
    """A nats-server on this machine, with its store below `data_dir`.

    Start it from the thread that will stop it: the server dies with that thread. `on_restart` is called on
    the event loop each time a server that died unexpectedly is ready again.
    """

    def __init__(
        self,
        *,
        data_dir: Path,
        durability: Durability = "always",
        preferred_port: int = 4222,
        host: str = "127.0.0.1",
        ready_timeout_sec: float = 10.0,
        restart_backoff_max_sec: float = 5.0,
        on_restart: Callable[[], None] | None = None,
        asks_for_credentials: bool = False,
        credentials: BrokerCredentials | None = None,
    ) -> None:
        """`credentials`: what clients need, with `asks_for_credentials`; None: those of the data folder."""
        require_loopback(host)
        self._data_dir = data_dir.resolve()
        self._durability: Durability = durability
        self._preferred_port = preferred_port
        self._host = host
        self._ready_timeout_sec = ready_timeout_sec
        self._restart_backoff_max_sec = restart_backoff_max_sec
        self._on_restart = on_restart
        self._asks_for_credentials = asks_for_credentials
        self._given_credentials = credentials
        self._changing = asyncio.Lock()
        self._held: AsyncExitStack | None = None
        self._plan: ServerPlan | None = None
        self._supervisor: Supervisor | None = None
        self._restarts = 0
        self.credentials: BrokerCredentials | None = None  # known once it is started

    @property
    def url(self) -> str:
        """The address, which restarts do not change. Raises RuntimeError before the first start."""
        return f"nats://{address(self._host, self.port)}"

    @property
    def port(self) -> int:
        if self._plan is None:
            raise RuntimeError("The embedded broker has no port before it is started.")
        return self._plan.port

    @property
    def pid(self) -> int | None:
        """The server's process id; None while there is no server."""
        if self._supervisor is None or not self._supervisor.server.running:
            return None
        return self._supervisor.server.pid

    @property
    def why_not(self) -> str | None:
        """One sentence about what does not work; None if everything works."""
        return None if self._supervisor is None else self._supervisor.why_not

    @property
    def disk(self) -> Disk | None:
        """The filesystem of its store; None if it cannot be read."""
        return disk_of(self._data_dir)

    @property
    def durability(self) -> Durability:
        return self._durability

    @property
    def restarts(self) -> int:
        """How often a server that died unexpectedly became ready again."""
        return self._restarts

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Return when the server is ready. Callable twice. Raises BrokerError with what to do."""
        async with self._changing:
            if self._held is None:
                async with AsyncExitStack() as held:
                    await self._acquire(held)
                    self._held = held.pop_all()

    async def stop(self) -> None:
        """Return when the server is gone and the folder free. Callable twice, and before start."""
        async with self._changing:
            if self._held is not None:
                held, self._held = self._held, None
                await held.aclose()

    async def _acquire(self, held: AsyncExitStack) -> None:
        """Each step adds to `held` what undoes it, in reverse order."""
        binary = await asyncio.to_thread(find_nats_server)
        folder = await DataFolder.claim(self._data_dir)
        held.callback(folder.release)
        if self._asks_for_credentials:
            self.credentials = ensure_credentials(folder.path, self._given_credentials)
        self._plan, server = await self._launch_on_a_free_port(binary, folder)
        self._supervisor = self._supervise(self._plan, server, folder)
        held.push_async_callback(self._supervisor.stop)
        held.callback(folder.forget)
        self._record(folder, server)
        log.info("nats-server started", extra={"broker_url": self.url, "broker_pid": server.pid})

    async def _launch_on_a_free_port(
        self, binary: Path, folder: DataFolder
    ) -> tuple[ServerPlan, ServerProcess]:
        for _ in range(PORT_ATTEMPTS_MAX - 1):
            try:
                return await self._launch(binary, folder)
            except PortTaken:  # after the check and before the server's bind: check again
                continue
        return await self._launch(binary, folder)

    async def _launch(self, binary: Path, folder: DataFolder) -> tuple[ServerPlan, ServerProcess]:
        plan = prepare(
            binary,
            folder,
            host=self._host,
            preferred_port=self._preferred_port,
            durability=self._durability,
            credentials=self.credentials,
        )
        server = await launch(plan, ready_timeout_sec=self._ready_timeout_sec, given_up=lambda: False)
        return plan, server

    def _supervise(self, plan: ServerPlan, server: ServerProcess, folder: DataFolder) -> Supervisor:
        return Supervisor(
            plan,
            server,
            ready_timeout_sec=self._ready_timeout_sec,
            backoff_max_sec=self._restart_backoff_max_sec,
            on_restart=lambda new_server: self._after_restart(folder, new_server),
        )

    def _after_restart(self, folder: DataFolder, server: ServerProcess) -> None:
        self._restarts += 1
        try:
            self._record(folder, server)
        except OSError as error:  # a full disk; address and owner in the old record are still right
            log.error("broker.json could not be renewed", extra={"reason": str(error)})
        if self._on_restart is not None:
            # The caller's code: its error must not end the watchdog of the broker.
            with contain("restart of the broker", "on_restart failed"):
                self._on_restart()

    def _record(self, folder: DataFolder, server: ServerProcess) -> None:
        facts: dict[str, str | int] = {
            "url": self.url,
            "port": self.port,
            "pid": server.pid,
            "owner_pid": os.getpid(),
            "durability": self._durability,
            "started_at": now(),
        }
        folder.record(facts)
