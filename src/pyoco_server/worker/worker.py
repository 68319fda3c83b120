"""A worker: pulls jobs of its tags and handles each delivery as one `Attempt`.

`run_once` handles one job. `serve` handles as many at once as there are slots, until `stop` is called.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections import Counter
from collections.abc import Callable, Sequence

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Invalid, Unavailable
from pyoco_server.jetstream.errors import BrokerTooOld
from pyoco_server.names import check_routing_tag, check_worker_id
from pyoco_server.store.queue.job_puller import Delivery, JobPuller
from pyoco_server.store.store import Store
from pyoco_server.supervision import Loop, Service, Services, contain
from pyoco_server.worker.attempt.attempt import Attempt, AttemptResult
from pyoco_server.worker.attempt.claim import Claimant
from pyoco_server.worker.attempt.disposition import NAK_TROUBLE_SEC, AttemptOutcome
from pyoco_server.worker.attempt.quarantine import Quarantine
from pyoco_server.worker.performer import Performer
from pyoco_server.worker.places import SHARES, Place, Places
from pyoco_server.worker.presence.draining import Draining
from pyoco_server.worker.presence.heartbeat import Heartbeat
from pyoco_server.worker.presence.usage import Usage
from pyoco_server.worker.slots.pool import Slots
from pyoco_server.worker.slots.zygote_spawn import SpawnedZygote
from pyoco_server.worker.threads import FlowResolver, Threads
from pyoco_server.worker.wheels.sync import WheelSync

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
        self._in_flight: Counter[str] = Counter()
        self._heartbeat = Heartbeat(
            store, self._claimant, self._tags, self._slots, self._in_flight.keys(), self._entry_members
        )
        self._wheels = WheelSync(store, performer, self.worker_id, self._tags, self._heartbeat.publish_soon)
        self._usage = Usage(lambda: performer.slot_pids)
        self._draining = Draining(store, self._claimant, self._heartbeat.publish)
        self._puller: JobPuller | None = None
        self._quarantine = Quarantine(store)
        self._stopping = asyncio.Event()
        self._places = Places(self._slots)
        self._stop_reason = "graceful_shutdown"
        self._services = Services(self._all_services())

    @classmethod
    async def connect(
        cls,
        config: NatsBackendConfig | None = None,
        flow_resolver: FlowResolver | None = None,
        worker_id: str = "worker",
        tags: Sequence[str] | None = None,
        *,
        resolver_spec: str | None = None,
        concurrency: int | None = None,
        zygote: SpawnedZygote | None = None,
    ) -> PyocoNatsWorker:
        """Waits for the broker if it is not up yet. Without `config` the environment has the settings.

        With `flow_resolver`, a function of this program, runs are executed in threads of this process; with
        `resolver_spec` (`module:function` or `file.py:function`) in slots, processes that load it themselves.
        `zygote`: the process that these are forked from, if it was started in advance.
        """
        config = config or NatsBackendConfig.from_env()
        store = Store(config, name=f"pyoco-worker-{worker_id}")
        slots = concurrency or config.worker_concurrency or os.cpu_count() or 1
        performer = _performer(config, flow_resolver, resolver_spec, slots, zygote)
        worker = cls(store, performer=performer, worker_id=worker_id, tags=tags, concurrency=slots)
        performer.on_change(worker._heartbeat.publish_soon)
        await worker._services.start_or_raise(_is_passing)
        fields = {"worker_id": worker.worker_id, "instance_id": worker.instance_id, "tags": worker._tags}
        log.info("worker ready", extra=fields | {"slots": worker._slots})
        return worker

    async def run_once(self, timeout: float = 1.0) -> str | None:
        """Handle one job, if one arrives within `timeout` seconds. Returns the id of its run, or None.

        A worker that drains gets no job.
        """
        assert self._puller is not None
        await self._wheels.keep_up()
        delivery = await self._puller.next(timeout)
        self._heartbeat.note_fetch(self._puller.answered_at)
        if delivery is None:
            return None
        place = self._places.take_now()
        try:
            return (await self._handle(delivery, place)).run_id
        finally:
            place.release()

    async def serve(self) -> None:
        """Work until `stop`: as many runs at once as there are places (`places.py`).

        The end of a run is recorded while its slot executes the next one, so there are twice as many loops.
        """
        self._places = Places(self._slots)
        loops = [Loop("jobs", self._serve_slot) for _ in range(2 * SHARES * self._slots)]
        for loop in loops:
            loop.start()
            loop.wake()
        try:
            await self._stopping.wait()
            await asyncio.gather(*(loop.stop(within_sec=None) for loop in loops))
        finally:  # a cancelled caller cancels the attempts in flight
            for loop in loops:
                loop.stop_at_once()
            await asyncio.gather(*(loop.stop() for loop in loops))

    def stop(self) -> None:
        """Take no more jobs. Runs in flight continue, and `serve` returns when they have ended."""
        self._stopping.set()
        if self._puller is not None:
            self._puller.dismiss_waiters()

    async def renew(self) -> None:
        """Load the flows again for the next runs. Raises if that fails: the loaded ones stay in use."""
        assert isinstance(self._performer, Slots), "with threads the program itself has loaded the flows"
        await self._performer.renew()

    async def hand_back(self) -> None:
        """Stop the runs in flight, if that is possible, and return them to the queue."""
        await self._performer.hand_back()

    async def close(self, reason: str = "graceful_shutdown") -> None:
        self.stop()
        self._stop_reason = reason
        await self._services.stop()

    def _entry_members(self) -> dict[str, object]:
        return {
            "wheel_sync": self._wheels.described(),
            "flows": self._performer.flows,
            "flow_params": self._performer.flow_params,
            "draining": self._draining.is_draining,
            "problem": self._performer.problem,
            "usage": self._usage.described(),
        }

    def _all_services(self) -> list[Service]:
        """In the order in which they start; they stop in reverse."""
        broker = Service("broker", self._store.open, self._store.close)
        wheels = Service("wheels", stop=self._close_wheels)
        flows = Service("flows", self._load_flows, self._performer.close)
        # Flows that cannot be loaded are reported before the broker is waited for; wheels come from there.
        first = [broker, wheels, flows] if self._store.config.wheel_sync_enabled else [wheels, flows, broker]
        return [
            *first,
            Service("heartbeat", self._heartbeat.start, self._leave),
            Service("jobs", self._pull, self._stop_pulling),
            Service("draining", self._start_draining, self._draining.stop),
        ]

    async def _load_flows(self) -> None:
        await self._performer.start(await self._wheels.first_edition())

    async def _close_wheels(self) -> None:
        self._wheels.close()

    async def _leave(self) -> None:
        await self._heartbeat.stop(self._stop_reason)

    async def _pull(self) -> None:
        self._puller = await self._store.queue.pull(self._tags)
        self._store.on_reconnect(self._puller.forget_pulls)

    async def _stop_pulling(self) -> None:
        if self._puller is not None:
            await self._puller.close()

    async def _start_draining(self) -> None:
        assert self._puller is not None
        await self._draining.start(self._puller)

    async def _serve_slot(self) -> None:
        while not self._stopping.is_set():
            place = await self._places.take()  # no job is pulled that could not be executed at once
            try:
                if self._stopping.is_set():
                    return
                if not self._may_take_work:
                    await asyncio.sleep(IDLE_PAUSE_SEC)
                    continue
                await self._serve_once(place)
                await self._wheels.keep_up()
            finally:
                place.release()

    @property
    def _may_take_work(self) -> bool:
        """A run that is claimed without a current lease would be taken over at once."""
        return self._store.is_connected and self._can_execute

    @property
    def _can_execute(self) -> bool:
        return self._heartbeat.deadline.is_current and self._performer.problem is None

    async def _serve_once(self, place: Place) -> None:
        assert self._puller is not None
        delivery = await self._puller.next(self._wheels.poll_sec(POLL_SEC))
        self._heartbeat.note_fetch(self._puller.answered_at)
        if delivery is not None:
            await self._handle(delivery, place)

    async def _handle(self, delivery: Delivery, place: Place) -> AttemptResult:
        if not self._can_execute:
            delivery.nak(NAK_TROUBLE_SEC)
            return AttemptResult(AttemptOutcome.BROKER_TROUBLE)
        with self._draining.track_start() as starting:
            if not self._quarantine.may_concern(delivery):
                return await self._attempt(delivery, starting.note_started, place)
            async with self._quarantine.isolate(delivery) as may_begin:
                if not may_begin:
                    return AttemptResult(AttemptOutcome.CLAIMED)
                return await self._attempt(delivery, starting.note_started, place)

    async def _attempt(
        self, delivery: Delivery, note_started: Callable[[], None], place: Place
    ) -> AttemptResult:
        attempt = Attempt(
            self._store,
            delivery,
            claimant=self._claimant,
            performer=self._performer,
            in_flight=self._in_flight,
            lease=self._heartbeat.deadline,
            place=place,
        )

        def on_claimed(run_id: str, fence: int) -> None:
            self._heartbeat.note_run_start(run_id, fence)
            note_started()

        ended = AttemptResult(AttemptOutcome.BROKER_TROUBLE)
        try:
            # A defect in one delivery must not end the worker. The job is delivered again.
            with contain("attempt at a run", "attempt failed", subject=delivery.subject) as contained:
                ended = await attempt.run(on_claimed)
            if contained.error is not None:
                delivery.nak(NAK_TROUBLE_SEC)
        finally:
            if attempt.claimed_run_id is not None:
                self._heartbeat.note_run_end(attempt.claimed_run_id, ended.status)
        return ended


def _is_passing(error: Exception) -> bool:
    """Errors of the broker are retried at the start; flows that cannot be loaded are not."""
    return isinstance(error, Unavailable) and not isinstance(error, BrokerTooOld)


def _performer(
    config: NatsBackendConfig,
    resolver: FlowResolver | None,
    spec: str | None,
    slots: int,
    zygote: SpawnedZygote | None,
) -> Performer:
    if spec is not None:
        return Slots(config, spec, slots, zygote)
    if resolver is None:
        raise ValueError("a worker needs flow_resolver, a function, or resolver_spec, where to find it")
    return Threads(config, resolver)


def _checked_tags(tags: Sequence[str]) -> list[str]:
    try:
        return [check_routing_tag(tag) for tag in dict.fromkeys(tags)]
    except Invalid as error:
        # Programs that use this class catch ValueError.
        raise ValueError(error.message) from error
