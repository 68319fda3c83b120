"""nats-py's connection with a short cut: subscriptions whose messages go straight to a function.

The ordinary way costs a queue, a task and a header dictionary per message and a flush future per publish.
Here a message is handed over as bytes in the loop's own step, and everything sent in one step leaves in
one write. Reconnecting, resubscribing, authentication and parsing stay nats-py's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from nats.errors import StaleConnectionError

from pyoco_server.errors import Invalid, TooLarge
from pyoco_server.jetstream.errors import BrokerAway
from pyoco_server.jetstream.parser import MessageParser
from pyoco_server.jetstream.transport import Transport
from pyoco_server.supervision import contain, start_task

log = logging.getLogger(__name__)

# A ping is sent this often. A connection is given up after so many in a row without a byte from the broker:
# sooner where there is another server to go to, for a single one is not replaced by hanging up on it.
PING_INTERVAL_SEC = 1.0
SILENT_PINGS_MAX = 5
SILENT_PINGS_MAX_OF_ONLY_SERVER = 10
# Also where other bytes arrive: what we send may be lost on its way.
UNANSWERED_PINGS_MAX = 15
RECONNECT_AGAIN_SEC = 0.5
CLOSE_WITHIN_SEC = 4.0

# subject, reply, header block (empty if none), payload
RawHandler = Callable[[bytes, bytes, bytes, bytes], None]


class BrokerClient(Client):
    def __init__(self) -> None:
        super().__init__()
        self._parser = MessageParser(self, self._hand_over)
        self._ps = self._parser
        self._handlers: dict[int, RawHandler] = {}
        self._flush_is_due = False
        self._is_leaving = False
        self._silent_pings = 0
        self._leaving: asyncio.Task[None] | None = None

    @property
    def was_ever_connecting(self) -> bool:
        """nats-py cannot close what was never opened."""
        return self._flush_queue is not None

    @property
    def connection_no(self) -> int:
        """Another one after each reconnect: what was found out before may be of another broker."""
        return int(self.stats["reconnects"])

    async def listen(self, subject: str, handler: RawHandler) -> int:
        """Subscribe; returns the id that `unlisten` takes. nats-py renews it after a reconnect.

        It is entered where nats-py keeps its own, without the task and the queue that those have, and told
        to the broker together with everything else that is sent in this step.
        """
        if self.is_closed:
            raise BrokerAway
        self._sid += 1
        sid: int = self._sid
        self._subs[sid] = Subscription(self, sid, subject)
        self._handlers[sid] = handler
        if self.is_connected:  # else the reconnect tells it
            self._send_soon(f"SUB {subject} {sid}\r\n".encode())
        return sid

    async def unlisten(self, sid: int) -> None:
        """Does not fail: a connection that is lost has lost the subscription too."""
        self._handlers.pop(sid, None)
        if self._subs.pop(sid, None) is not None and self.is_connected:
            self._send_soon(f"UNSUB {sid}\r\n".encode())

    async def unlisten_gracefully(self, sid: int) -> None:
        """Unsubscribe; what the broker sent before it knew of that still reaches the function."""
        if self._subs.pop(sid, None) is not None and self.is_connected:
            self._send_soon(f"UNSUB {sid}\r\n".encode())
            with contextlib.suppress(NatsError, asyncio.TimeoutError, OSError):
                await self.flush()  # a connection that is lost here has nothing more to bring
        self._handlers.pop(sid, None)

    def send(self, subject: str, payload: bytes, *, reply: str = "", headers: bytes = b"") -> None:
        """Publish without waiting. Refused while disconnected, so that nothing old is sent at a reconnect."""
        if not self.is_connected:
            raise BrokerAway
        self._check(subject, len(headers) + len(payload))
        if headers:
            size = len(headers)
            command = f"HPUB {subject} {reply} {size} {size + len(payload)}\r\n".encode()
        else:
            command = f"PUB {subject} {reply} {len(payload)}\r\n".encode()
        self._send_soon(b"".join((command, headers, payload, b"\r\n")))

    async def flush(self, timeout: int = 10) -> None:
        """Everything sent before this has reached the broker. (nats-py's ping would overtake what waits.)"""
        self._write_pending()
        await super().flush(timeout)

    async def close(self) -> None:
        """In order, if the broker takes what is left to be sent; a frozen one is not waited for."""
        self._is_leaving = True
        try:
            async with asyncio.timeout(CLOSE_WITHIN_SEC):
                await super().close()
        except TimeoutError:
            self._abort()

    def leave_server(self) -> None:
        """Connect to another one, if another is known: this one is there and of no use."""
        if self.is_connected and len(self._server_pool) > 1:
            log.warning("the broker answers no request; another server is tried")
            self._leaving = start_task(self._process_op_err(StaleConnectionError()), "leaving a server")

    def drop_unsent(self) -> None:
        """At a disconnect: an acknowledgement or a commit of then must not be sent by a later connection."""
        self._pending, self._pending_data_size = [], 0

    async def _ping_interval(self) -> None:
        """Is the broker there? Counted in pings, not in seconds: while this process does not get to run, the
        broker is not waited for. Any byte is a sign of life, so that a long queue in front of a pong is none
        of its absence. The task is nats-py's, which ends it when the connection ends."""
        self._silent_pings, is_given_up = 0, False
        while not is_given_up:
            await asyncio.sleep(PING_INTERVAL_SEC)
            with contain("pings of the broker"):  # without them a connection that is dead would be kept
                is_given_up = self.is_connected and await self._ping_or_give_up()

    async def _ping_or_give_up(self) -> bool:
        self._silent_pings = 0 if self._parser.has_received else self._silent_pings + 1
        self._parser.has_received = False
        self._pings_outstanding += 1
        if self._silent_pings >= self._silent_max or self._pings_outstanding > UNANSWERED_PINGS_MAX:
            await self._process_op_err(StaleConnectionError())
            return True
        with contextlib.suppress(OSError):  # the connection is broken, which its reader notices
            await self._send_ping()
        return False

    @property
    def _silent_max(self) -> int:
        return SILENT_PINGS_MAX if len(self._server_pool) > 1 else SILENT_PINGS_MAX_OF_ONLY_SERVER

    async def _attempt_reconnect(self) -> None:
        """The old connection is not closed in order: a frozen broker would be waited for. And whatever goes
        wrong, it is tried again: nothing else would ever connect this process."""
        self._abort()
        while True:
            with contain("reconnecting", "reconnecting has failed"):
                await super()._attempt_reconnect()
                return
            self._status = Client.RECONNECTING
            await asyncio.sleep(RECONNECT_AGAIN_SEC)

    def _abort(self) -> None:
        if isinstance(self._transport, Transport):
            self._transport.abort()

    async def _connect_to_server(self, server: Any) -> None:
        """Before Python 3.12 a cancel in the middle of connecting may be swallowed: the loop that reconnects
        would then go on for ever, and the end of the process waits for it."""
        if self._is_leaving:
            raise asyncio.CancelledError
        if self._transport is None and server.uri.scheme not in ("ws", "wss"):
            self._transport = Transport()
        await super()._connect_to_server(server)

    def _check(self, subject: str, size: int) -> None:
        """The broker answers either of these by ending the connection, and everybody's requests with it."""
        if not subject or " " in subject or not subject.isprintable():
            raise Invalid("A name that becomes part of a subject has no blanks or line breaks.")
        if size > self.max_payload:
            raise TooLarge(f"A message of {size} bytes is more than the broker takes ({self.max_payload}).")

    def _send_soon(self, command: bytes) -> None:
        self._pending.append(command)
        self._pending_data_size += len(command)
        if not self._flush_is_due:
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self._write_pending)

    def _write_pending(self) -> None:
        self._flush_is_due = False
        if self._pending and self.is_connected and self._transport:
            pending, self._pending, self._pending_data_size = self._pending, [], 0
            with contextlib.suppress(OSError):  # it broke: its reader notices that, and requests fail then
                self._transport.writelines(pending)

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        """What nats-py's own parser has read: a message that came in pieces."""
        if not self._hand_over(sid, bytes(subject), bytes(reply), headers or b"", data):
            await super()._process_msg(sid, subject, reply, data, headers)

    def _hand_over(self, sid: int, subject: bytes, reply: bytes, headers: bytes, data: bytes) -> bool:
        handler = self._handlers.get(sid)
        if handler is None:
            return False
        try:
            handler(subject, reply, headers, data)
        except Exception:  # otherwise nats-py stops reading for good, without an error
            log.exception("a message was not handled", extra={"subject": subject.decode()})
        return True
