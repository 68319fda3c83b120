"""Requests to the broker over one shared reply subscription, with futures keyed by a number.

A request that was sent ends in one of three ways: an answer, AnswerLost after its timeout, or AnswerLost at
once when the connection breaks. It is not sent again from here: only the caller can decide whether that is
safe.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from pyoco_server.jetstream.client import BrokerClient
from pyoco_server.jetstream.errors import AnswerLost, BrokerAway, BrokerRefused
from pyoco_server.jetstream.headers import status_of
from pyoco_server.supervision import contain

SWEEP_INTERVAL_SEC = 0.1
NO_RESPONDERS = 503
_NO_RESPONDERS = b"NATS/1.0 503"
# If a server has answered no request for this long, the client connects to another one, if there is one. The
# election of a leader takes up to 9 s, but not all requests are for one stream.
SILENT_SEC_MAX = 8.0


class Reply(NamedTuple):
    headers: bytes
    data: bytes

    @property
    def status(self) -> int:
        return status_of(self.headers)


def answer_of(subject: str, answers: list[Reply]) -> Reply:
    if answers[0].status == NO_RESPONDERS:
        raise BrokerRefused(f"nobody answers on {subject}", NO_RESPONDERS)
    return answers[0]


class _Waiting:
    """One request in flight. With `many`, answers are collected until a control message ends them."""

    __slots__ = ("answers", "deadline", "future", "many", "subject")

    def __init__(self, subject: str, deadline: float, loop: asyncio.AbstractEventLoop, *, many: bool) -> None:
        self.subject = subject
        self.deadline = deadline
        self.many = many
        self.answers: list[Reply] = []
        self.future: asyncio.Future[list[Reply]] = loop.create_future()

    def lose(self) -> None:
        if not self.future.done():
            self.future.set_exception(AnswerLost(self.subject))
            self.future.exception()  # retrieved here: the sender may be cancelled


class Requests:
    def __init__(self, client: BrokerClient, *, timeout_sec: float) -> None:
        self._client = client
        self._timeout_sec = timeout_sec
        self._waiting: dict[bytes, _Waiting] = {}
        self._next = 0
        self._prefix = ""
        self._sweeper: asyncio.TimerHandle | None = None
        # When the first request was sent since the last one that was answered.
        self._silent_since: float | None = None
        self._sid: int | None = None
        # Kept: up to Python 3.11 to ask for the running loop is a system call.
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_open(self) -> bool:
        return self._sid is not None

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._prefix = self._client.new_inbox() + "."
        self._sid = await self._client.listen(self._prefix + "*", self._on_reply)

    async def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        self.fail_all()
        if self._sid is not None:
            await self._client.unlisten(self._sid)

    async def ask(self, subject: str, payload: bytes = b"", headers: bytes = b"") -> Reply:
        return answer_of(subject, await self.send(subject, payload, headers))

    def send(self, subject: str, payload: bytes, headers: bytes = b"") -> asyncio.Future[list[Reply]]:
        """Sent now, answered later; pass the result of the future to `answer_of`. For concurrent requests."""
        return self._send(subject, payload, headers, many=False)

    async def ask_for_many(self, subject: str, payload: bytes) -> list[Reply]:
        """All answers up to the control message that ends them (which is the last of the list)."""
        return await self._send(subject, payload, b"", many=True)

    def fail_all(self) -> None:
        """The connection broke: requests in flight may have had their effect, and no answer will come."""
        waiting, self._waiting = self._waiting, {}
        for request in waiting.values():
            request.lose()

    def _send(
        self, subject: str, payload: bytes, headers: bytes, *, many: bool
    ) -> asyncio.Future[list[Reply]]:
        if not self._client.is_connected:
            raise BrokerAway
        self._next += 1
        token = str(self._next).encode()
        loop = self._loop or asyncio.get_running_loop()
        now = loop.time()
        request = _Waiting(subject, now + self._timeout_sec, loop, many=many)
        self._client.send(subject, payload, reply=self._prefix + token.decode(), headers=headers)
        self._waiting[token] = request
        if self._silent_since is None:
            self._silent_since = now
        if self._sweeper is None:
            self._sweeper = loop.call_later(SWEEP_INTERVAL_SEC, self._sweep)
        return request.future

    def _on_reply(self, subject: bytes, _reply: bytes, headers: bytes, data: bytes) -> None:
        token = subject[len(self._prefix) :]
        request = self._waiting.get(token)
        if request is None:
            return
        answer = Reply(headers, data)
        if headers.startswith(_NO_RESPONDERS):
            self._notice_silence(asyncio.get_running_loop().time())
        else:
            self._silent_since = None
        request.answers.append(answer)
        if request.many and not answer.status:
            return
        del self._waiting[token]
        if not request.future.done():
            request.future.set_result(request.answers)

    def _sweep(self) -> None:
        """One timer for all requests. All have the same timeout, so the first ones are the oldest."""
        with contain("timeouts of requests"):  # without the next step no request would ever time out
            self._lose_late()
        again = bool(self._waiting)
        self._sweeper = (
            asyncio.get_running_loop().call_later(SWEEP_INTERVAL_SEC, self._sweep) if again else None
        )

    def _lose_late(self) -> None:
        now = asyncio.get_running_loop().time()
        late = []
        for token, request in self._waiting.items():
            if request.deadline > now and not request.future.done():
                break
            late.append((token, request))
        for token, request in late:
            del self._waiting[token]
            request.lose()
        if late:
            self._notice_silence(now)

    def _notice_silence(self, now: float) -> None:
        """A server that is cut off from the rest of its cluster answers pings, but no request."""
        if self._silent_since is not None and now - self._silent_since >= SILENT_SEC_MAX:
            self._silent_since = None
            self._client.leave_server()
