"""Pulling jobs: all tags of a worker at once, for as many deliveries as are waited for.

A worker of several tags asks each of them for as much as it can take, so more may arrive than it can take.
The surplus is held for a moment, because a short run makes room soon, and is then given back so that another
worker can have it. Given back at once, it would come again at once, and each delivery counts: the broker does
not deliver a job more often than `consumer_max_deliver`.

A consumer or stream that was deleted is made again by the puller that is refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

import msgspec

from pyoco_server import clock
from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.acks import place_of
from pyoco_server.jetstream.api import NANOSECONDS
from pyoco_server.jetstream.client import BrokerClient
from pyoco_server.jetstream.errors import BrokerAway
from pyoco_server.jetstream.headers import number_of, status_of, value_of
from pyoco_server.supervision import start_task

log = logging.getLogger(__name__)

# A message sent by the broker just before a pull ends needs this long to reach us.
LATE_MESSAGE_SEC = 0.25
# Longer than a short run takes; short for a job that another worker could begin.
HOLD_SEC = 0.05
IDLE_HEARTBEAT = 100
PULL_EXPIRED = (404, 408)
# What tells that the queue is served: a job, a sign that it waits with us, or that nothing came in time.
ANSWERS = (0, IDLE_HEARTBEAT, *PULL_EXPIRED)
# A consumer that refuses a pull (it moves, has too many, or is gone) is asked again, but not at once.
REFUSED_PAUSE_SEC = 0.25
PULL_SEC_MIN = 0.001


class Delivery:
    """One message from the queue. Acknowledging is best effort: without it the message is delivered again."""

    def __init__(
        self, client: BrokerClient, subject: bytes, reply: bytes, headers: bytes, data: bytes
    ) -> None:
        self._client = client
        self._reply = reply.decode()
        self.subject = subject.decode()
        self.headers = headers
        self.data = data
        self.trouble: BrokerAway | None = None  # why the broker could not be reached
        self.num_delivered, self.sequence = place_of(reply)[:2]
        number = value_of(headers, b"Pyoco-Job")
        # None for a job of another producer; of ours they are asked for several times.
        self.job_no: int | None = number_of(headers, b"Pyoco-Job") if number else None
        self.log_seq = number_of(headers, b"Pyoco-Log-Seq") if number else 0
        self.chain = value_of(headers, b"Pyoco-Chain") if number else None  # of the commit at `log_seq`
        self.snapshot_revision = number_of(headers, b"Pyoco-Snapshot-Revision") if number else 0

    def ack(self) -> bool:
        return self._tell(b"+ACK")

    def nak(self, delay_sec: float = 0.0) -> bool:
        delay = b' {"delay": %d}' % int(delay_sec * NANOSECONDS) if delay_sec else b""
        return self._tell(b"-NAK" + delay)

    def term(self) -> bool:
        return self._tell(b"+TERM")

    def in_progress(self) -> bool:
        return self._tell(b"+WPI")

    def _tell(self, word: bytes) -> bool:
        try:
            self._client.send(self._reply, word)
        except BrokerAway as trouble:
            self.trouble = trouble
            return False
        return True


class _Waiter:
    """A call of `next` that wants a delivery, until then."""

    __slots__ = ("future", "until")

    def __init__(self, until: float) -> None:
        self.future: asyncio.Future[Delivery | None] = asyncio.get_running_loop().create_future()
        self.until = until

    def give(self, delivery: Delivery | None) -> bool:
        if self.future.done():
            return False
        self.future.set_result(delivery)
        return True


class _Pull:
    """A request for deliveries under way at one consumer."""

    __slots__ = ("left", "until")

    def __init__(self, left: int, until: float) -> None:
        self.left = left
        self.until = until


class JobPuller:
    """`mend` makes sure of the consumer of a subject; `answered_at` is when the queue last said something."""

    def __init__(
        self,
        client: BrokerClient,
        stream: str,
        consumers: dict[str, str],
        mend: Callable[[str], Awaitable[None]],
        may_pull: Callable[[], bool] = lambda: True,
    ) -> None:
        self._may_pull = may_pull
        self._client = client
        self._stream = stream
        self._consumers = consumers
        self._mend = mend
        self._mending: dict[str, asyncio.Task[None]] = {}
        self._prefix = ""
        self._pulls: dict[str, dict[bytes, _Pull]] = {subject: {} for subject in consumers}
        self._subjects = deque(consumers)
        self._waiters: deque[_Waiter] = deque()
        self._next = 0
        self._asks_soon = False
        self._sid: int | None = None
        self._late: list[Delivery] = []
        self._held: deque[Delivery] = deque()
        self.is_paused = False
        self.answered_at: float | None = None

    async def open(self) -> None:
        self._prefix = self._client.new_inbox() + "."
        self._sid = await self._client.listen(self._prefix + "*", self._on_message)

    async def pause(self) -> None:
        """When this returns no pull of ours stands at the broker, and nothing is given out until `resume`.

        The broker has no word for taking a pull back, but forgets those whose answers have no listener.
        What it had sent by then is given back when it cannot be sent to us again, which would wear it out.
        """
        self.is_paused = True
        for pulls in self._pulls.values():
            pulls.clear()
        sid, self._sid = self._sid, None
        if sid is not None:
            await self._client.hear_out(sid)
        late, self._late = self._late, []
        for delivery in late:
            delivery.nak()
        self._give_back_held()

    async def resume(self) -> None:
        if self._sid is None:
            await self.open()
        self.is_paused = False  # not before we listen: what is pulled would be sent to an empty address
        self._ask_for_more()

    def dismiss_waiters(self) -> None:
        """Waiters get None now; what still arrives goes back to the queue."""
        for waiter in self._waiters:
            waiter.give(None)
        self._waiters.clear()
        self._give_back_held()

    async def close(self) -> None:
        self.dismiss_waiters()
        for mending in self._mending.values():
            mending.cancel()
        if self._sid is not None:
            await self._client.unlisten(self._sid)

    async def next(self, timeout_sec: float) -> Delivery | None:
        """One delivery of any tag, or None. Pulls stand only while there are waiters."""
        if self._held and not self.is_paused:
            return self._held.popleft()
        loop = asyncio.get_running_loop()
        waiter = _Waiter(loop.time() + timeout_sec)
        self._waiters.append(waiter)
        if not self._asks_soon:  # several who come in one step of the loop share a pull
            self._asks_soon = True
            loop.call_soon(self._ask_for_more)
        timer = loop.call_later(timeout_sec + LATE_MESSAGE_SEC, waiter.give, None)
        try:
            return await waiter.future
        except asyncio.CancelledError:
            _give_back(waiter)
            raise
        finally:
            timer.cancel()
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def forget_pulls(self) -> None:
        """After a reconnect the broker knows nothing of our pulls: ask again for those who wait."""
        for pulls in self._pulls.values():
            pulls.clear()
        self._ask_for_more()

    def _ask_for_more(self) -> None:
        """Every tag gets as many pulls as there are people waiting, until the last of them leaves."""
        self._asks_soon = False
        now = asyncio.get_running_loop().time()
        waiting = [waiter for waiter in self._waiters if waiter.until - now >= PULL_SEC_MIN]
        if not waiting or self.is_paused or not self._may_pull():
            return
        timeout_sec = max(waiter.until for waiter in waiting) - now
        self._subjects.rotate(-1)  # the first one asked is mostly the first to answer: each has its turn
        for subject in self._subjects:
            pulls = self._pulls[subject]
            if subject in self._mending:
                continue
            for token in [token for token, pull in pulls.items() if pull.until < now]:
                del pulls[token]
            missing = len(waiting) - sum(pull.left for pull in pulls.values())
            if missing > 0:
                self._ask(subject, missing, timeout_sec, now)

    def _ask(self, subject: str, batch: int, timeout_sec: float, now: float) -> None:
        self._next += 1
        token = str(self._next).encode()
        ask = {"batch": batch, "expires": max(int(timeout_sec * NANOSECONDS), 1_000_000)}
        target = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumers[subject]}"
        try:
            self._client.send(target, msgspec.json.encode(ask), reply=self._prefix + token.decode())
        except BrokerAway:
            return
        self._pulls[subject][token] = _Pull(batch, now + timeout_sec)

    def _on_message(self, subject: bytes, reply: bytes, headers: bytes, data: bytes) -> None:
        status = status_of(headers)
        if status in ANSWERS:
            self.answered_at = clock.now()
        if status:
            if status != IDLE_HEARTBEAT and not self.is_paused:
                self._end_pull(subject[len(self._prefix) :], status)
            return
        self._count(subject.decode())
        delivery = Delivery(self._client, subject, reply, headers, data)
        if self.is_paused:
            self._late.append(delivery)
            return
        while self._waiters:
            if self._waiters.popleft().give(delivery):
                return
        self._held.append(delivery)
        asyncio.get_running_loop().call_later(HOLD_SEC, self._give_back, delivery)

    def _give_back(self, delivery: Delivery) -> None:
        if delivery in self._held:
            self._held.remove(delivery)
            delivery.nak()

    def _give_back_held(self) -> None:
        while self._held:
            self._held.popleft().nak()

    def _end_pull(self, token: bytes, status: int) -> None:
        """A pull may have stood since before today's waiters came: those with time left pull again."""
        ended = [subject for subject, pulls in self._pulls.items() if pulls.pop(token, None)]
        if status not in PULL_EXPIRED:
            for subject in ended or self._pulls:
                self._mend_soon(subject)
            return
        self._ask_for_more()
        if not any(self._pulls.values()):
            self.dismiss_waiters()

    def _mend_soon(self, subject: str) -> None:
        if subject not in self._mending:
            self._mending[subject] = start_task(self._mend_and_ask(subject), "mending a consumer")

    async def _mend_and_ask(self, subject: str) -> None:
        """One at a time for each consumer; where it does not help, the next pull is refused like this one."""
        try:
            await asyncio.sleep(REFUSED_PAUSE_SEC)
            await self._mend(subject)
        except Unavailable as error:
            fields = {"subject": subject, "error": error.message}
            log.warning("jobs cannot be pulled", exc_info=error, extra=fields)
        finally:
            del self._mending[subject]
        self._ask_for_more()

    def _count(self, subject: str) -> None:
        pulls = self._pulls.get(subject, {})
        for token, pull in list(pulls.items()):
            pull.left -= 1
            if pull.left <= 0:
                del pulls[token]
            return


def _give_back(waiter: _Waiter) -> None:
    """The waiter was cancelled in the moment in which a delivery had come."""
    if waiter.future.done() and not waiter.future.cancelled() and (delivery := waiter.future.result()):
        delivery.nak()
