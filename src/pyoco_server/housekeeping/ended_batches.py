"""Batches of rechecks whose runs are over are settled, and those nobody has started are started.

Every gateway hears of ends (the feed) and knows the open batches (the index of rechecks); only the one that
keeps house acts. What happens while nobody does is found when somebody begins: an outcome is stored once,
so looking twice is harmless.
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
from pyoco_server.recheck.batches import run_id_of, run_ids_of
from pyoco_server.recheck.records import Request
from pyoco_server.supervision import Loop

log = logging.getLogger(__name__)

TURN_SEC = 1.0
# What was to be started with its request and is not there by then is started here.
START_AGAIN_AFTER_SEC = 15.0
# Everything that is open is looked at anew, in case that we missed something.
LOOK_AT_ALL_EVERY_SEC = 30.0
STARTED_A_TURN = 500
SETTLED_SIDE_BY_SIDE = 4


class EndedBatches:
    def __init__(self, desk: RecheckContext, read_model: ReadModel, may_act: Callable[[], bool]) -> None:
        self._desk = desk
        self._read_model = read_model
        self._may_act = may_act
        self._acts = False
        # Ids of runs that are over, or may be, in the order in which we heard of them.
        self._ended: dict[str, None] = {}
        # Since when we know of batches whose runs we have not seen.
        self._unseen: dict[str, float] = {}
        self._looked_at = float("-inf")
        self._starting = Isolation("recheck batches")
        self._loop = Loop("recheck batches", self.turn, interval_sec=TURN_SEC)
        read_model.notifications.on_new_commit(self._on_commit)
        desk.model.on_request(self._on_request)

    def start(self) -> None:
        self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop(self._desk.store.config.broker_timeout_sec * 2)

    async def turn(self) -> None:
        """Once: settle and start what is due, if that is ours to do."""
        acted, self._acts = self._acts, self._may_act()
        if not self._acts:
            self._forget_settled()
            return
        await self._look_at_all(anew=not acted)
        await self._settle()
        await self._start_unseen()

    def _on_commit(self, before: Run | None, after: Run, events: Sequence[Event]) -> None:
        """Called for every commit of the log: nearly none is about a batch."""
        if after.run_id in self._desk.model.open:
            self._unseen.pop(after.run_id, None)
            if after.is_terminal or after.gone:
                self._ended[after.run_id] = None
                self._loop.wake()

    def _on_request(self, request: Request) -> None:
        for run_id in run_ids_of(request.request_id, request.batches):
            self._sort_in(run_id)
        self._loop.wake()

    def _sort_in(self, run_id: str) -> None:
        run = self._read_model.find(run_id)
        if self._desk.executor.ask_every_sec is not None or (run is not None and run.is_terminal):
            self._ended[run_id] = None
        elif run is None:
            self._unseen.setdefault(run_id, asyncio.get_running_loop().time())

    def _forget_settled(self) -> None:
        """Others have the work: what they have done is nothing to remember."""
        self._ended = {run_id: None for run_id in self._ended if run_id in self._desk.model.open}
        self._unseen = {one: since for one, since in self._unseen.items() if one in self._desk.model.open}

    async def _look_at_all(self, *, anew: bool) -> None:
        now = asyncio.get_running_loop().time()
        every_sec = self._desk.executor.ask_every_sec or LOOK_AT_ALL_EVERY_SEC
        if anew or now - self._looked_at >= every_sec:
            await self._read_model.catch_up()
            await self._desk.model.catch_up()
            for run_id in tuple(self._desk.model.open):
                self._sort_in(run_id)
            self._looked_at = now

    async def _settle(self) -> None:
        ended, self._ended = list(self._ended), {}
        places = asyncio.Semaphore(SETTLED_SIDE_BY_SIDE)

        async def one(run_id: str) -> None:
            async with places:
                await self._settle_one(run_id)

        await asyncio.gather(*map(one, ended))

    async def _settle_one(self, run_id: str) -> None:
        batch = self._desk.model.open.get(run_id)
        if batch is None:
            return
        try:
            if await settle(self._desk, run_id, batch) is NotEnded.MISSING:
                self._unseen.setdefault(run_id, asyncio.get_running_loop().time())
        except PyocoError as error:
            # It stays open, and is looked at again with everything that is.
            log.warning(
                "a recheck batch is not settled yet", extra={"run_id": run_id, "error": error.message}
            )
            if isinstance(error, Unavailable):
                self._ended[run_id] = None

    async def _start_unseen(self) -> None:
        now = asyncio.get_running_loop().time()
        by_request: dict[str, list[int]] = {}
        for run_id, since in tuple(self._unseen.items())[:STARTED_A_TURN]:
            batch = self._desk.model.open.get(run_id)
            if batch is None or self._read_model.find(run_id) is not None:
                self._unseen.pop(run_id)
            elif batch.batch >= STARTED_AT_ONCE_MAX or now - since >= START_AGAIN_AFTER_SEC:
                by_request.setdefault(batch.request_id, []).append(batch.batch)
        await self._starting.each(by_request.items(), self._start_again, name=lambda due: due[0])

    async def _start_again(self, due: tuple[str, list[int]]) -> bool:
        request_id, numbers = due
        request = self._desk.model.current().request(request_id)
        if request is None:
            return False
        await start_batches(self._desk, request, numbers)
        for number in numbers:
            self._unseen.pop(run_id_of(request_id, number), None)
        log.info("recheck batches started", extra={"request_id": request_id, "count": len(numbers)})
        self._loop.wake()  # there may be more
        return True
