"""Runs that have repeatedly lost their workers are executed one at a time.

When a worker dies, every run it had loses a worker, and it is not known which run was the cause. Executed
again side by side, harmless runs would reach the limit together with the run that kills workers. Halfway to
the limit a run is therefore executed apart from others in the same state: from then on only the cause loses
workers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pyoco_server.errors import Unavailable
from pyoco_server.store.queue.job_puller import Delivery
from pyoco_server.store.store import Store
from pyoco_server.worker.attempt.attempt import give_back
from pyoco_server.worker.attempt.claim import run_id_in

WAIT_SEC = 2.0


class Quarantine:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._losses = max(1, store.config.consumer_max_deliver // 2)
        self._in_flight: str | None = None

    def may_concern(self, delivery: Delivery) -> bool:
        """Every loss has published a new job: for a job with a low number nothing has to be read."""
        return delivery.job_no is not None and delivery.job_no > self._losses

    @asynccontextmanager
    async def isolate(self, delivery: Delivery) -> AsyncIterator[bool]:
        """Yields False if another such run is in flight here: then this delivery was given back."""
        run_id = await self._suspect_in(delivery)
        if run_id is None:
            yield True
        elif self._in_flight is not None:
            await give_back(self._store, delivery, run_id, WAIT_SEC)
            yield False
        else:
            self._in_flight = run_id
            try:
                yield True
            finally:
                self._in_flight = None

    async def _suspect_in(self, delivery: Delivery) -> str | None:
        if not self.may_concern(delivery):
            return None
        run_id = run_id_in(delivery.data)
        try:
            stored = await self._store.runs.load(run_id) if run_id else None
        except Unavailable:
            return None  # the attempt gets the same error and handles it
        return run_id if stored is not None and stored.run.losses >= self._losses else None
