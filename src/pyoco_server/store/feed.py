"""Every message of a stream, in order, pushed from the broker to one gateway: an ordered consumer.

It is ours and not nats-py's, because a gateway lives through broker restarts: a gap in the consumer's own
numbering, missing heartbeats or a reconnect make it start a new consumer after the last sequence it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable

from pyoco_server.errors import Unavailable
from pyoco_server.store.acks import place_of
from pyoco_server.store.client import BrokerClient
from pyoco_server.store.errors import BrokerAway, BrokerRefused
from pyoco_server.store.headers import status_of, value_of
from pyoco_server.store.jetstream import JetStream
from pyoco_server.store.resources import NANOSECONDS

log = logging.getLogger(__name__)

HEARTBEAT_SEC = 1.0
SILENCE_MAX_SEC = 3.5
RESTART_PAUSE_SEC = 0.5

# the subject below the prefix (of the log: a run id), stream sequence, header block, payload
OnMessage = Callable[[str, int, bytes, bytes], None]


class Feed:
    def __init__(
        self,
        client: BrokerClient,
        jetstream: JetStream,
        stream: str,
        subject_prefix: str,
        on_message: OnMessage,
        *,
        headers_only: bool = False,
    ) -> None:
        """`headers_only`: for whoever only wants to know that something was written."""
        self._client = client
        self._jetstream = jetstream
        self._stream = stream
        self._subject_skip = len(subject_prefix) + 1
        self._hand_on = on_message
        self._headers_only = headers_only
        self._name = ""
        self._consumer_seq = 0
        self._sid: int | None = None
        self._heard_at = 0.0
        self._begun = False
        self._stopping = False
        self._restart = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self.position = 0
        self.restarts = 0

    def start(self, after: int) -> None:
        self.position = after
        self._restart.set()
        self._keeper = asyncio.get_running_loop().create_task(self._keep())

    async def stop(self) -> None:
        self._stopping = True
        self._restart.set()
        if self._keeper is not None:
            await asyncio.wait([self._keeper], timeout=2.0)
        await self._unlisten()

    @property
    def is_heard(self) -> bool:
        """Whether the broker tells us news: a consumer of ours is there, and was not silent for too long."""
        return self._begun

    def reconnected(self) -> None:
        self._restart.set()

    def rewind(self) -> None:
        """Read everything again. What the present consumer still delivers is a gap then, and left out."""
        self.position, self._consumer_seq = 0, -1
        self._restart.set()

    async def confirm(self, seq: int) -> None:
        """Move on to `seq` if the broker has nothing left for us: the messages up to it are gone."""
        consumed = self._consumer_seq
        try:
            info = await self._jetstream.api(f"CONSUMER.INFO.{self._stream}.{self._name}")
        except BrokerRefused:
            self._restart.set()  # our consumer is lost: sooner noticed here than by its silence
            return
        delivered = int(info["delivered"]["consumer_seq"])
        if info["num_pending"] == 0 and delivered == consumed == self._consumer_seq:
            self.position = max(self.position, seq)

    async def _keep(self) -> None:
        """Waits for a reason to begin anew; silence beyond the heartbeats is one."""
        loop = asyncio.get_running_loop()
        while not self._stopping:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_SEC):
                    await self._restart.wait()
            silent = loop.time() - self._heard_at > SILENCE_MAX_SEC
            if not self._stopping and (self._restart.is_set() or silent):
                await self._begin()

    async def _begin(self) -> None:
        self._begun = False
        self._restart.clear()
        try:
            await self._unlisten()
            await self._subscribe()
        except Unavailable as error:
            log.debug("feed cannot start yet", extra={"error": str(error)})
            self._heard_at = asyncio.get_running_loop().time() - SILENCE_MAX_SEC + RESTART_PAUSE_SEC

    async def _subscribe(self) -> None:
        self._consumer_seq = 0
        self._heard_at = asyncio.get_running_loop().time()
        inbox = self._client.new_inbox()
        self._sid = sid = await self._client.listen(inbox, lambda *message: self._on_message(sid, *message))
        self._name = f"feed_{secrets.token_hex(6)}"
        await self._jetstream.api(
            f"CONSUMER.CREATE.{self._stream}.{self._name}",
            {"stream_name": self._stream, "config": self._consumer(inbox), "action": "create"},
        )
        self._begun = True
        self.restarts += 1

    def _consumer(self, inbox: str) -> dict[str, object]:
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
        self._heard_at = asyncio.get_running_loop().time()
        if status_of(headers):
            self._on_control(reply, headers)
            return
        place = place_of(reply)
        if place.consumer_seq != self._consumer_seq + 1:
            self._restart.set()
            return
        self._consumer_seq += 1
        self.position = place.stream_seq
        self._hand_on(subject[self._subject_skip :].decode(), place.stream_seq, headers, data)

    def _on_control(self, reply: bytes, headers: bytes) -> None:
        stalled = value_of(headers, b"Nats-Consumer-Stalled")
        answer_to = stalled or reply.decode()
        if answer_to:
            with contextlib.suppress(BrokerAway):
                self._client.send(answer_to, b"")
        last = value_of(headers, b"Nats-Last-Consumer")
        if last is not None and int(last) != self._consumer_seq:
            self._restart.set()

    async def _unlisten(self) -> None:
        sid, self._sid = self._sid, None
        if sid is not None:
            with contextlib.suppress(Exception):  # a closed connection has forgotten it already
                await self._client.unlisten(sid)
