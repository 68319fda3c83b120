"""A worker: pulls jobs of its tags and runs each as one `Attempt`. In a library it is one process's own.

`run_once` handles one job; `serve` handles as many at once as it has slots, until it is told to stop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Sequence

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Invalid
from pyoco_server.store.queue import Delivery, JobPuller
from pyoco_server.store.store import Store
from pyoco_server.tags import check_routing_tag, check_worker_id
from pyoco_server.worker.attempt import Attempt, Ended
from pyoco_server.worker.claim import Claimant
from pyoco_server.worker.disposition import NAK_TROUBLE_SEC, Outcome
from pyoco_server.worker.performer import Performer
from pyoco_server.worker.sign_of_life import SignOfLife
from pyoco_server.worker.slots.pool import Slots
from pyoco_server.worker.threads import FlowResolver, Threads

log = logging.getLogger(__name__)

POLL_SEC = 5.0
IDLE_PAUSE_SEC = 0.1


class PyocoNatsWorker:
    def __init__(
        self,
        store: Store,
        *,
        performer: Performer,
        worker_id: str = "worker",
        tags: Sequence[str] | None = None,
        concurrency: int | None = None,
    ) -> None:
        self._store = store
        self._performer = performer
        self._tags = _checked_tags(tags or [store.config.default_tag])
        self._slots = concurrency or store.config.worker_concurrency or os.cpu_count() or 1
        self.worker_id = check_worker_id(worker_id)
        self.instance_id = f"{worker_id}.{secrets.token_hex(6)}"
        self._claimant = Claimant(self.worker_id, self.instance_id)
        self._life = SignOfLife(store, self._claimant, self._tags, self._slots)
        self._puller: JobPuller | None = None
        self._in_hand: set[str] = set()
        self._stopping = asyncio.Event()

    @classmethod
    async def connect(
        cls,
        config: NatsBackendConfig | None = None,
        *,
        flow_resolver: FlowResolver | None = None,
        resolver_spec: str | None = None,
        worker_id: str = "worker",
        tags: Sequence[str] | None = None,
        concurrency: int | None = None,
    ) -> PyocoNatsWorker:
        """Waits for the broker if it is not up yet.

        With `flow_resolver`, a function of this program, runs are executed in threads of this process; with
        `resolver_spec` (`module:function` or `file.py:function`) in slots, processes that load it themselves.
        """
        config = config or NatsBackendConfig()
        store = Store(config, name=f"pyoco-worker-{worker_id}")
        slots = concurrency or config.worker_concurrency or os.cpu_count() or 1
        performer = _performer(flow_resolver, resolver_spec, slots)
        worker = cls(store, performer=performer, worker_id=worker_id, tags=tags, concurrency=slots)
        await performer.start()
        await store.open()
        await worker._start()
        return worker

    async def run_once(self, timeout: float = 1.0) -> str | None:
        """Handle one job, if one comes within `timeout` seconds. The run it was about, or None."""
        assert self._puller is not None
        delivery = await self._puller.next(timeout)
        self._life.fetched()
        if delivery is None:
            return None
        return (await self._handle(delivery)).run_id

    async def serve(self) -> None:
        """Work until `stop`: as many runs at once as there are slots."""
        await asyncio.gather(*(self._serve_slot() for _ in range(self._slots)))

    def stop(self) -> None:
        """Take no more jobs; what runs goes on, and `serve` returns when it is done."""
        self._stopping.set()
        if self._puller is not None:
            self._puller.dismiss_waiters()

    async def hand_back(self) -> None:
        """What cannot be finished in time goes back to the queue, as far as it can be stopped."""
        await self._performer.hand_back()

    async def close(self, reason: str = "graceful_shutdown") -> None:
        self.stop()
        if self._puller is not None:
            await self._puller.close()
        await self._life.stop(reason)
        await self._store.close()
        await self._performer.close()

    async def _start(self) -> None:
        await self._life.start()
        self._puller = await self._store.queue.pull(self._tags)
        self._store.on_reconnect(self._puller.forget_pulls)
        fields = {"worker_id": self.worker_id, "instance_id": self.instance_id, "tags": self._tags}
        log.info("worker ready", extra=fields | {"slots": self._slots})

    async def _serve_slot(self) -> None:
        while not self._stopping.is_set():
            assert self._puller is not None
            if not self._store.is_connected:
                await asyncio.sleep(IDLE_PAUSE_SEC)
                continue
            delivery = await self._puller.next(POLL_SEC)
            self._life.fetched()
            if delivery is not None:
                await self._handle(delivery)

    async def _handle(self, delivery: Delivery) -> Ended:
        attempt = Attempt(
            self._store,
            delivery,
            claimant=self._claimant,
            performer=self._performer,
            in_hand=self._in_hand,
        )
        ended = Ended(Outcome.BROKER_TROUBLE)
        try:
            ended = await attempt.run(self._life.run_began)
        except Exception:  # one delivery must not end the worker; it is delivered again
            log.exception("attempt broke", extra={"subject": delivery.subject})
            delivery.nak(NAK_TROUBLE_SEC)
        finally:
            if attempt.claimed_run_id is not None:
                self._life.run_ended(attempt.claimed_run_id, ended.status)
        return ended


def _performer(resolver: FlowResolver | None, spec: str | None, slots: int) -> Performer:
    if spec is not None:
        return Slots(spec, slots)
    if resolver is None:
        raise ValueError("a worker needs flow_resolver, a function, or resolver_spec, where to find it")
    return Threads(resolver)


def _checked_tags(tags: Sequence[str]) -> list[str]:
    try:
        return [check_routing_tag(tag) for tag in dict.fromkeys(tags)]
    except Invalid as error:
        # Code written for this name catches ValueError.
        raise ValueError(error.message) from error
