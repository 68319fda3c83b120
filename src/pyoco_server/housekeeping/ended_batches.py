"""Settles the batches of rechecks whose runs have ended, and starts batches that were not started.

Every gateway receives the ends of runs (the feed) and has the open batches (the index of rechecks). Only the
gateway that holds the housekeeping lease acts. When it gets the lease it checks all open batches, so nothing
is missed. An outcome is stored once, so a second check has no effect.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from pyoco_server.errors import PyocoError, Unavailable
from pyoco_server.housekeeping.isolation import Isolation
from pyoco_server.lifecycle.events import Event
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.rechecks.accept import STARTED_AT_ONCE_MAX, start_batches
from pyoco_server.operations.rechecks.context import NotEnded, RecheckContext
from pyoco_server.operations.rechecks.settle import settle
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.recheck.records import Request, run_id_of, run_ids_of
from pyoco_server.supervision import Loop

log = logging.getLogger(__name__)

TURN_SEC = 1.0
# A batch that its request should have started is started here after this long.
START_AGAIN_AFTER_SEC = 15.0
# All open batches are checked this often, in case an event was missed.
CHECK_ALL_EVERY_SEC = 30.0
STARTED_A_TURN = 500
SETTLED_SIDE_BY_SIDE = 4


class EndedBatches:
    def __init__(self, context: RecheckContext, read_model: ReadModel, may_act: Callable[[], bool]) -> None:
        self._context = context
        self._read_model = read_model
        self._may_act = may_act
        self._acts = False
        # Ids of runs that have ended, or may have, in the order of arrival.
        self._ended: dict[str, None] = {}
        # Batches without a run in the list of runs, and since when they are known.
        self._unseen: dict[str, float] = {}
        self._checked_at = float("-inf")
        self._starting = Isolation("recheck batches")
        self._loop = Loop("recheck batches", self.turn, interval_sec=TURN_SEC)
        read_model.notifications.on_new_commit(self._on_commit)
        context.model.on_request(self._on_request)

    def start(self) -> None:
        self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop(self._context.store.config.broker_timeout_sec * 2)

    async def turn(self) -> None:
        """Settle and start what is due, once, if this gateway may act."""
        acted, self._acts = self._acts, self._may_act()
        if not self._acts:
            self._forget_settled()
            return
        await self._check_all(at_once=not acted)
        await self._settle()
        await self._start_unseen()

    def _on_commit(self, before: Run | None, after: Run, events: Sequence[Event]) -> None:
        """Called for every commit of the log. Almost none is about a batch."""
        if after.run_id in self._context.model.open:
            self._unseen.pop(after.run_id, None)
            if after.is_terminal or after.gone:
                self._ended[after.run_id] = None
                self._loop.wake()

    def _on_request(self, request: Request) -> None:
        for run_id in run_ids_of(request.request_id, request.batches):
            self._classify(run_id)
        self._loop.wake()

    def _classify(self, run_id: str) -> None:
        run = self._read_model.find(run_id)
        if self._context.executor.ask_every_sec is not None or (run is not None and run.is_terminal):
            self._ended[run_id] = None
        elif run is None:
            self._unseen.setdefault(run_id, asyncio.get_running_loop().time())

    def _forget_settled(self) -> None:
        """Forget the batches that another gateway has settled."""
        open_batches = self._context.model.open
        self._ended = {run_id: None for run_id in self._ended if run_id in open_batches}
        self._unseen = {run_id: since for run_id, since in self._unseen.items() if run_id in open_batches}

    async def _check_all(self, *, at_once: bool) -> None:
        now = asyncio.get_running_loop().time()
        every_sec = self._context.executor.ask_every_sec or CHECK_ALL_EVERY_SEC
        if at_once or now - self._checked_at >= every_sec:
            await self._read_model.catch_up()
            await self._context.model.catch_up()
            for run_id in tuple(self._context.model.open):
                self._classify(run_id)
            self._checked_at = now

    async def _settle(self) -> None:
        ended, self._ended = list(self._ended), {}
        places = asyncio.Semaphore(SETTLED_SIDE_BY_SIDE)

        async def one(run_id: str) -> None:
            async with places:
                await self._settle_one(run_id)

        await asyncio.gather(*map(one, ended))

    async def _settle_one(self, run_id: str) -> None:
        batch = self._context.model.open.get(run_id)
        if batch is None:
            return
        try:
            if await settle(self._context, run_id, batch) is NotEnded.MISSING:
                self._unseen.setdefault(run_id, asyncio.get_running_loop().time())
        except PyocoError as error:
            # It stays open, and the next check of all open batches includes it.
            fields = {"run_id": run_id, "error": error.message}
            log.warning("a recheck batch is not settled yet", extra=fields)
            if isinstance(error, Unavailable):
                self._ended[run_id] = None

    async def _start_unseen(self) -> None:
        now = asyncio.get_running_loop().time()
        by_request: dict[str, list[int]] = {}
        for run_id, since in tuple(self._unseen.items())[:STARTED_A_TURN]:
            batch = self._context.model.open.get(run_id)
            if batch is None or self._read_model.find(run_id) is not None:
                self._unseen.pop(run_id)
            elif batch.batch >= STARTED_AT_ONCE_MAX or now - since >= START_AGAIN_AFTER_SEC:
                by_request.setdefault(batch.request_id, []).append(batch.batch)
        await self._starting.each(by_request.items(), self._start_again, key=lambda due: due[0])

    async def _start_again(self, due: tuple[str, list[int]]) -> bool:
        request_id, numbers = due
        request = self._context.model.current().request(request_id)
        if request is None:
            return False
        await start_batches(self._context, request, numbers)
        for number in numbers:
            self._unseen.pop(run_id_of(request_id, number), None)
        log.info("recheck batches started", extra={"request_id": request_id, "count": len(numbers)})
        self._loop.wake()  # more batches may be unstarted
        return True
