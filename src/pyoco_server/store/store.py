"""Everything stored, behind one connection that is kept for ever.

Opening waits for the broker for as long as it takes and says so; a gateway may serve `/health` meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from nats.errors import Error as NatsError

from pyoco_server.config import NatsBackendConfig, without_credentials
from pyoco_server.errors import Unavailable
from pyoco_server.store import resources
from pyoco_server.store.client import BrokerClient
from pyoco_server.store.connecting import connect_options
from pyoco_server.store.dlq import DeadLetters
from pyoco_server.store.graphs import Graphs
from pyoco_server.store.jetstream import JetStream
from pyoco_server.store.keys import Keys
from pyoco_server.store.leases import Leases
from pyoco_server.store.ledger import Ledger
from pyoco_server.store.limits import Limits
from pyoco_server.store.log_reading import LogReader
from pyoco_server.store.logs import Logs
from pyoco_server.store.objects import Objects
from pyoco_server.store.queue import JobQueue
from pyoco_server.store.rechecks import Rechecks
from pyoco_server.store.refusals import Refusals
from pyoco_server.store.registry import Registry
from pyoco_server.store.requests import Requests
from pyoco_server.store.runs import Runs
from pyoco_server.store.schedules import Schedules
from pyoco_server.store.secrets import Secrets
from pyoco_server.store.tickets import Tickets
from pyoco_server.store.wheels import Wheels

log = logging.getLogger(__name__)

PROBE_TIMEOUT_SEC = 1.0
PROBE_PAUSE_SEC = (0.02, 1.0)
RESOURCES_PAUSE_SEC = 0.5
PING_INTERVAL_SEC = 10
SAY_SO_EVERY_SEC = 10.0
DEFAULT_PORT = 4222
CREDENTIALS_REFUSED = (
    "the broker refuses our credentials; set PYOCO_NATS_USER and PYOCO_NATS_PASSWORD, "
    "or for the broker of a `pyoco-server up` its data folder"
)


class Store:
    def __init__(self, config: NatsBackendConfig, *, name: str) -> None:
        self.config = config
        self._name = name
        self._stopping = False
        self._hooks: list[Callable[[], None]] = []
        self._hooks_of_loss: list[Callable[[], None]] = []
        self._resuming: asyncio.Task[None] | None = None
        self.reconnects = 0
        self.why_not_ready: str | None = "not connected to the broker yet"
        self.client = BrokerClient()
        self.requests = Requests(self.client, timeout_sec=config.broker_timeout_sec)
        self.jetstream = JetStream(self.requests)
        self.runs = Runs(self.jetstream, config)
        self.queue = JobQueue(self.client, self.jetstream, config)
        self.dead_letters = DeadLetters(self.client, self.jetstream, config)
        self.registry = Registry(self.client, self.jetstream, config)
        self.leases = Leases(self.jetstream, config)
        self.schedules = Schedules(self.jetstream, config)
        self.graphs = Graphs(self.jetstream, config)
        self.refusals = Refusals(self.jetstream, config)
        self.ledger = Ledger(self.client, self.jetstream, config)
        self.keys = Keys(self.jetstream, config)
        self.tickets = Tickets(self.jetstream, config)
        self.secrets = Secrets(self.jetstream, config)
        self.results = Objects(self.jetstream, config.results_object_bucket)
        self.rechecks = Rechecks(self.jetstream, config)
        self.limits = Limits(self.jetstream, config)
        self.artifacts = Objects(self.jetstream, config.artifacts_object_bucket)
        self.wheel_objects = Objects(self.jetstream, config.wheel_object_store_bucket)
        self.wheels = Wheels(self.jetstream, self.wheel_objects, config)
        self.logs = Logs(self.jetstream, config)
        self.log_reader = LogReader(self.client, self.jetstream, config)

    @classmethod
    async def connect(cls, config: NatsBackendConfig, *, name: str) -> Store:
        store = cls(config, name=name)
        try:
            await store.open()
        except BaseException:  # whatever it was: the connection must not be left behind
            await store.close()
            raise
        return store

    async def open(self) -> None:
        """Connected, resources there. Waits for a broker that is not up yet; ends early only by `close`."""
        if await self.reach():
            await self._ensure_resources()

    async def reach(self) -> bool:
        """Connected, and nothing made there. False when `close` came first."""
        await self._wait_for_broker()
        if self._stopping:
            return False
        await self._connect()
        await self.requests.open()
        return True

    async def close(self) -> None:
        self._stopping = True
        await self.runs.close()
        await self.requests.close()
        if not self.client.is_closed and self.client.was_ever_connecting:
            with contextlib.suppress(NatsError, asyncio.TimeoutError, OSError):
                await self.client.close()

    def on_reconnect(self, hook: Callable[[], None]) -> None:
        self._hooks.append(hook)

    def on_loss(self, hook: Callable[[], None]) -> None:
        """Call this when the connection is gone; not when it is closed on purpose."""
        self._hooks_of_loss.append(hook)

    async def streams(self) -> dict[str, dict[str, Any]]:
        """By name: streams and buckets of ours as the broker describes them."""
        names = [wanted["name"] for wanted in resources.streams(self.config)]
        found = await asyncio.gather(*(self.jetstream.api(f"STREAM.INFO.{name}") for name in names))
        return dict(zip(names, found, strict=True))

    def forget_reconnect(self, hook: Callable[[], None]) -> None:
        self._hooks.remove(hook)

    @property
    def broker_version(self) -> str:
        return str(self.client._server_info.get("version", "0.0"))

    @property
    def is_connected(self) -> bool:
        return bool(self.client.is_connected)

    async def _wait_for_broker(self) -> None:
        """A TCP probe costs a millisecond where a refused first connect of nats-py costs two seconds."""
        pause, said_at = PROBE_PAUSE_SEC[0], -SAY_SO_EVERY_SEC
        url = without_credentials(self.config.nats_url)
        loop = asyncio.get_running_loop()
        while not self._stopping:
            for server in self.config.nats_servers:
                if await _answers(server):
                    return
            if loop.time() - said_at >= SAY_SO_EVERY_SEC:
                said_at = loop.time()
                self.why_not_ready = f"no broker answers at {url}"
                log.warning("waiting for the broker", extra={"url": url})
            await asyncio.sleep(pause)
            pause = min(pause * 2, PROBE_PAUSE_SEC[1])

    async def _connect(self) -> None:
        await self.client.connect(
            servers=self.config.nats_servers,
            name=self._name,
            max_reconnect_attempts=-1,
            ping_interval=PING_INTERVAL_SEC,
            max_outstanding_pings=2,
            disconnected_cb=self._on_disconnected,
            reconnected_cb=self._on_reconnected,
            error_cb=self._on_error,
            **connect_options(self.config),
        )
        resources.check_broker_version(self.broker_version)

    async def _ensure_resources(self) -> None:
        """JetStream may need a moment after the port opens (a cluster electing its leader)."""
        while not self._stopping:
            try:
                await resources.ensure(self.jetstream, self.config)
                self.why_not_ready = None
                return
            except Unavailable as error:
                self.why_not_ready = error.message
                log.warning("streams are not ready", extra={"error": error.message})
                await asyncio.sleep(RESOURCES_PAUSE_SEC)

    async def _on_disconnected(self) -> None:
        self.why_not_ready = "the connection to the broker is lost"
        self.client.drop_unsent()
        self.requests.fail_all()
        if not self._stopping:
            log.warning("disconnected from the broker")
            for hook in tuple(self._hooks_of_loss):
                hook()

    async def _on_reconnected(self) -> None:
        self.reconnects += 1
        log.info("reconnected to the broker", extra={"reconnects": self.reconnects})
        if self._resuming is None or self._resuming.done():
            self._resuming = asyncio.get_running_loop().create_task(self._resume())

    async def _resume(self) -> None:
        """The broker may have come back with an empty disk: make sure of the streams first."""
        await self._ensure_resources()
        if self._stopping or not self.is_connected:
            return
        self.secrets.forget()
        for hook in tuple(self._hooks):
            hook()

    async def _on_error(self, error: Exception) -> None:
        log.debug("broker connection", extra={"error": repr(error)})
        if not self.is_connected and not self._stopping:
            self.why_not_ready = self._why_not(error)

    def _why_not(self, error: Exception) -> str:
        """Who is refused is hung up on next, which is then the last that is known: the first one explains."""
        is_hung_up_on = self.why_not_ready == CREDENTIALS_REFUSED and not isinstance(
            error, ConnectionRefusedError
        )
        if is_hung_up_on or "authorization violation" in str(error).lower():
            return CREDENTIALS_REFUSED
        return f"cannot connect to the broker: {error or type(error).__name__}"


async def _answers(server: str) -> bool:
    parts = urlsplit(server if "://" in server else f"nats://{server}")
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_SEC):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port or DEFAULT_PORT)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
