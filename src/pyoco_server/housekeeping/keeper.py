"""The housekeeper of a gateway. Of several gateways one holds the lease and does the chores; the rest watch.

The holder rewrites its lease at every interval, independently of the chores. When the lease has not changed
for a lease period, by the watcher's own clock and while the broker answers, the first watcher that overwrites
it is the next holder. The lease lists the chores that keep failing; a watcher takes the lease of such a
holder.

Chores are isolated: one that fails or takes too long does not stop the others. Only a lease that cannot be
read or written means that the broker is away; that time is not counted against any worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from typing import NamedTuple

from pyoco_server.errors import Unavailable
from pyoco_server.housekeeping.cancelled_batches import CancelledBatches
from pyoco_server.housekeeping.chores import Chore, Chores
from pyoco_server.housekeeping.delayed_runs import DelayedRuns
from pyoco_server.housekeeping.due_runs import DueRuns
from pyoco_server.housekeeping.due_schedules import DueSchedules
from pyoco_server.housekeeping.gone_workers import GoneWorkers
from pyoco_server.housekeeping.leaked_claims import LeakedClaims
from pyoco_server.housekeeping.leftovers import LeftOvers
from pyoco_server.housekeeping.lost_workers import LostWorkers
from pyoco_server.housekeeping.missing_letters import MissingLetters
from pyoco_server.housekeeping.old_runs import OldRuns
from pyoco_server.housekeeping.owed_jobs import OwedJobs
from pyoco_server.housekeeping.stillness import Stillness
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.fleet.leases import Lease
from pyoco_server.store.store import Store
from pyoco_server.supervision import Loop

log = logging.getLogger(__name__)

KEY = "housekeeper"
# With more unread commits than this the list of runs is being rebuilt, and this gateway takes no lease.
LAG_MAX = 5_000
# A holder whose chores failed does not take the lease of another failing holder for this long.
REST_SEC = 60.0


class _Watched(NamedTuple):
    """The state of the holder, as a watcher reads it."""

    is_working: bool
    failing: list[str]


class Housekeeper:
    def __init__(self, store: Store, read_model: ReadModel) -> None:
        self._store = store
        self._read_model = read_model
        interval_sec = store.config.housekeeping_interval_sec
        self._holder_id = secrets.token_hex(8)
        self._revision = 0
        self._stillness = Stillness(step_sec_max=2 * interval_sec)
        self._lost_workers = LostWorkers(store, read_model)
        self._leaked_claims = LeakedClaims(store, read_model)
        self._due_schedules = DueSchedules(store, read_model)
        self._due_runs = DueRuns(store, read_model)
        self.chores = Chores(self._all_chores(), self._catch_up)
        self._round = Loop("housekeeping", self._do_chores, interval_sec=interval_sec)
        self._timer = Loop("housekeeping timer", self._process_due_runs)
        lease = Loop("housekeeping lease", self._keep_lease, interval_sec=interval_sec)
        self._ended_processes = Loop("ended processes of workers", self._take_from_ended)
        self._new_workers = Loop("new workers", self._lost_workers.watch_new)
        self._loops = (lease, self._round, self._timer, self._ended_processes, self._new_workers)
        self._due_runs.on_due(self._timer.wake)
        self._lost_workers.processes.on_end(self._ended_processes.wake)
        self._rests_until = float("-inf")
        self._watched: _Watched | None = None
        self.is_holder = False

    def start(self) -> None:
        for loop in self._loops:
            loop.start()

    async def stop(self) -> None:
        self._due_runs.stop()
        within_sec = self._store.config.broker_timeout_sec * 2
        lease, *chores = self._loops
        await asyncio.gather(*(loop.stop(within_sec) for loop in chores))
        await lease.stop(within_sec)  # last: chores that are still executed need the lease
        self._lost_workers.processes.close()
        if self.is_holder:
            self.is_holder = False
            with contextlib.suppress(Unavailable, WrongSequence):  # then it expires, and another one takes it
                await self._store.leases.release(KEY, revision=self._revision)

    def note_worker(self, entry: bytes) -> None:
        """A worker wrote this into the registry."""
        if self.is_holder and self._lost_workers.is_new_and_local(entry):
            self._new_workers.wake()

    def handle_reconnect(self) -> None:
        """The broker may have lost schedules: all of them are read again."""
        self._due_schedules.forget()

    def why_not(self) -> str | None:
        """Why housekeeping is not done, by this gateway or another; None when it is done."""
        if self.is_holder:
            failing = self.chores.describe_failing()
            return f"housekeeping fails: {failing}" if failing else None
        if self._watched is None:
            return "housekeeping has not begun yet"
        if not self._watched.is_working:
            return "no gateway does the housekeeping"
        failing = ", ".join(self._watched.failing)
        return f"housekeeping fails on the gateway that does it: {failing}" if failing else None

    async def round(self) -> None:
        """Renew or take the lease, and do the chores once if this gateway holds it."""
        await self._keep_lease()
        await self._do_chores()

    def _all_chores(self) -> list[Chore]:
        """In order of importance."""
        store, read_model = self._store, self._read_model
        owed_jobs = OwedJobs(store, read_model)
        return [
            Chore("lost workers", self._lost_workers.take_over),
            Chore("leaked claims", self._hand_back_leaked_claims),
            Chore("due runs", self._due_runs.look),
            Chore("delayed runs", DelayedRuns(store, read_model).look),
            Chore("stuck cancels", owed_jobs.conclude_stuck_cancels),
            Chore("owed jobs", owed_jobs.look),
            Chore("cancelled batches", CancelledBatches(store, read_model).look),
            Chore("missing letters", MissingLetters(store).look, needs_list=False),
            Chore("schedules", self._due_schedules.look, needs_list=False),
            Chore("gone workers", GoneWorkers(store).look, needs_list=False),
            Chore("old runs", OldRuns(store, read_model).look),
            Chore("leftovers", LeftOvers(store).look, needs_list=False),
        ]

    async def _hand_back_leaked_claims(self) -> int:
        return await self._leaked_claims.hand_back(asyncio.get_running_loop().time())

    async def _catch_up(self) -> None:
        await self._read_model.catch_up()

    async def _do_chores(self) -> None:
        if self.is_holder:
            await self.chores.do_all(lambda: self.is_holder)
        else:
            self._due_schedules.forget()

    async def _process_due_runs(self) -> None:
        """Between two rounds: runs are processed at their instant, not in the next round."""
        if self.is_holder:
            await self._due_runs.look()

    async def _take_from_ended(self) -> None:
        """Between two rounds: a process that has ended needs no lease period to be sure of it."""
        if self.is_holder:
            await self._catch_up()
            await self._lost_workers.take_from_ended()

    async def _keep_lease(self) -> None:
        try:
            went_through = await self._hold()
        except Unavailable:
            self._on_broker_away()
            raise
        if self.is_holder and went_through:
            await self.chores.do(Chore("leases of workers", self._observe_workers))

    async def _observe_workers(self) -> None:
        now = asyncio.get_running_loop().time()
        await self._lost_workers.observe(now, own_write_went_through=True)
        self._leaked_claims.observe(self._lost_workers.leases, now)

    async def _hold(self) -> bool:
        if self.is_holder:
            return await self._renew()
        lease, revision = await self._store.leases.read(KEY)
        now = asyncio.get_running_loop().time()
        self._stillness.observe({KEY: revision}, now, own_write_went_through=True)
        still_sec, lease_sec = self._stillness.still_sec(KEY), self._store.config.worker_lease_sec
        # Ours if the reply to our own renewal was lost. Then there is no need to wait until it expires.
        is_ours = lease is not None and lease.holder == self._holder_id
        is_free = lease is None or is_ours or still_sec >= lease_sec
        failing = lease.failing if lease is not None else []
        self._watched = _Watched(lease is not None and still_sec < 2 * lease_sec, failing)
        if self._may_take(now, is_free=is_free, is_failing=bool(failing)):
            return await self._take(revision)
        return False

    def _may_take(self, now: float, *, is_free: bool, is_failing: bool) -> bool:
        if self._read_model.lag > LAG_MAX:
            return False
        return is_free or (is_failing and now >= self._rests_until)

    async def _take(self, revision: int) -> bool:
        self._revision = revision
        self.is_holder = True
        self.chores.forget_failures()
        self._leaked_claims.forget()
        self._round.wake()
        return await self._renew()

    async def _renew(self) -> bool:
        failing = self.chores.failing()
        if failing:
            self._rests_until = asyncio.get_running_loop().time() + REST_SEC
        lease = Lease(holder=self._holder_id, failing=failing)
        try:
            self._revision = await self._store.leases.write(KEY, lease, revision=self._revision)
        except WrongSequence:
            self.is_holder = False
            return False
        except Unavailable:
            # The write may have succeeded; the next read of the lease shows it.
            self.is_holder = False
            raise
        return True

    def _on_broker_away(self) -> None:
        """Do not count this time against any worker: it could not renew its lease either."""
        now = asyncio.get_running_loop().time()
        self._stillness.observe({}, now, own_write_went_through=False)
        self._lost_workers.on_broker_away(now)
        self._leaked_claims.forget()
        self._due_schedules.forget()
