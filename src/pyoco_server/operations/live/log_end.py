"""Whether the feed has delivered everything that was stored before a moment. One question serves all who ask.

The question is which message is the last one of the log. If the feed has delivered this message, it has
delivered all before it. Message and feed must agree on the time at which it was stored: a log that has lost
its end gives the same sequence to another message.
"""

from __future__ import annotations

import asyncio

from pyoco_server.clock import elapsed
from pyoco_server.errors import Unavailable
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.store import Store
from pyoco_server.supervision import start_task, wait_for_event

# The last message usually arrives from the feed together with the answer. A feed that lags is not waited for.
REACH_WITHIN_SEC = 0.05


class EventLogEnd:
    def __init__(self, store: Store, read_model: ReadModel) -> None:
        self._store = store
        self._feed = read_model.feed
        self._waiting: list[asyncio.Future[bool]] = []
        self._asking: asyncio.Task[None] | None = None

    async def is_reached(self) -> bool:
        """Whether the feed has delivered everything that was stored before this call.

        A question that was sent before this call is no proof, so this waits for the next one. False if it is
        not known, also without an answer of the broker.
        """
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        if self._asking is None:
            self._asking = start_task(self._ask_for_all(), "the end of the log")
        return await answer

    async def _ask_for_all(self) -> None:
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, []
                is_reached = False
                try:
                    is_reached = await self._ask()
                finally:
                    _answer(waiting, is_reached)
        finally:
            self._asking = None
            _answer(self._waiting, False)

    async def _ask(self) -> bool:
        feed = self._feed
        try:
            last = await self._store.runs.last_message(at_leader=self._store.has_copies)
        except Unavailable:
            return False
        if last is None or not await self._reaches(last.seq):
            return False
        return feed.is_verified and feed.has_delivered(last)

    async def _reaches(self, seq: int) -> bool:
        feed, until = self._feed, elapsed() + REACH_WITHIN_SEC
        while feed.reached < seq:
            feed.moved.clear()
            left_sec = until - elapsed()
            if left_sec <= 0 or not await wait_for_event(feed.moved, left_sec):
                return feed.reached >= seq
        return True


def _answer(waiting: list[asyncio.Future[bool]], is_reached: bool) -> None:
    for answer in waiting:
        if not answer.done():
            answer.set_result(is_reached)
