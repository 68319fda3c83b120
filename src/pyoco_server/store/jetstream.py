"""JetStream's requests, as few as we need: publish at an expected sequence, read the last, read on, inform.

Reads come in two kinds. `last`, `after`, `since` and `page` may be served by any replica and may lag;
`last_at_leader`, `next_at_leader` and `after_at_leader` ask the leader and are for decisions.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Generator
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from pyoco_server.store.errors import BrokerRefused, WrongSequence
from pyoco_server.store.headers import number_of, value_of
from pyoco_server.store.requests import Reply, answer_of

WRONG_LAST_SEQUENCE = 10071
# The same from a cluster, when a message before ours is still on its way to the replicas.
WRONG_LAST_SEQUENCE_UNDER_WAY = 10164
NO_MESSAGE = 10037
STREAM_NOT_FOUND = 10059
BATCH_MAX = 256


class StoredMessage(NamedTuple):
    subject: str
    seq: int
    headers: bytes
    data: bytes
    time: str | None = None  # as the leader tells it; others put it into the headers

    def header(self, name: bytes) -> str | None:
        return value_of(self.headers, name)

    @property
    def stored_at(self) -> float | None:
        """When the broker stored it, by its clock."""
        stamp = self.time or self.header(b"Nats-Time-Stamp")
        return None if stamp is None else _instant(stamp)


class ApiError(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class PubAck(msgspec.Struct):
    seq: int = 0
    duplicate: bool = False
    error: ApiError | None = None


class _Message(msgspec.Struct):
    subject: str
    seq: int
    hdrs: str = ""
    data: str = ""
    time: str | None = None


class _MessageAnswer(msgspec.Struct):
    message: _Message | None = None
    error: ApiError | None = None


_decode_ack = msgspec.json.Decoder(PubAck).decode
_decode_message = msgspec.json.Decoder(_MessageAnswer).decode


class Asks(Protocol):
    async def ask(self, subject: str, payload: bytes = b"", headers: bytes = b"") -> Reply: ...

    async def ask_for_many(self, subject: str, payload: bytes) -> list[Reply]: ...

    def send(self, subject: str, payload: bytes, headers: bytes = b"") -> Awaitable[list[Reply]]: ...


class JetStream:
    def __init__(self, requests: Asks) -> None:
        self._requests = requests

    async def publish(self, subject: str, payload: bytes, headers: bytes = b"") -> PubAck:
        return acknowledged(await self._requests.ask(subject, payload, headers))

    def publish_soon(self, subject: str, payload: bytes, headers: bytes) -> Awaitable[PubAck]:
        """Sent now, acknowledged when awaited. For two publishes side by side without a task for each."""
        return _Publishing(subject, self._requests.send(subject, payload, headers))

    async def last(self, stream: str, subject: str) -> StoredMessage | None:
        return _direct(await self._requests.ask(f"$JS.API.DIRECT.GET.{stream}.{subject}"))

    async def first(self, stream: str, subject: str) -> StoredMessage | None:
        ask = msgspec.json.encode({"next_by_subj": subject, "seq": 1})
        return _direct(await self._requests.ask(f"$JS.API.DIRECT.GET.{stream}", ask))

    async def after(self, stream: str, subject: str, seq: int) -> list[StoredMessage]:
        """Messages of the subject with a sequence above `seq`, oldest first, all of them."""
        found: list[StoredMessage] = []
        while True:
            page = await self.page(stream, subject, seq, BATCH_MAX)
            found += page
            if len(page) < BATCH_MAX:
                return found
            seq = page[-1].seq

    async def since(self, stream: str, subject: str, at: float) -> list[StoredMessage]:
        """Messages of the subject stored at or after this instant of the broker's clock, oldest first."""
        begin = {"start_time": datetime.fromtimestamp(at, UTC).isoformat()}
        first = await self._batch(stream, {"next_by_subj": subject, "batch": BATCH_MAX} | begin)
        if len(first) < BATCH_MAX:
            return first
        return first + await self.after(stream, subject, first[-1].seq)

    async def page(self, stream: str, subject: str, seq: int, count: int) -> list[StoredMessage]:
        """The next `count` of them: fewer means that there are no more."""
        return await self._batch(stream, {"next_by_subj": subject, "seq": max(seq + 1, 1), "batch": count})

    async def _batch(self, stream: str, ask: dict[str, Any]) -> list[StoredMessage]:
        where = f"$JS.API.DIRECT.GET.{stream}"
        replies = await self._requests.ask_for_many(where, msgspec.json.encode(ask))
        answer_of(where, replies)
        return [message for message in map(_direct, replies) if message is not None]

    async def next_at_leader(self, stream: str, subject: str, seq: int) -> StoredMessage | None:
        return await self._at_leader(stream, {"next_by_subj": subject, "seq": max(seq + 1, 1)})

    async def last_at_leader(self, stream: str, subject: str) -> StoredMessage | None:
        return await self._at_leader(stream, {"last_by_subj": subject})

    async def at_leader(self, stream: str, seq: int) -> StoredMessage | None:
        return await self._at_leader(stream, {"seq": seq})

    async def after_at_leader(self, stream: str, subject: str, seq: int) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        while message := await self.next_at_leader(stream, subject, seq):
            found.append(message)
            seq = message.seq
        return found

    async def api(self, name: str, payload: dict[str, Any] | None = None) -> dict[str, Any]:
        """Any other request of the JetStream API; its error is raised."""
        reply = await self._requests.ask(f"$JS.API.{name}", msgspec.json.encode(payload) if payload else b"")
        answer: dict[str, Any] = msgspec.json.decode(reply.data)
        if error := answer.get("error"):
            raise BrokerRefused(str(error.get("description")), int(error.get("err_code", 0)))
        return answer

    async def last_seq(self, stream: str) -> int:
        return int((await self.api(f"STREAM.INFO.{stream}"))["state"]["last_seq"])

    async def clock(self, stream: str) -> float:
        """What time it is for the broker that leads this stream."""
        return _instant((await self.api(f"STREAM.INFO.{stream}"))["ts"])

    async def _at_leader(self, stream: str, ask: dict[str, Any]) -> StoredMessage | None:
        reply = await self._requests.ask(f"$JS.API.STREAM.MSG.GET.{stream}", msgspec.json.encode(ask))
        answer = _decode_message(reply.data)
        if answer.error is not None:
            if answer.error.err_code == NO_MESSAGE:
                return None
            raise BrokerRefused(answer.error.description, answer.error.err_code)
        assert answer.message is not None
        found = answer.message
        headers, data = base64.b64decode(found.hdrs), base64.b64decode(found.data)
        return StoredMessage(found.subject, found.seq, headers, data, found.time)


class _Publishing:
    __slots__ = ("_future", "_subject")

    def __init__(self, subject: str, future: Awaitable[list[Reply]]) -> None:
        self._subject = subject
        self._future = future

    def __await__(self) -> Generator[Any, None, PubAck]:
        answers = yield from self._future.__await__()
        return acknowledged(answer_of(self._subject, answers))


def _instant(stamp: str) -> float:
    """Nanoseconds are more than fromisoformat takes; and where they are nothing they are not written."""
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{fraction or 0}")


def acknowledged(reply: Reply) -> PubAck:
    ack = _decode_ack(reply.data)
    # A refusal carries "seq":0 as well: look for the error first.
    if ack.error is None:
        return ack
    if ack.error.err_code in (WRONG_LAST_SEQUENCE, WRONG_LAST_SEQUENCE_UNDER_WAY):
        raise WrongSequence
    raise BrokerRefused(ack.error.description, ack.error.err_code)


def _direct(reply: Reply) -> StoredMessage | None:
    if reply.status:
        return None
    headers = reply.headers
    return StoredMessage(
        value_of(headers, b"Nats-Subject") or "", number_of(headers, b"Nats-Sequence"), headers, reply.data
    )
