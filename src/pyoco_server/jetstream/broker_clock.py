"""Keep `clock.now` of this process at the broker's time, measured at the leader of the event log.

It is measured when the store is opened, after each reconnect and at an interval. If the clock of this machine
is far from the broker's, that is logged once and has no other effect.
"""

from __future__ import annotations

import logging
import time

from pyoco_server import clock
from pyoco_server.jetstream.api import JetStream
from pyoco_server.supervision import Loop

log = logging.getLogger(__name__)

INTERVAL_SEC = 30.0
# Measurements are repeated at most this often, until one is good enough.
TRIES_MAX = 4
GOOD_ENOUGH_SEC = 0.002
FAR_APART_SEC = 5.0


class BrokerClock:
    def __init__(self, jetstream: JetStream, stream: str) -> None:
        self._jetstream = jetstream
        self._stream = stream
        self._loop = Loop("broker clock", self.measure, interval_sec=INTERVAL_SEC, waits_first=True)
        self._is_far_apart = False

    def start(self) -> None:
        self._loop.start()

    def handle_reconnect(self) -> None:
        """It may be another broker, with another clock: measure at once."""
        self._loop.wake()

    async def stop(self) -> None:
        await self._loop.stop()

    async def measure(self) -> None:
        """Raises Unavailable if the broker does not answer; the last measurement stays valid."""
        for _ in range(TRIES_MAX):
            if await self._ask() <= GOOD_ENOUGH_SEC:
                break
        self._compare()

    async def now(self) -> float:
        """The broker's time, measured now: for decisions that cannot be undone."""
        await self._ask()
        return clock.now()

    async def _ask(self) -> float:
        """How long the answer took."""
        ours = clock.CURRENT.get()
        sent_at = ours.stopwatch()
        broker_at = await self._jetstream.clock(self._stream)
        received_at = ours.stopwatch()
        step_sec = ours.observe(broker_at, sent_at=sent_at, received_at=received_at)
        if step_sec:
            log.warning("the clock of the broker has jumped", extra={"by_sec": round(step_sec, 3)})
        return received_at - sent_at

    def _compare(self) -> None:
        apart_sec = time.time() - clock.now()
        was_far_apart, self._is_far_apart = self._is_far_apart, abs(apart_sec) > FAR_APART_SEC
        if self._is_far_apart and not was_far_apart:
            fields = {"ahead_sec": round(apart_sec, 1)}
            log.warning("the clock of this machine differs from the broker's, which is used", extra=fields)
