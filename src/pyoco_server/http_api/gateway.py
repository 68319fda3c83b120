"""What a gateway process has besides routes: the store, the read model, and housekeeping while it may.

Starting does not wait for the broker: `/health` answers at once and `/ready` says what is missing.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any

from pyoco_server.config import NatsBackendConfig, without_credentials
from pyoco_server.errors import Unavailable
from pyoco_server.housekeeping import EndedBatches, Housekeeper
from pyoco_server.http_api.faces.executions.chronicle import Chronicle
from pyoco_server.http_api.sse import Streams
from pyoco_server.operations.authenticate import KeyCheck
from pyoco_server.operations.authenticate_jwt import JwtCheck
from pyoco_server.operations.drive import Desk
from pyoco_server.operations.histories import Histories
from pyoco_server.operations.list_news import ListNews
from pyoco_server.operations.log_pages import LogPages
from pyoco_server.operations.log_views import LogViews
from pyoco_server.operations.observed import Observed
from pyoco_server.operations.rechecks.airflow import Airflow
from pyoco_server.operations.rechecks.catalogue import catalogue_of_file, import_at_start
from pyoco_server.operations.rechecks.desk import RecheckDesk
from pyoco_server.operations.rechecks.observed import RecheckObserved
from pyoco_server.operations.rechecks.workers import OwnWorkers
from pyoco_server.operations.run_news import RunNews
from pyoco_server.operations.run_views import RunViews
from pyoco_server.operations.worker_news import WorkerNews
from pyoco_server.store.read_model import ReadModel
from pyoco_server.store.recheck_model import RecheckModel
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

START_AGAIN_SEC = 1.0
# Beyond this many unread commits a gateway is catching up rather than keeping up.
READY_LAG_MAX = 5_000


class Gateway:
    def __init__(self, config: NatsBackendConfig, *, embedded_broker: bool = False) -> None:
        self.config = config
        self.embedded_broker = embedded_broker
        self.store = Store(config, name="pyoco-gateway")
        self.read_model = ReadModel(self.store.client, self.store.jetstream, config)
        takes_keys = "api_key" in config.auth_methods or (config.jwt_jwks and not config.auth_methods)
        self.keys = KeyCheck(self.store) if takes_keys else None
        self.tokens = JwtCheck(config) if config.jwt_jwks else None
        self.observed = Observed()
        self.read_model.on_news(self.observed.commit)
        self.run_views = RunViews(self.store, self.read_model)
        self.desk = Desk(self.store)
        self.histories = Histories(self.store, self.read_model, Chronicle)
        self.log_pages = LogPages(self.store)
        self.log_views = LogViews(self.store, self.run_views)
        self.run_news = RunNews(self.read_model, self.standing)
        self.worker_news = WorkerNews(self.store, self.read_model)
        self.store.on_loss(self.run_news.stands_otherwise)
        self.streams = Streams()
        self._housekeeper = Housekeeper(self.store, self.read_model)
        self.rechecks = self._recheck_desk()
        self.list_news = ListNews(self.store, self.read_model, self.rechecks.model)
        self._ended_batches = EndedBatches(self.rechecks, self.read_model, lambda: self.is_housekeeper)
        self._catalogue = catalogue_of_file(config.strategies_file) if config.strategies_file else None
        self._following = False
        self._stopping = False
        self._starting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        if self.tokens is not None:
            self.tokens.start()
        self._starting = asyncio.get_running_loop().create_task(self._start())

    async def stop(self) -> None:
        self._stopping = True
        self.streams.end()
        closing = self.store.close() if not self._following else None
        if closing is not None:
            await closing  # ends the wait for a broker that never came
        if self._starting is not None:
            await asyncio.wait([self._starting], timeout=2.0)
        if self.tokens is not None:
            await self.tokens.stop()
        if self.keys is not None:
            await self.keys.stop()
        await self._ended_batches.stop()
        await self.list_news.stop()
        await self._housekeeper.stop()
        await self.desk.close()
        await self.rechecks.executor.stop()
        await self.rechecks.model.stop()
        await self.read_model.stop()
        await self.store.close()

    @property
    def is_housekeeper(self) -> bool:
        return self._housekeeper.is_holder

    def ready(self) -> dict[str, Any]:
        reasons = list(self._reasons())
        return {
            "ready": not reasons,
            "reasons": reasons,
            "broker": {
                "url": without_credentials(self.config.nats_url),
                "embedded": self.embedded_broker,
                "durability": self.config.durability if self.embedded_broker else None,
            },
            "read_model": {"lag": self.read_model.lag},
        }

    def standing(self) -> dict[str, Any]:
        """The part of `ready` that a page shows while it is open."""
        reasons = list(self._reasons())
        return {"ready": not reasons, "reasons": reasons}

    def check(self) -> None:
        """For every data route: with the broker away nothing is answered from memory."""
        if self.store.why_not_ready is not None:
            raise Unavailable(f"Not ready: {self.store.why_not_ready}.")

    def _recheck_desk(self) -> RecheckDesk:
        model = RecheckModel(self.store.client, self.store.jetstream, self.config)
        observed = RecheckObserved()
        is_own = self.config.recheck_executor == "pyoco"
        executor = OwnWorkers(self.store) if is_own else Airflow(self.config, observed)
        return RecheckDesk(self.store, model, executor, observed)

    def _reasons(self) -> Any:
        if self.store.why_not_ready is not None:
            yield self.store.why_not_ready
        elif self.keys is not None and not self.keys.table.is_current:
            yield "the API keys are not loaded yet"
        elif self.tokens is not None and not self.tokens.jwks.is_loaded:
            yield "the keys that tokens are checked with (PYOCO_JWT_JWKS) cannot be read"
        elif not self._following:
            yield "the list of runs is not being followed yet"
        elif self.read_model.lag > READY_LAG_MAX:
            yield f"the list of runs is being rebuilt, {self.read_model.lag} commits to go"

    async def _start(self) -> None:
        try:
            await self.store.open()
        except Unavailable as error:  # a broker that will not do; whoever looks at /ready is told
            self.store.why_not_ready = error.message
            log.error("this broker cannot be used", extra={"error": error.message, "err_id": error.err_id})
            return
        if self.keys is not None:
            await self.keys.start()
            self.store.on_reconnect(self.keys.table.reconnected)
        while not self._stopping and not self._following:
            try:
                if self._catalogue is not None:
                    await import_at_start(self.store, self._catalogue)
                await self.read_model.start()
                await self.rechecks.model.start()
                self._following = True
            except Unavailable as error:
                log.warning("cannot follow the log yet", extra={"error": error.message})
                await asyncio.sleep(START_AGAIN_SEC)
        if self._following:
            await self.store.dead_letters.follow(self.observed.letter)
            self.store.on_reconnect(self.read_model.reconnected)
            self.store.on_reconnect(self.desk.forget)
            self.store.on_reconnect(self.histories.forget)
            self.store.on_reconnect(self.rechecks.model.reconnected)
            self.store.on_reconnect(self.run_news.stands_otherwise)
            self.store.on_reconnect(self.list_news.reconnected)
            await self.worker_news.start()
            await self.list_news.start()
            self._housekeeper.start()
            self._ended_batches.start()
            # What is alive now lives for ever: the collector need not look at it again.
            gc.freeze()
