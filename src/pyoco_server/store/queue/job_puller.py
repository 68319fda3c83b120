"""Pull jobs for a worker: from all its tags, as many deliveries as callers of `next` wait for.

A worker of several tags pulls from each of them as much as it can take, so more may arrive than it can take:

    next() ──> waiter ──> pull at every tag          pull expired ──> pull again, or next() returns None
                                                     pull refused ──> repair the consumer, pull again
    message ──> a waiter is there ──> next() returns the delivery
            ──> none is there     ──> held ──> the next next() returns it
                                           ──> HOLD_SEC have passed ──> NAK: another worker can have it
            ──> paused            ──> NAK at the end of pause()

A surplus delivery is held for a moment because a short run frees a slot soon. After an immediate NAK the
broker would deliver it again at once, and it delivers a job at most `consumer_max_deliver` times.

A puller whose pull is refused creates a consumer or stream that was deleted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

import msgspec

from pyoco_server import clock
from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.api import NANOSECONDS
from pyoco_server.jetstream.client import BrokerClient
from pyoco_server.jetstream.errors import BrokerAway
from pyoco_server.jetstream.headers import number_of, position_of, status_of, value_of
from pyoco_server.store.queue.open_pulls import OpenPulls
from pyoco_server.supervision import start_task

log = logging.getLogger(__name__)

# A message sent by the broker just before a pull ends needs this long to reach us.
LATE_MESSAGE_SEC = 0.25
# Longer than a short run takes; short for a job that another worker could begin.
HOLD_SEC = 0.05
IDLE_HEARTBEAT = 100
PULL_EXPIRED = (404, 408)
# Answers that show that the queue is served: a job, a heartbeat, or the end of a pull without a job.
ANSWERS = (0, IDLE_HEARTBEAT, *PULL_EXPIRED)
# After a pull was refused: the consumer moves to another server, has too many pulls, or is gone.
REFUSED_PAUSE_SEC = 0.25
PULL_SEC_MIN = 0.001


class Delivery:
    """One message from the queue. An acknowledgement may be lost: then the message is delivered again."""

    def __init__(
        self, client: BrokerClient, subject: bytes, reply: bytes, headers: bytes, data: bytes
    ) -> None:
        self._client = client
        self._reply = reply.decode()
        self.subject = subject.decode()
        self.headers = headers
        self.data = data
        self.trouble: BrokerAway | None = None  # why the broker could not be reached
        self.num_delivered, self.sequence = position_of(reply)[:2]
        number = value_of(headers, b"Pyoco-Job")
        # None for a job of another producer.
        self.job_no: int | None = number_of(headers, b"Pyoco-Job") if number else None
        self.log_seq = number_of(headers, b"Pyoco-Log-Seq") if number else 0
        self.chain = value_of(headers, b"Pyoco-Chain") if number else None  # of the commit at `log_seq`
        self.snapshot_revision = number_of(headers, b"Pyoco-Snapshot-Revision") if number else 0

    def ack(self) -> bool:
        return self._reply_with(b"+ACK")

    def nak(self, delay_sec: float = 0.0) -> bool:
        delay = b' {"delay": %d}' % int(delay_sec * NANOSECONDS) if delay_sec else b""
        return self._reply_with(b"-NAK" + delay)

    def term(self) -> bool:
        return self._reply_with(b"+TERM")

    def in_progress(self) -> bool:
        return self._reply_with(b"+WPI")

    def _reply_with(self, word: bytes) -> bool:
        try:
            self._client.send(self._reply, word)
        except BrokerAway as trouble:
            self.trouble = trouble
            return False
        return True


class _Waiter:
    """A call of `next` that waits for a delivery until this time."""

    __slots__ = ("future", "until")

    def __init__(self, until: float) -> None:
        self.future: asyncio.Future[Delivery | None] = asyncio.get_running_loop().create_future()
        self.until = until

    def give(self, delivery: Delivery | None) -> bool:
        if self.future.done():
            return False
        self.future.set_result(delivery)
        return True


class JobPuller:
    """`repair` creates the consumer of a subject if it is missing. `answered_at`: the last answer."""

    def __init__(
        self,
        client: BrokerClient,
        stream: str,
        consumers: dict[str, str],
        repair: Callable[[str], Awaitable[None]],
        may_pull: Callable[[], bool] = lambda: True,
    ) -> None:
        self._may_pull = may_pull
        self._client = client
        self._stream = stream
        self._consumers = consumers
        self._repair = repair
        self._repairs: dict[str, asyncio.Task[None]] = {}
        self._prefix = ""
        self._pulls = OpenPulls(list(consumers))
        self._waiters: deque[_Waiter] = deque()
        self._next = 0
        self._is_pull_scheduled = False
        self._sid: int | None = None
        self._late: list[Delivery] = []
        self._held: deque[Delivery] = deque()
        self.is_paused = False
        self.answered_at: float | None = None

    async def open(self) -> None:
        self._prefix = self._client.new_inbox() + "."
        self._sid = await self._client.listen(self._prefix + "*", self._on_message)

    async def pause(self) -> None:
        """Cancel all pulls. Until `resume` no delivery is returned.

        The broker has no request that cancels a pull, but drops pulls whose reply subject has no subscriber.
        A delivery that arrives meanwhile gets its NAK after that: a NAK before would send it here again.
        """
        self.is_paused = True
        self._pulls.clear()
        sid, self._sid = self._sid, None
        if sid is not None:
            await self._client.unlisten_gracefully(sid)
        late, self._late = self._late, []
        for delivery in late:
            delivery.nak()
        self._nak_held()

    async def resume(self) -> None:
        if self._sid is None:
            await self.open()
        self.is_paused = False  # only after the subscription: a pull before it would have no subscriber
        self._pull_for_waiters()

    def dismiss_waiters(self) -> None:
        """All calls of `next` return None now. Deliveries that are held or still arrive get a NAK."""
        for waiter in self._waiters:
            waiter.give(None)
        self._waiters.clear()
        self._nak_held()

    async def close(self) -> None:
        self.dismiss_waiters()
        for repair in self._repairs.values():
            repair.cancel()
        if self._sid is not None:
            await self._client.unlisten(self._sid)

    async def next(self, timeout_sec: float) -> Delivery | None:
        """One delivery of any tag, or None. Pulls are open only while there are waiters."""
        if self._held and not self.is_paused:
            delivery = self._held.popleft()
            self._pulls.note_taken(delivery.subject)
            return delivery
        loop = asyncio.get_running_loop()
        waiter = _Waiter(loop.time() + timeout_sec)
        self._waiters.append(waiter)
        self._pull_soon()
        timer = loop.call_later(timeout_sec + LATE_MESSAGE_SEC, waiter.give, None)
        try:
            return await waiter.future
        except asyncio.CancelledError:
            _nak_delivery(waiter)
            raise
        finally:
            timer.cancel()
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def forget_pulls(self) -> None:
        """After a reconnect the broker has no pulls of this connection: pull again for the waiters."""
        self._pulls.clear()
        self._pull_for_waiters()

    def _pull_soon(self) -> None:
        """Waiters of one step of the event loop share a pull."""
        if not self._is_pull_scheduled:
            self._is_pull_scheduled = True
            asyncio.get_running_loop().call_soon(self._pull_for_waiters)

    def _pull_for_waiters(self) -> None:
        """Request deliveries for all waiters, until the last one leaves, wherever they are missing."""
        self._is_pull_scheduled = False
        now = asyncio.get_running_loop().time()
        waiting = [waiter for waiter in self._waiters if waiter.until - now >= PULL_SEC_MIN]
        if not waiting or self.is_paused or not self._may_pull():
            return
        timeout_sec = max(waiter.until for waiter in waiting) - now
        self._pulls.end_expired(now)
        for subject, missing in self._pulls.missing(len(waiting)):
            if subject not in self._repairs:
                self._pull(subject, missing, timeout_sec, now)

    def _pull(self, subject: str, batch: int, timeout_sec: float, now: float) -> None:
        self._next += 1
        token = str(self._next).encode()
        ask = {"batch": batch, "expires": max(int(timeout_sec * NANOSECONDS), 1_000_000)}
        target = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumers[subject]}"
        try:
            self._client.send(target, msgspec.json.encode(ask), reply=self._prefix + token.decode())
        except BrokerAway:
            return
        self._pulls.add(token, subject, batch, now + timeout_sec)

    def _on_message(self, subject: bytes, reply: bytes, headers: bytes, data: bytes) -> None:
        status = status_of(headers)
        if status in ANSWERS:
            self.answered_at = clock.now()
        if status:
            if status != IDLE_HEARTBEAT and not self.is_paused:
                self._end_pull(subject[len(self._prefix) :], status)
            return
        delivery = Delivery(self._client, subject, reply, headers, data)
        self._pulls.count_delivery(delivery.subject)
        if self.is_paused:
            self._late.append(delivery)
            return
        while self._waiters:
            if self._waiters.popleft().give(delivery):
                self._pulls.note_taken(delivery.subject)
                if self._pulls.needs_pull(delivery.subject, len(self._waiters)):
                    self._pull_soon()  # a quiet tag has fewer open requests than there are waiters
                return
        self._held.append(delivery)
        asyncio.get_running_loop().call_later(HOLD_SEC, self._nak_if_held, delivery)

    def _nak_if_held(self, delivery: Delivery) -> None:
        if delivery in self._held:
            self._held.remove(delivery)
            delivery.nak()

    def _nak_held(self) -> None:
        while self._held:
            self._held.popleft().nak()

    def _end_pull(self, token: bytes, status: int) -> None:
        """The pull may be older than the present waiters: those with time left pull again."""
        ended = self._pulls.end(token)
        if status not in PULL_EXPIRED:
            for subject in self._consumers if ended is None else [ended]:
                self._repair_soon(subject)
            return
        self._pull_for_waiters()
        if not self._pulls:
            self.dismiss_waiters()

    def _repair_soon(self, subject: str) -> None:
        if subject not in self._repairs:
            self._repairs[subject] = start_task(self._repair_and_pull(subject), "repair of a consumer")

    async def _repair_and_pull(self, subject: str) -> None:
        """One at a time for each consumer. If it fails, the next pull is refused and repairs again."""
        try:
            await asyncio.sleep(REFUSED_PAUSE_SEC)
            await self._repair(subject)
        except Unavailable as error:
            fields = {"subject": subject, "error": error.message}
            log.warning("jobs cannot be pulled", exc_info=error, extra=fields)
        finally:
            del self._repairs[subject]
        self._pull_for_waiters()


def _nak_delivery(waiter: _Waiter) -> None:
    """The waiter was cancelled after it had got a delivery."""
    if waiter.future.done() and not waiter.future.cancelled() and (delivery := waiter.future.result()):
        delivery.nak()
