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

from pyoco_server.errors import Invalid, TooLarge
from pyoco_server.store.errors import BrokerAway
from pyoco_server.store.parser import MessageParser

log = logging.getLogger(__name__)

# subject, reply, header block (empty if none), payload
RawHandler = Callable[[bytes, bytes, bytes, bytes], None]


class BrokerClient(Client):
    def __init__(self) -> None:
        super().__init__()
        self._ps = MessageParser(self, self._handed_over)
        self._handlers: dict[int, RawHandler] = {}
        self._flush_is_due = False
        self._is_leaving = False

    @property
    def was_ever_connecting(self) -> bool:
        """nats-py cannot close what was never opened."""
        return self._flush_queue is not None

    async def listen(self, subject: str, handler: RawHandler) -> int:
        """Subscribe; returns the id that `unlisten` takes. nats-py renews it after a reconnect.

        It is entered where nats-py keeps its own, without the task and the queue that those have, and told
        to the broker with whatever else leaves in this step.
        """
        if self.is_closed:
            raise BrokerAway
        self._sid += 1
        sid: int = self._sid
        self._subs[sid] = Subscription(self, sid, subject)
        self._handlers[sid] = handler
        if self.is_connected:  # else the reconnect tells it
            self._leave_in_this_step(f"SUB {subject} {sid}\r\n".encode())
        return sid

    async def unlisten(self, sid: int) -> None:
        self._handlers.pop(sid, None)
        if self._subs.pop(sid, None) is not None and self.is_connected:
            self._leave_in_this_step(f"UNSUB {sid}\r\n".encode())

    async def hear_out(self, sid: int) -> None:
        """Unsubscribe; what the broker sent before it knew of that still reaches the function."""
        if self._subs.pop(sid, None) is not None and self.is_connected:
            self._leave_in_this_step(f"UNSUB {sid}\r\n".encode())
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
        self._leave_in_this_step(b"".join((command, headers, payload, b"\r\n")))

    async def flush(self, timeout: int = 10) -> None:
        """Everything sent before this has reached the broker. (nats-py's ping would overtake what waits.)"""
        self._write_out()
        await super().flush(timeout)

    async def close(self) -> None:
        self._is_leaving = True
        await super().close()

    def drop_unsent(self) -> None:
        """At a disconnect: an acknowledgement or a commit of then must not be sent by a later connection."""
        self._pending, self._pending_data_size = [], 0

    async def _connect_to_server(self, server: Any) -> None:
        """Before Python 3.12 a cancel in the middle of connecting may be swallowed: the loop that reconnects
        would then go on for ever, and with it whoever waits for it at the end of the process."""
        if self._is_leaving:
            raise asyncio.CancelledError
        await super()._connect_to_server(server)

    def _check(self, subject: str, size: int) -> None:
        """The broker answers either of these by ending the connection, and everybody's requests with it."""
        if not subject or " " in subject or not subject.isprintable():
            raise Invalid("A name that becomes part of a subject has no blanks or line breaks.")
        if size > self.max_payload:
            raise TooLarge(f"A message of {size} bytes is more than the broker takes ({self.max_payload}).")

    def _leave_in_this_step(self, command: bytes) -> None:
        self._pending.append(command)
        self._pending_data_size += len(command)
        if not self._flush_is_due:
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self._write_out)

    def _write_out(self) -> None:
        self._flush_is_due = False
        if self._pending and self.is_connected and self._transport:
            pending, self._pending, self._pending_data_size = self._pending, [], 0
            self._transport.writelines(pending)

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        """What nats-py's own parser has read: a message that came in pieces."""
        if not self._handed_over(sid, bytes(subject), bytes(reply), headers or b"", data):
            await super()._process_msg(sid, subject, reply, data, headers)

    def _handed_over(self, sid: int, subject: bytes, reply: bytes, headers: bytes, data: bytes) -> bool:
        handler = self._handlers.get(sid)
        if handler is None:
            return False
        try:
            handler(subject, reply, headers, data)
        except Exception:  # nats-py would stop reading for good, and nobody would notice
            log.exception("a message was not handled", extra={"subject": subject.decode()})
        return True
