"""JetStream's requests, as few as we need: publish at an expected sequence, read the last, read on, inform.

Reads come in two kinds. `last`, `after`, `since` and `page` may be served by any replica and may lag;
`last_at_leader`, `next_at_leader` and `after_at_leader` ask the leader and are for decisions.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from pyoco_server.jetstream.descriptions import (
    AccountInfo,
    ConsumerInfo,
    ConsumerList,
    ConsumerSettings,
    StreamInfo,
    StreamNames,
    StreamSettings,
)
from pyoco_server.jetstream.errors import BrokerRefused, NoStorage, ProposalInFlight, WrongSequence
from pyoco_server.jetstream.headers import number_of, value_of
from pyoco_server.jetstream.requests import Reply, answer_of
from pyoco_server.jetstream.shared_confirmation import SharedConfirmation
from pyoco_server.supervision import Backoff

NANOSECONDS = 1_000_000_000
WRONG_LAST_SEQUENCE = 10071
# From a cluster: another message of this subject is on its way to the replicas. The outcome is open.
WRONG_LAST_SEQUENCE_IN_FLIGHT = 10164
IN_FLIGHT_WAIT = Backoff(first_sec=0.005, longest_sec=0.25)
IN_FLIGHT_TRIES_MAX = 20
# The limit of the account, of the server, of a new stream; and a stream that takes no more bytes.
NO_STORAGE = (10002, 10023, 10047)
STORE_FAILED = 10077
NO_MESSAGE = 10037
STREAM_NOT_FOUND = 10059
BATCH_MAX = 256
# The broker disconnects a client with 64 MiB of unread data, and a batch must arrive within one timeout.
BATCH_BYTES_MAX = 8 * 1024 * 1024
END_OF_BATCH = 204
NOT_FOUND = 404
ALL_SUBJECTS = ">"
_LAST_OF_ALL = msgspec.json.encode({"last_by_subj": ALL_SUBJECTS})


T = TypeVar("T")


class StoredMessage(NamedTuple):
    subject: str
    seq: int
    headers: bytes
    data: bytes
    time: str | None = None  # from the leader; other replicas put it into the headers

    def header(self, name: bytes) -> str | None:
        return value_of(self.headers, name)

    @property
    def stored_at(self) -> float | None:
        """When the broker stored it, by its clock."""
        stamp = self.time or self.header(b"Nats-Time-Stamp")
        return None if stamp is None else _instant(stamp)

    @property
    def stored_at_ns(self) -> str | None:
        """The same, to the nanosecond: no two messages of one stream have the same time."""
        stamp = self.time or self.header(b"Nats-Time-Stamp")
        return None if stamp is None else _nanoseconds(stamp)


class ApiError(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class PubAck(msgspec.Struct):
    seq: int = 0
    duplicate: bool = False
    error: ApiError | None = None


class _Refusal(msgspec.Struct):
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
_decode_refusal = msgspec.json.Decoder(_Refusal).decode
_decode_message = msgspec.json.Decoder(_MessageAnswer).decode


class _Batch(NamedTuple):
    """`goes_on`: the broker has more of them, or the answer did not confirm that it has none."""

    messages: list[StoredMessage]
    goes_on: bool


class Asks(Protocol):
    async def ask(self, subject: str, payload: bytes = b"", headers: bytes = b"") -> Reply: ...

    async def ask_for_many(self, subject: str, payload: bytes) -> list[Reply]: ...

    def send(self, subject: str, payload: bytes, headers: bytes = b"") -> Awaitable[list[Reply]]: ...


class JetStream:
    def __init__(self, requests: Asks, on_no_storage: Callable[[], None] = lambda: None) -> None:
        self._requests = requests
        self._on_no_storage = on_no_storage
        # By stream, from the last description that was read.
        self.replicas: dict[str, int] = {}
        # Of `confirmed_reads`: confirmations of one subject would block each other.
        self.confirming = SharedConfirmation()

    async def publish(self, subject: str, payload: bytes, headers: bytes = b"") -> PubAck:
        return await self.publish_soon(subject, payload, headers)

    def publish_soon(self, subject: str, payload: bytes, headers: bytes) -> Awaitable[PubAck]:
        """Sent now, acknowledged when awaited. For several publishes at once without a task for each."""
        return _Publishing(self._requests, subject, payload, headers, self._on_no_storage)

    async def last(self, stream: str, subject: str) -> StoredMessage | None:
        return _direct(await self._requests.ask(f"$JS.API.DIRECT.GET.{stream}.{subject}"))

    async def end(self, stream: str) -> StoredMessage | None:
        """The last message of the stream; None if it was removed. Does not search the subjects."""
        return _direct(await self._requests.ask(f"$JS.API.DIRECT.GET.{stream}", _LAST_OF_ALL))

    async def first(self, stream: str, subject: str) -> StoredMessage | None:
        ask = msgspec.json.encode({"next_by_subj": subject, "seq": 1})
        return _direct(await self._requests.ask(f"$JS.API.DIRECT.GET.{stream}", ask))

    async def after(self, stream: str, subject: str, seq: int) -> list[StoredMessage]:
        """Messages of the subject with a sequence above `seq`, oldest first, all of them."""
        found: list[StoredMessage] = []
        while True:
            batch = await self._batch(stream, _after(subject, seq, BATCH_MAX))
            found += batch.messages
            if not batch.goes_on:
                return found
            seq = found[-1].seq

    async def since(self, stream: str, subject: str, at: float) -> list[StoredMessage]:
        """Messages of the subject stored at or after this instant of the broker's clock, oldest first."""
        begin = {"start_time": datetime.fromtimestamp(at, UTC).isoformat()}
        first = await self._batch(stream, {"next_by_subj": subject, "batch": BATCH_MAX} | begin)
        if not first.goes_on:
            return first.messages
        return first.messages + await self.after(stream, subject, first.messages[-1].seq)

    async def page(self, stream: str, subject: str, seq: int, count: int) -> list[StoredMessage]:
        """The next `count` messages: fewer means that there are no more."""
        found: list[StoredMessage] = []
        while True:
            batch = await self._batch(stream, _after(subject, seq, count - len(found)))
            found += batch.messages
            if not batch.goes_on or len(found) >= count:
                return found
            seq = found[-1].seq

    async def last_of(self, stream: str, subjects: Sequence[str]) -> list[StoredMessage]:
        """The last message of each of these subjects that has one."""
        found: list[StoredMessage] = []
        for first in range(0, len(subjects), BATCH_MAX):
            wanted = subjects[first : first + BATCH_MAX]
            found += (await self._batch(stream, {"multi_last": wanted, "batch": len(wanted)})).messages
        return found

    async def _batch(self, stream: str, ask: Mapping[str, object]) -> _Batch:
        where = f"$JS.API.DIRECT.GET.{stream}"
        payload = msgspec.json.encode({**ask, "max_bytes": BATCH_BYTES_MAX})
        replies = await self._requests.ask_for_many(where, payload)
        answer_of(where, replies)
        end = replies[-1]
        if end.status not in (END_OF_BATCH, NOT_FOUND):
            raise BrokerRefused(f"{where} ended with status {end.status}", end.status)
        messages = [message for message in map(_direct, replies) if message is not None]
        # The broker may end a batch before the count that was asked for: by its bytes, or when it is busy.
        pending = value_of(end.headers, b"Nats-Num-Pending")
        return _Batch(messages, bool(messages) and pending != "0")

    async def next_at_leader(self, stream: str, subject: str, seq: int) -> StoredMessage | None:
        return await self._at_leader(stream, {"next_by_subj": subject, "seq": max(seq + 1, 1)})

    async def last_at_leader(self, stream: str, subject: str) -> StoredMessage | None:
        return await self._at_leader(stream, {"last_by_subj": subject})

    async def end_at_leader(self, stream: str) -> StoredMessage | None:
        return await self.last_at_leader(stream, ALL_SUBJECTS)

    async def at_leader(self, stream: str, seq: int) -> StoredMessage | None:
        return await self._at_leader(stream, {"seq": seq})

    async def after_at_leader(self, stream: str, subject: str, seq: int) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        while message := await self.next_at_leader(stream, subject, seq):
            found.append(message)
            seq = message.seq
        return found

    async def api(self, name: str, payload: Mapping[str, object] | None = None) -> dict[str, Any]:
        """A request whose answer has no type of its own; its error is raised."""
        return await self._ask(name, payload, dict[str, Any])

    async def stream_info(self, stream: str, asked: Mapping[str, object] | None = None) -> StreamInfo:
        return self._described(await self._ask(f"STREAM.INFO.{stream}", asked, StreamInfo))

    async def create_stream(self, wanted: StreamSettings) -> StreamInfo:
        return self._described(await self._ask(f"STREAM.CREATE.{wanted['name']}", wanted, StreamInfo))

    async def stream_names(self, offset: int) -> list[str]:
        return (await self._ask("STREAM.NAMES", {"offset": offset}, StreamNames)).streams or []

    async def consumer_info(self, stream: str, name: str) -> ConsumerInfo:
        return await self._ask(f"CONSUMER.INFO.{stream}.{name}", None, ConsumerInfo)

    async def consumers(self, stream: str) -> list[ConsumerInfo]:
        """The first page of them."""
        return (await self._ask(f"CONSUMER.LIST.{stream}", {"offset": 0}, ConsumerList)).consumers or []

    async def create_consumer(self, stream: str, name: str, wanted: ConsumerSettings) -> None:
        """`name`: with its subject, if it has only one."""
        asked = {"stream_name": stream, "config": wanted, "action": "create"}
        await self.api(f"CONSUMER.CREATE.{stream}.{name}", asked)

    async def account_info(self) -> AccountInfo:
        return await self._ask("INFO", None, AccountInfo)

    async def _ask(self, name: str, payload: Mapping[str, object] | None, answer: type[T]) -> T:
        reply = await self._requests.ask(f"$JS.API.{name}", msgspec.json.encode(payload) if payload else b"")
        if (error := _decode_refusal(reply.data).error) is not None:
            raise BrokerRefused(error.description, error.err_code)
        return msgspec.json.decode(reply.data, type=answer)

    def _described(self, info: StreamInfo) -> StreamInfo:
        self.replicas[info.config["name"]] = info.config.get("num_replicas", 1)
        return info

    async def purge(self, stream: str, subject: str, *, upto: int | None = None) -> None:
        """Remove all messages of the subject; with `upto`, those up to this sequence."""
        asked: dict[str, str | int] = {"filter": subject}
        if upto is not None:
            asked["seq"] = upto + 1
        await self.api(f"STREAM.PURGE.{stream}", asked)

    async def subjects(self, stream: str, subjects: str) -> dict[str, int]:
        """Subjects that have messages, and how many. Of very many the broker returns only some."""
        return (await self.stream_info(stream, {"subjects_filter": subjects})).state.subjects or {}

    async def last_seq(self, stream: str) -> int:
        return (await self.stream_info(stream)).state.last_seq

    async def clock(self, stream: str) -> float:
        """The time of the broker that leads this stream."""
        return _instant((await self.stream_info(stream)).ts)

    async def _at_leader(self, stream: str, ask: Mapping[str, object]) -> StoredMessage | None:
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
    """A publish in flight. It is sent again while the broker cannot decide about the expected sequence."""

    __slots__ = ("_future", "_headers", "_on_no_storage", "_payload", "_requests", "_subject")

    def __init__(
        self,
        requests: Asks,
        subject: str,
        payload: bytes,
        headers: bytes,
        on_no_storage: Callable[[], None],
    ) -> None:
        self._requests = requests
        self._subject = subject
        self._payload = payload
        self._headers = headers
        self._on_no_storage = on_no_storage
        self._future = requests.send(subject, payload, headers)

    def __await__(self) -> Generator[object, None, PubAck]:
        answers = yield from self._future.__await__()
        try:
            return parse_ack(self._subject, answer_of(self._subject, answers))
        except ProposalInFlight:
            return (yield from self._send_again().__await__())
        except NoStorage:
            self._on_no_storage()
            raise

    async def _send_again(self) -> PubAck:
        for tries in range(1, IN_FLIGHT_TRIES_MAX + 1):
            await asyncio.sleep(IN_FLIGHT_WAIT.after(tries))
            reply = await self._requests.ask(self._subject, self._payload, self._headers)
            with contextlib.suppress(ProposalInFlight):
                return parse_ack(self._subject, reply)
        raise ProposalInFlight(self._subject)


