"""The services of a gateway process: the store, the read model, live changes and housekeeping.

Starting does not wait for the broker: `/health` answers at once and `/ready` lists what is missing. Every
step of the start is repeated until it succeeds; `/ready` is green only while every service works.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NotRequired, TypedDict

from pyoco_server.broker import EmbeddedBroker
from pyoco_server.config import NatsBackendConfig, without_credentials
from pyoco_server.errors import PyocoError, Unavailable
from pyoco_server.housekeeping import EndedBatches, Housekeeper
from pyoco_server.http_api.middleware.credentials import Authenticators, Credentials
from pyoco_server.http_api.middleware.own_hosts import OwnHosts
from pyoco_server.http_api.middleware.start_wait import StartWait
from pyoco_server.http_api.server.connections import Connections
from pyoco_server.http_api.streaming.sse import Streams
from pyoco_server.json_value import JsonObject
from pyoco_server.operations.batches.progress import BatchChanges
from pyoco_server.operations.executions.drive import CommandContext
from pyoco_server.operations.executions.histories import Histories, Projection
from pyoco_server.operations.fleet.counters import Counters
from pyoco_server.operations.fleet.storage import StorageWatch
from pyoco_server.operations.identity.authenticate import KeyCheck
from pyoco_server.operations.identity.failed_attempts import FailedAttempts
from pyoco_server.operations.live.list_changes import ListChanges
from pyoco_server.operations.live.run_changes import RunChanges
from pyoco_server.operations.live.run_views import RunViews
from pyoco_server.operations.live.worker_changes import WorkerChanges
from pyoco_server.operations.logs.pages import LogPages
from pyoco_server.operations.logs.views import LogViews
from pyoco_server.operations.rechecks.catalogue import catalogue_of_file, import_at_start
from pyoco_server.operations.rechecks.context import RecheckContext, RecheckCounters
from pyoco_server.operations.rechecks.workers import OwnWorkers
from pyoco_server.read_model.rechecks import RecheckModel
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.store import Store
from pyoco_server.supervision import Service, Services

if TYPE_CHECKING:
    from pyoco_server.operations.identity.authenticate_jwt import JwtCheck
    from pyoco_server.operations.rechecks.airflow import Airflow

# Beyond this many unread commits a gateway is catching up rather than keeping up.
READY_LAG_MAX = 5_000
BROKER_SILENT = "the broker does not respond"


class Standing(TypedDict):
    """The part of `/ready` that an open dashboard shows."""

    ready: bool
    reasons: list[str]


class Readiness(Standing):
    """`warnings`: problems that do not make the gateway unready."""

    broker: JsonObject
    read_model: JsonObject
    warnings: NotRequired[list[str]]


class Gateway:
    def __init__(
        self,
        config: NatsBackendConfig,
        *,
        make_history: Callable[[], Projection],
        broker: EmbeddedBroker | None = None,
    ) -> None:
        """`make_history`: an empty history of an execution, in the format of its face."""
        self.config = config
        self._broker = broker
        self.store = Store(config, name="pyoco-gateway")
        self.storage = StorageWatch(self.store, broker)
        self.read_model = ReadModel(self.store.client, self.store.jetstream, config)
        takes_keys = "api_key" in config.auth_methods or (config.jwt_jwks and not config.auth_methods)
        failures = FailedAttempts(config.auth_failures_per_min)
        self.keys = KeyCheck(self.store, failures) if takes_keys else None
        self.tokens = _token_check(config, failures) if config.jwt_jwks else None
        # Every kind that can be checked here; which kinds a face accepts is decided by its authentication.
        checks = Authenticators(self.keys, self.tokens)
        self.credentials = Credentials(config, checks) if any(checks) else None
        self.counters = Counters()
        self.read_model.notifications.on_new_commit(self.counters.commit)
        self.run_views = RunViews(self.store, self.read_model)
        self.commands = CommandContext(self.store)
        self.histories = Histories(self.store, self.read_model, make_history)
        self.log_pages = LogPages(self.store)
        self.log_views = LogViews(self.store, self.run_views)
        self.run_changes = RunChanges(self.read_model, self.standing)
        self.store.on_loss(self.run_changes.on_standing)
        self.store.on_silence(self.run_changes.on_standing)
        self.streams = Streams(config)
        self._housekeeper = Housekeeper(self.store, self.read_model)
        self.worker_changes = WorkerChanges(self.store, self.read_model, self._housekeeper.note_worker)
        self.rechecks = self._make_recheck_context()
        self.batch_changes = BatchChanges(self.read_model)
        self.list_changes = ListChanges(self.store, self.read_model, self.rechecks.model)
        self._ended_batches = EndedBatches(self.rechecks, self.read_model, lambda: self.is_housekeeper)
        self._serving = asyncio.Event()
        self._services = Services(self._all_services())
        self.start_wait = StartWait(config.start_wait_sec)
        self.own_hosts = OwnHosts(config)
        self.connections = Connections(config)

    async def start(self) -> None:
        self.connections.prepare()
        if self.tokens is not None:
            self.tokens.start()
        self.store.on_reconnect(self._services.handle_reconnect)
        self._services.start()
        self.start_wait.begin(self._until_serving)

    async def stop(self) -> None:
        self.start_wait.end()
        self.streams.end()
        self.log_pages.close()
        if not self._services.all_started:
            await self.store.close()  # ends the wait for a broker that never became available
        await self._services.stop()
        if self.tokens is not None:
            await self.tokens.stop()

    @property
    def is_housekeeper(self) -> bool:
        return self._housekeeper.is_holder

    def ready(self) -> Readiness:
        reasons = list(self._reasons())
        found: Readiness = {
            "ready": not reasons,
            "reasons": reasons,
            "broker": {
                "url": without_credentials(self.config.nats_url),
                "embedded": self._broker is not None,
                "durability": self.config.durability if self._broker is not None else None,
            },
            "read_model": {"lag": self.read_model.lag},
        }
        if warnings := list(dict.fromkeys(problem.public for problem in self.store.problems)):
            found["warnings"] = warnings
        return found

    def standing(self) -> Standing:
        reasons = list(self._reasons())
        return {"ready": not reasons, "reasons": reasons}

    def check(self) -> None:
        """Raises Unavailable without the broker: no data route answers from memory."""
        if self.store.why_not_ready is not None:
            raise Unavailable(f"Not ready: {self.store.why_not_ready}.")

    def _make_recheck_context(self) -> RecheckContext:
        model = RecheckModel(self.store.client, self.store.jetstream, self.config)
        counters = RecheckCounters()
        is_own = self.config.recheck_executor == "pyoco"
        executor = OwnWorkers(self.store) if is_own else _airflow(self.config, counters)
        return RecheckContext(self.store, model, executor, counters)

    def _reasons(self) -> Iterator[str]:
        if self._broker is not None and (reason := self._broker.why_not) is not None:
            yield reason
        if self.store.why_not_ready is not None:
            yield self.store.why_not_ready
            return
        if self.store.is_silent:
            yield BROKER_SILENT
            return
        if self.tokens is not None and not self.tokens.jwks.is_loaded:
            yield "the keys that tokens are checked with (PYOCO_JWT_JWKS) cannot be read"
        yield from self._services.reasons()

    async def _until_serving(self) -> None:
        await self._serving.wait()
        if self.keys is not None:
            await self.keys.table.until_loaded()

    def _all_services(self) -> list[Service]:
        """In the order in which they start; they stop in reverse."""
        return [
            Service("broker", self._open_store, self.store.close),
            Service("storage", self.storage.start, self.storage.stop, why_not=self.storage.why_not),
            *self._authentication(),
            *self._catalogue_import(),
            Service(
                "list of runs",
                self.read_model.start,
                self.read_model.stop,
                self.read_model.handle_reconnect,
                self._why_runs_are_not_listed,
            ),
            Service(
                "list of rechecks",
                self.rechecks.model.start,
                self.rechecks.model.stop,
                self.rechecks.model.handle_reconnect,
                self.rechecks.model.why_not,
            ),
            Service("recheck executor", stop=self.rechecks.executor.stop),
            Service(
                "commands", stop=self.commands.snapshots.close, handle_reconnect=self.commands.runs.forget
            ),
            Service("histories", self.histories.start, self.histories.stop, self.histories.handle_reconnect),
            Service(
                "watched runs", self.run_views.start, self.run_views.stop, self.run_views.handle_reconnect
            ),
            Service("requests", self._serve, handle_reconnect=self.run_changes.on_standing),
            Service("dead letters", self._follow_dead_letters),
            Service("changes of workers", self.worker_changes.start),
            Service(
                "changes of lists",
                self.list_changes.stream_changes.start,
                self.list_changes.stream_changes.stop,
                self.list_changes.stream_changes.handle_reconnect,
                self.list_changes.stream_changes.why_not,
            ),
            Service(
                "housekeeping",
                self._start_housekeeping,
                self._housekeeper.stop,
                self._housekeeper.handle_reconnect,
                why_not=self._housekeeper.why_not,
            ),
            Service("recheck batches", self._start_batches, self._ended_batches.stop),
            Service("memory", _freeze_memory),
        ]

    def _authentication(self) -> Iterator[Service]:
        if (keys := self.keys) is not None:
            yield Service("API keys", keys.start, keys.stop, keys.table.handle_reconnect, keys.table.why_not)

    def _catalogue_import(self) -> Iterator[Service]:
        if (path := self.config.strategies_file) is not None and path:
            catalogue = catalogue_of_file(path)
            yield Service("catalogue", lambda: import_at_start(self.store, catalogue))

    async def _open_store(self) -> None:
        try:
            await self.store.open()
        except PyocoError as error:  # a broker that cannot be used, or a wrong setting
            self.store.why_not_ready = error.public_message
            raise

    def _why_runs_are_not_listed(self) -> str | None:
        if self.read_model.is_rebuilding:
            return "the list of runs is being rebuilt: the broker has lost commits that were in it"
        if self.read_model.lag > READY_LAG_MAX:
            return f"the list of runs is being rebuilt, {self.read_model.lag} commits to go"
        return None if self.read_model.feed.is_receiving else "the list of runs is not being followed"

    async def _serve(self) -> None:
        self._serving.set()

    async def _follow_dead_letters(self) -> None:
        await self.store.dead_letters.follow(self.counters.letter)

    async def _start_housekeeping(self) -> None:
        self._housekeeper.start()

    async def _start_batches(self) -> None:
        self._ended_batches.start()


def _token_check(config: NatsBackendConfig, failures: FailedAttempts) -> JwtCheck:
    """Imported here: most gateways check no tokens, and its libraries take long to import."""
    from pyoco_server.operations.identity.authenticate_jwt import JwtCheck

    return JwtCheck(config, failures)


def _airflow(config: NatsBackendConfig, counters: RecheckCounters) -> Airflow:
    """Imported here: an HTTP client that most gateways do not need."""
    from pyoco_server.operations.rechecks.airflow import Airflow

    return Airflow(config, counters)


async def _freeze_memory() -> None:
    """Objects that exist now live until the end: the garbage collector need not check them again."""
    gc.freeze()
