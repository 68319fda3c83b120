"""An ordered consumer: every message of a stream, in order, pushed from the broker to one process.

nats-py's does not survive a restart of the broker. After a gap in the consumer's numbering, missing
heartbeats or a reconnect, this one creates a new consumer after the last sequence that it has. Before that it
checks at the leader that the messages it has read are still there (`stream_position`). If not, it calls
`on_lost`, so that the owner drops its copy, and reads everything again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable

from pyoco_server.clock import elapsed
from pyoco_server.jetstream.api import NANOSECONDS, JetStream, StoredMessage
from pyoco_server.jetstream.client import BrokerClient
from pyoco_server.jetstream.confirmed_reads import MARK, is_mark, wait_for_majority
from pyoco_server.jetstream.descriptions import ConsumerSettings
from pyoco_server.jetstream.errors import BrokerAway, BrokerRefused
from pyoco_server.jetstream.headers import position_of, status_of, value_of
from pyoco_server.jetstream.stream_position import Step, StreamPosition
from pyoco_server.supervision import Backoff, Loop, wait_for_event

log = logging.getLogger(__name__)

HEARTBEAT_SEC = 1.0
SILENCE_MAX_SEC = 3.5
STOP_WITHIN_SEC = 2.0
CONFIRM_AFTER_SEC = 0.25
RESTART = Backoff(first_sec=0.1, longest_sec=0.5)

DELETIONS = (b"KV-Operation:", b"Nats-Rollup:")

# the subject below the prefix (of the log: a run id), stream sequence, header block, payload
OnMessage = Callable[[str, int, bytes, bytes], None]
# Messages that were read are no longer in the stream. When the stream was created, and its last sequence.
OnLost = Callable[[str, int], None]


def _ignore_loss(_created: str, _last_seq: int) -> None:
    return


class OrderedConsumer:
    def __init__(
        self,
        client: BrokerClient,
        jetstream: JetStream,
        stream: str,
        subject_prefix: str,
        on_message: OnMessage,
        *,
        headers_only: bool = False,
        on_lost: OnLost = _ignore_loss,
    ) -> None:
        """`headers_only`: for a reader that needs no payload.

        `on_lost` may raise: then it is called again before anything is read.
        """
        self._client = client
        self._jetstream = jetstream
        self._stream = stream
        self._subjects = f"{subject_prefix}.>"
        self._subject_skip = len(subject_prefix) + 1
        self._mark = f"{subject_prefix}.{MARK}" if subject_prefix else None
        self._deliver = on_message
        self._headers_only = headers_only
        self._on_lost = on_lost
        # Set when `is_verified` or `reached` may have changed.
        self.moved = asyncio.Event()
        self._name = ""
        self._consumer_seq = 0
        self._sid: int | None = None
        self._received_at = 0.0
        self.subscribed = asyncio.Event()
        self._is_restarting = False
        self._loop = Loop(f"feed of {stream}", self._keep, interval_sec=HEARTBEAT_SEC, backoff=RESTART)
        self.stream_position = StreamPosition()
        # The connection on which the messages that were read were last verified.
        self._verified_on: int | None = None
        # No message up to here is still to come, as the leader has confirmed.
        self._confirmed = 0
        self.restarts = 0

    def start(self, after: StreamPosition | int = 0) -> None:
        """Call it once: a second start would reset the position and deliver messages twice."""
        assert not self._loop.is_running, "a feed is started once"
        self.stream_position = after if isinstance(after, StreamPosition) else StreamPosition(after)
        self._restart()
        self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop(STOP_WITHIN_SEC)
        await self._unlisten()

    def _restart(self) -> None:
        self._is_restarting = True
        self._loop.wake()

    @property
    def is_receiving(self) -> bool:
        """Whether messages arrive: the consumer exists and was not silent for too long."""
        return self.subscribed.is_set() and not self._is_silent

    @property
    def _is_silent(self) -> bool:
        """Also after this machine was suspended: messages published meanwhile are missing."""
        return elapsed() - self._received_at > SILENCE_MAX_SEC

    @property
    def is_verified(self) -> bool:
        """Whether everything that was read is in the stream, checked on the current connection."""
        return self._verified_on == self._client.connection_no

    @property
    def position(self) -> int:
        return self.stream_position.position

    def handle_reconnect(self) -> None:
        self._restart()

    def continue_after(self, seq: int) -> None:
        """Continue there with a new consumer. Messages of the present one are dropped."""
        self.stream_position, self._confirmed, self._consumer_seq = StreamPosition(seq), 0, -1
        self._restart()

    def rewind(self) -> None:
        """Read everything again."""
        self.continue_after(0)

    @property
    def reached(self) -> int:
        """Every message up to this sequence was delivered, or is gone from the stream."""
        return max(self.position, self._confirmed)

    def has_delivered(self, message: StoredMessage) -> bool:
        """Whether this message was delivered, and is not only another one with its sequence.

        False also if many others were delivered after it.
        """
        if is_mark(message.headers):  # is not delivered; what is before it was, if it was reached
            return self.reached >= message.seq
        return self.stream_position.has(message.seq, message.stored_at_ns)

    async def catch_up(self, seq: int, within_sec: float) -> bool:
        """Whether everything up to `seq` was delivered within this time, and is known to be in the stream."""
        deadline = elapsed() + within_sec
        while self.reached < seq or not self.is_verified:
            if elapsed() >= deadline:
                return False
            await self.next_move(seq)
        return True

    async def next_move(self, seq: int) -> None:
        """Wait for a message. If none comes, the messages up to `seq` may be gone: ask the leader."""
        self.moved.clear()
        if not await wait_for_event(self.moved, CONFIRM_AFTER_SEC):
            await self.confirm(seq)

    async def confirm(self, seq: int) -> None:
        """Ask the leader whether messages up to `seq` are left: they may be gone.

        The replica of the consumer may lag behind the leader, so what it has left to deliver proves nothing.
        """
        reached = self.reached
        following = await self._jetstream.next_at_leader(self._stream, self._subjects, reached)
        if self.reached != reached:
            return
        if following is None or following.seq > seq:
            self._confirmed = max(self._confirmed, seq)
            return
        try:
            await self._jetstream.consumer_info(self._stream, self._name)
        except BrokerRefused:
            self._restart()  # the consumer is lost: detected here before its heartbeats are missed

    async def _keep(self) -> None:
        """Subscribe again if a restart was requested, or heartbeats are missing."""
        if self._is_restarting or self._is_silent:
            self.subscribed.clear()
            self._is_restarting = False
            restarts = self.restarts
            try:
                await self._unlisten()
                await self._verify()
                await self._subscribe()
            finally:
                if self.restarts == restarts:  # not finished, perhaps because of a cancel: repeat it
                    self._is_restarting = True

    async def _verify(self) -> None:
        """Check the messages that were read. Nothing is delivered meanwhile: there is no consumer."""
        connection_no, stream_position = self._client.connection_no, self.stream_position
        info = await self._jetstream.stream_info(self._stream)
        stands = await stream_position.stands(self._jetstream, self._stream, self._subjects, info)
        if not stands and self._mark and await wait_for_majority(self._jetstream, self._stream, self._mark):
            info = await self._jetstream.stream_info(self._stream)
            stands = await stream_position.stands(self._jetstream, self._stream, self._subjects, info)
        created, last_seq = info.created, info.state.last_seq
        if not stands:
            if self.stream_position is not stream_position:
                raise BrokerAway  # another position was set meanwhile: verify that one
            fields = {"stream": self._stream, "position": stream_position.position, "last_seq": last_seq}
            log.warning("the broker has lost messages that were read; everything is read again", extra=fields)
            self._on_lost(created, last_seq)
            self.stream_position = StreamPosition()
        self._confirmed = 0  # a stream that has lost its end gives those sequences to other messages
        self.stream_position.created = created
        self._verified_on = connection_no
        self.moved.set()

    async def _subscribe(self) -> None:
        self._consumer_seq = 0
        self._received_at = elapsed()
        inbox = self._client.new_inbox()
        self._sid = sid = await self._client.listen(inbox, lambda *message: self._on_message(sid, *message))
        self._name = f"feed_{secrets.token_hex(6)}"
        await self._jetstream.create_consumer(self._stream, self._name, self._consumer(inbox))
        self.subscribed.set()
        self.restarts += 1

    def _consumer(self, inbox: str) -> ConsumerSettings:
        return {
            "name": self._name,
            "deliver_subject": inbox,
            "ack_policy": "none",
            "max_deliver": 1,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self.position + 1,
            "flow_control": True,
            "idle_heartbeat": int(HEARTBEAT_SEC * NANOSECONDS),
            "inactive_threshold": 30 * NANOSECONDS,
            "headers_only": self._headers_only,
            "mem_storage": True,
            "num_replicas": 1,
        }

    def _on_message(self, sid: int, subject: bytes, reply: bytes, headers: bytes, data: bytes) -> None:
        if sid != self._sid:
            return
        self._received_at = elapsed()
        if status_of(headers):
            self._on_control(reply, headers)
            return
        place = position_of(reply)
        if place.consumer_seq != self._consumer_seq + 1:
            self._restart()
            return
        self._consumer_seq += 1
        if place.stream_seq <= self.stream_position.position:
            return  # nothing is delivered twice
        if is_mark(headers):
            # The next mark replaces it, so it is no step of the position; but everything before it was read.
            self._confirmed = max(self._confirmed, place.stream_seq)
            self.moved.set()
            return
        is_deletion = any(header in headers for header in DELETIONS)
        step = Step(place.stream_seq, subject.decode(), place.stored_at.decode(), is_deletion)
        self.stream_position.advance(step)
        self._deliver(step.subject[self._subject_skip :], place.stream_seq, headers, data)
        self.moved.set()

    def _on_control(self, reply: bytes, headers: bytes) -> None:
        stalled = value_of(headers, b"Nats-Consumer-Stalled")
        answer_to = stalled or reply.decode()
        if answer_to:
            with contextlib.suppress(BrokerAway):
                self._client.send(answer_to, b"")
        last = value_of(headers, b"Nats-Last-Consumer")
        if last is not None and int(last) != self._consumer_seq:
            self._restart()

    async def _unlisten(self) -> None:
        sid, self._sid = self._sid, None
        if sid is not None:
            await self._client.unlisten(sid)
