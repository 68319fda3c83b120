"""Parse messages without a regular expression for each; the parser of nats-py does the rest.

Complete messages are passed on at once. A part of a message is kept until the rest arrives. Any other line of
the protocol (INFO, PING, an error) goes to the base class.

`take` is called with what was received, before the task that reads the connection is woken. Nearly always it
leaves nothing to that task.
"""

from __future__ import annotations

from collections.abc import Callable

from nats.protocol.parser import AWAITING_CONTROL_LINE, MAX_CONTROL_LINE_SIZE, Parser

_CRLF = b"\r\n"


# Subscription, subject, reply, headers, payload. Returns whether the subscription has a function.
HandOver = Callable[[int, bytes, bytes, bytes, bytes], bool]


class MessageParser(Parser):
    def __init__(self, client: object, hand_over: HandOver = lambda *_: False) -> None:
        super().__init__(client)
        self._hand_over = hand_over
        # Whether anything was received since this was last set to False.
        self.has_received = False
        self._is_parsing = False

    def take(self, data: bytes) -> bytes:
        """Passes complete messages on and keeps a part of one. Returns the rest, which `parse` has to read.

        Returns everything while `parse` is in the middle of something.
        """
        self.has_received = True
        if self._is_parsing or self.state != AWAITING_CONTROL_LINE:
            return data
        if self.buf:
            data = bytes(self.buf) + data
            self.buf.clear()
        place = 0
        while place < len(data):
            try:
                message = _message_at(data, place)
            except (ValueError, IndexError):
                return data[place:]  # `parse` ends the connection
            if message is None:
                break
            sid, subject, reply, headers, payload, after = message
            if not self._hand_over(sid, subject, reply, headers or b"", payload):
                return data[place:]
            place = after
        rest = data[place:]
        if _may_be_message(rest):
            self.buf.extend(rest)
            return b""
        return rest

    async def parse(self, data: bytes = b"") -> None:
        self._is_parsing = True
        try:
            await self._parse(data)
        finally:
            self._is_parsing = False

    async def _parse(self, data: bytes) -> None:
        self.has_received = True
        if self.state != AWAITING_CONTROL_LINE:
            await super().parse(data)
            return
        if self.buf:
            data = bytes(self.buf) + data
            self.buf.clear()
        place = 0
        while place < len(data):
            message = _message_at(data, place)
            if message is None:
                break
            sid, subject, reply, headers, payload, place = message
            if not self._hand_over(sid, subject, reply, headers or b"", payload):
                await self.nc._process_msg(sid, subject, reply, payload, headers)
        await self._leave(data[place:])

    async def _leave(self, rest: bytes) -> None:
        if _may_be_message(rest):
            self.buf.extend(rest)
        elif rest:
            await super().parse(rest)


def _may_be_message(rest: bytes) -> bool:
    """Whether this is the beginning of a message."""
    begins = rest.startswith((b"MSG ", b"HMSG ")) or b"MSG ".startswith(rest) or b"HMSG ".startswith(rest)
    return bool(rest) and begins and (_CRLF in rest or len(rest) < MAX_CONTROL_LINE_SIZE)


def _message_at(data: bytes, place: int) -> tuple[int, bytes, bytes, bytes | None, bytes, int] | None:
    """`MSG subject sid [reply] size`, or `HMSG` with the size of the headers before it; None: incomplete."""
    if data.startswith(b"MSG ", place):
        has_headers = False
    elif data.startswith(b"HMSG ", place):
        has_headers = True
    else:
        return None
    line_end = data.find(_CRLF, place)
    if line_end < 0:
        return None
    words = data[place:line_end].split()
    start = line_end + 2
    end = start + int(words[-1])
    if end + 2 > len(data):
        return None
    subject, sid = words[1], int(words[2])
    if not has_headers:
        reply = words[3] if len(words) == 5 else b""
        return sid, subject, reply, None, data[start:end], end + 2
    reply = words[3] if len(words) == 6 else b""
    payload_at = start + int(words[-2])
    return sid, subject, reply, data[start:payload_at], data[payload_at:end], end + 2
