"""The connection of nats-py with a faster path: subscriptions whose messages go directly to a function.

nats-py uses a queue, a task and a header dictionary per message and a flush future per publish. Here a
message is passed on as bytes when it is read, and everything that is sent in one step of the event loop
leaves in one write. nats-py still reconnects, resubscribes, authenticates and parses.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from nats.aio.client import Client, Srv
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from nats.errors import StaleConnectionError

from pyoco_server.errors import Invalid, TooLarge
from pyoco_server.jetstream.errors import BrokerAway
from pyoco_server.jetstream.parser import MessageParser
from pyoco_server.jetstream.transport import Transport
from pyoco_server.supervision import contain, start_task

log = logging.getLogger(__name__)

# A ping is sent this often. A connection is given up after this many pings in a row without a byte from the
# broker: sooner if there is another server to connect to.
PING_INTERVAL_SEC = 1.0
SILENT_PINGS_MAX = 5
SILENT_PINGS_MAX_OF_ONLY_SERVER = 10
# Before that, after this many, the broker is reported as silent. The connection is kept.
REPORTED_SILENT_PINGS = 3
# Also if other bytes arrive: the direction to the broker may be broken.
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
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._is_leaving = False
        self._silent_pings = 0
        self._is_reported_silent = False
        # Called when `is_silent` has changed.
        self.handle_silence: Callable[[], None] = _ignore_silence
        self._leaving: asyncio.Task[None] | None = None

    @property
    def was_ever_connecting(self) -> bool:
        """nats-py cannot close a connection that was never opened."""
        return self._flush_queue is not None

    @property
    def connection_no(self) -> int:
        """Changes with each reconnect: earlier observations may be of another broker."""
        return int(self.stats["reconnects"])

    @property
    def is_silent(self) -> bool:
        """Connected, but without a byte from the broker for some seconds: it may be frozen or cut off."""
        return self._is_reported_silent and bool(self.is_connected)

    async def listen(self, subject: str, handler: RawHandler) -> int:
        """Subscribe; returns the id that `unlisten` takes. nats-py renews it after a reconnect.

        It is registered with nats-py, but without a task and a queue. The broker gets it together with
        everything else that is sent in this step of the event loop.
        """
        if self.is_closed:
            raise BrokerAway
        self._sid += 1
        sid: int = self._sid
        self._subs[sid] = Subscription(self, sid, subject)
        self._handlers[sid] = handler
        if self.is_connected:  # else nats-py sends it after the reconnect
            self._send_soon(f"SUB {subject} {sid}\r\n".encode())
        return sid

    async def unlisten(self, sid: int) -> None:
        """Never fails: a lost connection has lost the subscription too."""
        self._handlers.pop(sid, None)
        if self._subs.pop(sid, None) is not None and self.is_connected:
            self._send_soon(f"UNSUB {sid}\r\n".encode())

    async def unlisten_gracefully(self, sid: int) -> None:
        """Unsubscribe. Messages that the broker sent before that still reach the function."""
        if self._subs.pop(sid, None) is not None and self.is_connected:
            self._send_soon(f"UNSUB {sid}\r\n".encode())
            with contextlib.suppress(NatsError, asyncio.TimeoutError, OSError):
                await self.flush()  # after a lost connection no message can come
        self._handlers.pop(sid, None)

    def send(self, subject: str, payload: bytes, *, reply: str = "", headers: bytes = b"") -> None:
        """Publish without waiting. Raises BrokerAway if disconnected: a reconnect sends nothing old."""
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
        """Wait until everything sent before has reached the broker. Pending writes must precede the ping."""
        self._write_pending()
        await super().flush(timeout)

    async def close(self) -> None:
        """Send what is pending, then close. A broker that does not respond is not waited for."""
        self._is_leaving = True
        try:
            async with asyncio.timeout(CLOSE_WITHIN_SEC):
                await super().close()
        except TimeoutError:
            self._abort()

    def leave_server(self) -> None:
        """Connect to another server, if there is one: this one answers no request."""
        if self.is_connected and len(self._server_pool) > 1:
            log.warning("the broker answers no request; another server is tried")
            self._leaving = start_task(self._process_op_err(StaleConnectionError()), "leaving a server")

    def drop_unsent(self) -> None:
        """After a disconnect: an old acknowledgement or commit must not be sent by a later connection."""
        self._pending, self._pending_data_size = [], 0

    async def _ping_interval(self) -> None:
        """Detect a dead connection. Pings are counted, not seconds: time in which this process did not run is
        not the broker's. Any byte shows that the broker is alive, because a pong may stand behind a long
        queue. nats-py owns the task and ends it with the connection."""
        self._silent_pings, is_given_up = 0, False
        self._report_silence()
        while not is_given_up:
            await asyncio.sleep(PING_INTERVAL_SEC)
            with contain("pings of the broker"):  # without pings a dead connection would be kept
                is_given_up = self.is_connected and await self._ping_or_give_up()

    async def _ping_or_give_up(self) -> bool:
        self._silent_pings = 0 if self._parser.has_received else self._silent_pings + 1
        self._parser.has_received = False
        self._report_silence()
        self._pings_outstanding += 1
        if self._silent_pings >= self._silent_max or self._pings_outstanding > UNANSWERED_PINGS_MAX:
            await self._process_op_err(StaleConnectionError())
            return True
        with contextlib.suppress(OSError):  # the reader of the connection handles the loss
            await self._send_ping()
        return False

    def _report_silence(self) -> None:
        is_silent = self._silent_pings >= REPORTED_SILENT_PINGS
        if is_silent != self._is_reported_silent:
            self._is_reported_silent = is_silent
            self.handle_silence()

    @property
    def _silent_max(self) -> int:
        return SILENT_PINGS_MAX if len(self._server_pool) > 1 else SILENT_PINGS_MAX_OF_ONLY_SERVER

    async def _attempt_reconnect(self) -> None:
        """Abort the old connection: an orderly close would wait for a broker that does not respond. Retry
        after any error, because nats-py ends its task after one that it does not expect."""
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

    async def _connect_to_server(self, server: Srv) -> None:
        """Before Python 3.12 a cancel during a connect may be lost. The reconnect loop would then never end,
        and the process waits for it when it exits."""
        if self._is_leaving:
            raise asyncio.CancelledError
        if self._transport is None and server.uri.scheme not in ("ws", "wss"):
            self._transport = Transport()
        await super()._connect_to_server(server)

    async def _process_connect_init(self) -> None:
        """From now on messages are handled when they are received. The task that nats-py has started here
        reads the rest."""
        await super()._process_connect_init()
        if isinstance(self._transport, Transport):
            self._transport.deliver_to(self._take)

    def _take(self, data: bytes) -> bytes:
        """After a lost connection the rest of what it has sent is not handled."""
        return self._parser.take(data) if self.is_connected else data

    def _check(self, subject: str, size: int) -> None:
        """The broker closes the connection after either of these, and all requests in flight fail."""
        if not subject or " " in subject or not subject.isprintable():
            raise Invalid("A name that becomes part of a subject has no blanks or line breaks.")
        if size > self.max_payload:
            raise TooLarge(f"A message of {size} bytes is more than the broker takes ({self.max_payload}).")

    def _send_soon(self, command: bytes) -> None:
        self._pending.append(command)
        self._pending_data_size += len(command)
        if not self._flush_is_due:
            self._flush_is_due = True
            if self._own_loop is None:
                self._own_loop = asyncio.get_running_loop()
            self._own_loop.call_soon(self._write_pending)

    def _write_pending(self) -> None:
        self._flush_is_due = False
        if self._pending and self.is_connected and self._transport:
            pending, self._pending, self._pending_data_size = self._pending, [], 0
            with contextlib.suppress(OSError):  # its reader handles the loss, and requests fail then
                self._transport.writelines(pending)

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        """A message that the parser of nats-py has read because it came in pieces."""
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


def _ignore_silence() -> None:
    return