def _after(subject: str, seq: int, count: int) -> dict[str, object]:
    return {"next_by_subj": subject, "seq": max(seq + 1, 1), "batch": count}


def _instant(stamp: str) -> float:
    """`fromisoformat` does not take nanoseconds. The broker leaves a fraction of zero out."""
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{fraction or 0}")


def _nanoseconds(stamp: str) -> str:
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    return f"{int(datetime.fromisoformat(f'{whole}+00:00').timestamp())}{fraction:0<9}"


def parse_ack(subject: str, reply: Reply) -> PubAck:
    ack = _decode_ack(reply.data)
    # A refusal carries "seq":0 as well: look for the error first.
    if ack.error is None:
        return ack
    if ack.error.err_code == WRONG_LAST_SEQUENCE:
        raise WrongSequence
    if ack.error.err_code == WRONG_LAST_SEQUENCE_IN_FLIGHT:
        raise ProposalInFlight(subject)
    raise _refused(ack.error)


def _refused(error: ApiError) -> BrokerRefused:
    is_full = error.err_code in NO_STORAGE or (
        error.err_code == STORE_FAILED
        and any(word in error.description for word in ("bytes exceeded", "no space"))
    )
    return (NoStorage if is_full else BrokerRefused)(error.description, error.err_code)


def _direct(reply: Reply) -> StoredMessage | None:
    if reply.status:
        return None
    headers = reply.headers
    return StoredMessage(
        value_of(headers, b"Nats-Subject") or "", number_of(headers, b"Nats-Sequence"), headers, reply.data
    )
