"""Access to everything that is stored, over one connection that reconnects without limit.

`open` waits until the broker answers and logs that it waits. A gateway may serve `/health` meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import ssl
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from nats.errors import Error as NatsError

from pyoco_server.config import NatsBackendConfig, without_credentials
from pyoco_server.errors import Unavailable, message_id_of
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.broker_clock import BrokerClock
from pyoco_server.jetstream.client import BrokerClient
from pyoco_server.jetstream.connect_options import ConnectOptions, connect_options
from pyoco_server.jetstream.descriptions import StreamInfo
from pyoco_server.jetstream.errors import LogLost, StreamDoesNotFit, StreamsSilent
from pyoco_server.jetstream.objects import Objects
from pyoco_server.jetstream.requests import Requests
from pyoco_server.store import resources
from pyoco_server.store.batches import Batches
from pyoco_server.store.fleet.leases import Leases
from pyoco_server.store.fleet.registry import WorkerRegistry
from pyoco_server.store.fleet.wheels import Wheels
from pyoco_server.store.graphs import Graphs
from pyoco_server.store.idempotency import IdempotencyStore
from pyoco_server.store.keys import Keys
from pyoco_server.store.limits import RateLimits
from pyoco_server.store.logs.reader import LogReader
from pyoco_server.store.logs.writer import Logs
from pyoco_server.store.queue.dead_letters import DeadLetters
from pyoco_server.store.queue.dismissals import Dismissals
from pyoco_server.store.queue.jobs import JobQueue
from pyoco_server.store.rechecks import Rechecks
from pyoco_server.store.resource_checks import StreamProblem
from pyoco_server.store.run_notes import RunNotes
from pyoco_server.store.runs.log import Runs
from pyoco_server.store.runs.refusals import Refusals
from pyoco_server.store.runs.results import Results
from pyoco_server.store.schedules import Schedules
from pyoco_server.store.secrets import Secrets
from pyoco_server.store.storage_reserve import StorageReserve
from pyoco_server.store.tickets import Tickets
from pyoco_server.supervision import Backoff, Loop, contain

log = logging.getLogger(__name__)

# Fields of log lines about an unavailable broker, for cases in which no request has failed.
_AWAY = {"err_id": Unavailable.default_err_id, "msg_id": message_id_of(Unavailable.default_err_id)}

PROBE_TIMEOUT_SEC = 1.0
PROBE_BACKOFF = Backoff(first_sec=0.02, longest_sec=1.0)
RESOURCES_PAUSE_SEC = 0.5
WARN_EVERY_SEC = 10.0
DEFAULT_PORT = 4222
CREDENTIALS_REFUSED = (
    "the broker refuses our credentials; set PYOCO_NATS_USER and PYOCO_NATS_PASSWORD, "
    "or for the broker of a `pyoco-server up` its data folder"
)
CERTIFICATE_REFUSED = (
    "the certificate of the broker is not trusted; "
    "name the authority that signed it in PYOCO_NATS_TLS_CA_FILE"
)


class Store:
    def __init__(
        self,
        config: NatsBackendConfig,
        *,
        name: str,
        make_client: Callable[[], BrokerClient] | None = None,
    ) -> None:
        """`make_client`: for tests, whose clients lose and delay messages."""
        self.config = config
        self._name = name
        self._stopping = False
        self._has_resources = False
        self._hooks: list[Callable[[], None]] = []
        self._hooks_of_loss: list[Callable[[], None]] = []
        self._hooks_of_silence: list[Callable[[], None]] = []
        self._resuming = Loop("resuming after a reconnect", self._resume)
        self.reconnects = 0
        # The last warning about streams that are not ready.
        self._reported: str | None = None
        # Existing streams that differ from the configuration and can be used.
        self.problems: list[StreamProblem] = []
        self.why_not_ready: str | None = "not connected to the broker yet"
        self.client = (make_client or BrokerClient)()
        self.client.handle_silence = self._on_silence
        self.requests = Requests(self.client, timeout_sec=config.broker_timeout_sec)
        self.room = StorageReserve(self.client, config)
        self.jetstream = JetStream(self.requests, self.room.note_refusal)
        self.clock = BrokerClock(self.jetstream, config.events_stream)
        self.runs = Runs(self.jetstream, config)
        self.queue = JobQueue(
            self.client, self.jetstream, config, may_pull=lambda: self.why_not_ready is None
        )
        self.dead_letters = DeadLetters(self.client, self.jetstream, config)
        self.dismissals = Dismissals(self.jetstream, config)
        self.registry = WorkerRegistry(self.client, self.jetstream, config)
        self.leases = Leases(self.jetstream, config)
        self.leftovers = RunNotes(self.jetstream, config, "leftover", tuple[str, ...], ())
        self.owed_letters = RunNotes(self.jetstream, config, "letter", str, "")
        self.cancelled_batches = RunNotes(self.jetstream, config, "batch", str, "")
        self.schedules = Schedules(self.jetstream, config)
        self.batches = Batches(self.jetstream, config)
        self.graphs = Graphs(self.jetstream, config)
        self.refusals = Refusals(self.jetstream, config)
        self.ledger = IdempotencyStore(self.client, self.jetstream, config)
        self.keys = Keys(self.jetstream, config)
        self.tickets = Tickets(self.jetstream, config)
        self.secrets = Secrets(self.jetstream, config)
        self.results = Results(self.jetstream, config.results_object_bucket)
        self.rechecks = Rechecks(self.jetstream, config)
        self.limits = RateLimits(self.jetstream, config)
        self.artifacts = Objects(self.jetstream, config.artifacts_object_bucket)
        self.wheel_objects = Objects(self.jetstream, config.wheel_object_store_bucket)
        self.wheels = Wheels(self.jetstream, self.wheel_objects, config)
        self.logs = Logs(self.jetstream, config)
        self.log_reader = LogReader(self.client, self.jetstream, config)

    @classmethod
    async def connect(
        cls,
        config: NatsBackendConfig,
        *,
        name: str,
        make_client: Callable[[], BrokerClient] | None = None,
    ) -> Store:
        store = cls(config, name=name, make_client=make_client)
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(store.close)
            await store.open()
            undo.pop_all()
        return store

    async def open(self) -> None:
        """Connect, and create missing streams. Waits for a broker that is not up yet; only `close` ends that.

        It can be called again after it raised.
        """
        if await self.reach():
            await self._ensure_resources()
            self._has_resources = True
            self._resuming.start()
            self.clock.start()

    async def reach(self) -> bool:
        """Connect without creating anything. False if `close` was called first."""
        if not self.client.is_connected:
            options = connect_options(self.config)  # first: a wrong setting must raise before the wait
            await self._wait_for_broker()
            if self._stopping:
                return False
            await self._connect(options)
        resources.check_broker_version(self.broker_version)
        if not self.requests.is_open:
            await self.requests.open()
        await self.room.open()
        return True

    async def close(self) -> None:
        self._stopping = True
        await self._resuming.stop()
        await self.clock.stop()
        await self.runs.snapshots.close()
        await self.requests.close()
        if not self.client.is_closed and self.client.was_ever_connecting:
            with contextlib.suppress(NatsError, asyncio.TimeoutError, OSError):
                await self.client.close()

    def on_reconnect(self, hook: Callable[[], None]) -> None:
        self._hooks.append(hook)

    def on_loss(self, hook: Callable[[], None]) -> None:
        """Call this when the connection is lost, but not when `close` closes it."""
        self._hooks_of_loss.append(hook)

    def on_silence(self, hook: Callable[[], None]) -> None:
        """Call this when `is_silent` has changed."""
        self._hooks_of_silence.append(hook)

    async def streams(self) -> dict[str, StreamInfo]:
        """The streams and buckets of this server as the broker describes them, by name."""
        names = [wanted["name"] for wanted in resources.streams(self.config)]
        found = await asyncio.gather(*(self.jetstream.stream_info(name) for name in names))
        return dict(zip(names, found, strict=True))

    def forget_reconnect(self, hook: Callable[[], None]) -> None:
        self._hooks.remove(hook)

    @property
    def has_copies(self) -> bool:
        """Whether a read may reach a copy of the log that lags. The broker decides, not the configuration."""
        return self.jetstream.replicas.get(self.config.events_stream, self.config.nats_replicas) > 1

    @property
    def broker_version(self) -> str:
        return str(self.client._server_info.get("version", "0.0"))

    @property
    def is_connected(self) -> bool:
        return bool(self.client.is_connected)

    @property
    def is_silent(self) -> bool:
        """The broker has sent nothing for some seconds. Requests are still tried."""
        return self.client.is_silent

    async def _wait_for_broker(self) -> None:
        """Probe by TCP: it takes a millisecond, and a refused first connect of nats-py takes two seconds."""
        failures, warned_at = 0, -WARN_EVERY_SEC
        url = without_credentials(self.config.nats_url)
        loop = asyncio.get_running_loop()
        while not self._stopping:
            for server in self.config.nats_servers:
                if await _answers(server):
                    return
            if loop.time() - warned_at >= WARN_EVERY_SEC:
                warned_at = loop.time()
                self.why_not_ready = f"no broker answers at {url}"
                log.warning("waiting for the broker", extra=_AWAY | {"url": url})
            failures += 1
            await asyncio.sleep(PROBE_BACKOFF.after(failures))

    async def _connect(self, options: ConnectOptions) -> None:
        await self.client.connect(
            servers=random.sample(self.config.nats_servers, len(self.config.nats_servers)),
            # Shuffled once, above: so after a loss the lost server is tried last.
            dont_randomize=True,
            name=self._name,
            inbox_prefix=self.config.nats_inbox_prefix,
            max_reconnect_attempts=-1,
            disconnected_cb=self._on_disconnected,
            reconnected_cb=self._on_reconnected,
            error_cb=self._on_error,
            **options,
        )

    async def _ensure_resources(self) -> None:
        """Retry: JetStream may need some time after the port opens, for example to elect a leader."""
        while not self._stopping:
            try:
                await self._check_streams()
                await self.clock.measure()
                self.why_not_ready = None
                return
            except Unavailable as error:
                self.why_not_ready = _reason(error)
                self._report_streams(error)
                await asyncio.sleep(RESOURCES_PAUSE_SEC)

    async def _check_streams(self) -> None:
        try:
            self._note(await resources.ensure(self.jetstream, self.config))
        except StreamsSilent as error:
            # They exist. Only requests that need them wait for their leaders. `_resume` checks them later.
            self._report_streams(error)
            self._resuming.wake()

    async def _create_missing_streams(self) -> bool:
        """Create missing streams. Returns whether a stream was created or the store was not ready meanwhile.

        A stream that does not answer has no leader yet; the others are served meanwhile. A stream that cannot
        be used makes the store not ready, as at the start. If the connection is lost meanwhile, the
        reconnect starts this again.
        """
        created: list[str] = []
        has_stopped = False
        while not self._stopping and self.is_connected:
            try:
                self._note(await resources.ensure(self.jetstream, self.config, created))
                return bool(created) or has_stopped
            except (StreamDoesNotFit, LogLost) as error:
                self.why_not_ready, has_stopped = _reason(error), True
                self._report_streams(error)
            except Unavailable as error:
                self._report_streams(error)
            await asyncio.sleep(RESOURCES_PAUSE_SEC)
        return False

    def _report_streams(self, error: Unavailable) -> None:
        """Warn once for each reason: the check is repeated twice a second."""
        level = logging.DEBUG if error.message == self._reported else logging.WARNING
        self._reported = error.message
        log.log(level, "streams are not ready", exc_info=error, extra={"error": error.message})

    def _note(self, found: list[StreamProblem]) -> None:
        """Warn once for each problem: it remains until an operator changes the stream."""
        self._reported = None
        for problem in found:
            if problem not in self.problems:
                log.warning("a stream is not as configured", extra={"problem": problem.what})
        self.problems = found

    async def _on_disconnected(self) -> None:
        self.why_not_ready = "the connection to the broker is lost"
        self.client.drop_unsent()
        self.requests.fail_all()
        self.runs.sent_commits.forget()
        if not self._stopping:
            log.warning("disconnected from the broker", extra=_AWAY)
            _call(self._hooks_of_loss)

    def _on_silence(self) -> None:
        if self.is_silent:
            log.warning("the broker does not respond", extra=_AWAY)
        _call(self._hooks_of_silence)

    async def _on_reconnected(self) -> None:
        self.reconnects += 1
        log.info("reconnected to the broker", extra={"reconnects": self.reconnects})
        if self._has_resources:
            self._resume_readers()
            self.clock.handle_reconnect()
        self._resuming.wake()

    async def _resume(self) -> None:
        """Create streams again if the broker came back with an empty disk.

        `_on_reconnected` does not wait for this: nearly always nothing is missing, and in a cluster that has
        lost a node the check takes until the last stream has a new leader.
        """
        if await self._create_missing_streams() and self.is_connected:
            self._resume_readers()

    def _resume_readers(self) -> None:
        self.why_not_ready = None
        self.secrets.forget()
        _call(self._hooks)

    async def _on_error(self, error: Exception) -> None:
        log.debug("broker connection", extra={"error": repr(error)})
        if not self.is_connected and not self._stopping:
            why_not = self._why_not(error)
            if why_not != self.why_not_ready:  # not at every try
                log.warning(why_not, exc_info=error, extra=_AWAY | {"error": repr(error)})
            self.why_not_ready = why_not

    def _why_not(self, error: Exception) -> str:
        """After a refusal of credentials the broker disconnects. The first of the two errors explains."""
        is_after_refusal = self.why_not_ready == CREDENTIALS_REFUSED and not isinstance(
            error, ConnectionRefusedError
        )
        if is_after_refusal or "authorization violation" in str(error).lower():
            return CREDENTIALS_REFUSED
        if isinstance(error, ssl.SSLCertVerificationError):
            return CERTIFICATE_REFUSED
        return "cannot connect to the broker"


def _reason(error: Unavailable) -> str:
    """As the end of a sentence: its readers add the period."""
    return error.public_message.removesuffix(".")


async def _answers(server: str) -> bool:
    parts = urlsplit(server if "://" in server else f"nats://{server}")
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_SEC):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port or DEFAULT_PORT)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def _call(hooks: Iterable[Callable[[], None]]) -> None:
    for hook in tuple(hooks):
        with contain("hooks of the connection", "a hook of the connection failed"):
            hook()
