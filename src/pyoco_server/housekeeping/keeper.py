"""The housekeeper of a gateway. Of several gateways one holds the lease and does the work; the rest watch.

The lease is a key that its holder rewrites each time round. When it has stood still for long enough, by
the watcher's own clock and with the broker answering, the first who writes over it is the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets

from pyoco_server.errors import Unavailable
from pyoco_server.housekeeping.delayed_runs import start_delayed
from pyoco_server.housekeeping.due_runs import DueRuns
from pyoco_server.housekeeping.due_schedules import DueSchedules
from pyoco_server.housekeeping.gone_workers import GoneWorkers
from pyoco_server.housekeeping.lost_workers import LostWorkers
from pyoco_server.housekeeping.old_runs import OldRuns
from pyoco_server.housekeeping.owed_jobs import OwedJobs
from pyoco_server.housekeeping.stillness import Stillness
from pyoco_server.store.errors import WrongSequence
from pyoco_server.store.leases import Lease
from pyoco_server.store.read_model import ReadModel
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

KEY = "housekeeper"


class Housekeeper:
    def __init__(self, store: Store, read_model: ReadModel) -> None:
        self._store = store
        self._read_model = read_model
        self._interval_sec = store.config.housekeeping_interval_sec
        self._lease = Lease(holder=secrets.token_hex(8))
        self._revision = 0
        self._stillness = Stillness(step_sec_max=2 * self._interval_sec)
        self._lost_workers = LostWorkers(store, read_model)
        self._gone_workers = GoneWorkers(store)
        self._old_runs = OldRuns(store, read_model)
        self._owed_jobs = OwedJobs(store, read_model)
        self._due_schedules = DueSchedules(store)
        self._due_runs = DueRuns(store, read_model)
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.is_holder = False

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._keep()), loop.create_task(self._keep_time())]

    async def stop(self) -> None:
        self._stopping.set()
        self._due_runs.stop()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._store.config.broker_timeout_sec * 2)
        if self.is_holder:
            self.is_holder = False
            with contextlib.suppress(Unavailable, WrongSequence):  # else it stands still and is taken
                await self._store.leases.release(KEY, revision=self._revision)

    async def round(self) -> None:
        """Once: hold or take the lease, and do what is due if we have it."""
        now = asyncio.get_running_loop().time()
        went_through = await self._hold()
        if not self.is_holder:
            self._due_schedules.forget()
            return
        await self._read_model.caught_up()
        await self._lost_workers.look(now, own_write_went_through=went_through)
        await self._due_runs.look()
        await start_delayed(self._store, self._read_model)
        await self._owed_jobs.conclude_stuck_cancels()
        await self._owed_jobs.look()
        await self._due_schedules.look()
        await self._gone_workers.look()
        await self._old_runs.look()

    async def _keep(self) -> None:
        while not self._stopping.is_set():
            try:
                await self.round()
            except Unavailable as error:
                self._was_away()
                log.debug("housekeeping waits", extra={"error": error.message})
            except Exception:  # the loop outlives any one round; the next is a second away
                log.exception("housekeeping round failed")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interval_sec):
                    await self._stopping.wait()

    async def _keep_time(self) -> None:
        """Between two rounds: what is due in a run does not wait for the next."""
        while not self._stopping.is_set():
            await self._due_runs.rung()
            if not self.is_holder or self._stopping.is_set():
                continue
            try:
                await self._due_runs.look()
            except Unavailable as error:
                log.debug("what is due waits", extra={"error": error.message})
            except Exception:  # as above: the next round looks again, and sets the timer
                log.exception("what is due was not seen to")

    async def _hold(self) -> bool:
        if self.is_holder:
            return await self._renew()
        lease, revision = await self._store.leases.read(KEY)
        now = asyncio.get_running_loop().time()
        self._stillness.observe({KEY: revision}, now, own_write_went_through=True)
        if lease is None or self._stillness.still_sec(KEY) >= self._store.config.worker_lease_sec:
            return await self._take(revision)
        return False

    async def _take(self, revision: int) -> bool:
        self._revision = revision
        self.is_holder = True
        return await self._renew()

    async def _renew(self) -> bool:
        try:
            self._revision = await self._store.leases.write(KEY, self._lease, revision=self._revision)
        except WrongSequence:
            self.is_holder = False
            return False
        except Unavailable:
            # It may have been written: what we hold is found out by reading.
            self.is_holder = False
            raise
        return True

    def _was_away(self) -> None:
        """No time has passed for anybody: leases could not be renewed either."""
        now = asyncio.get_running_loop().time()
        self._stillness.observe({}, now, own_write_went_through=False)
        self._lost_workers.was_away(now)
        self._due_schedules.forget()
