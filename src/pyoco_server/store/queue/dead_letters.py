"""Dead letters, for diagnosis and redrive. The state of a run is in its log, not here.

A letter that could not be published is noted (`store.run_notes`), and housekeeping publishes it.

The id of a letter is its sequence in the stream. The broker only reads forwards. To list the newest first,
`newest_first` reads ranges of sequences from the end.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable

import msgspec

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.api import JetStream, StoredMessage
from pyoco_server.jetstream.client import BrokerClient
from pyoco_server.jetstream.headers import header_block

log = logging.getLogger(__name__)

PAYLOAD_BYTES_MAX = 64 * 1024
ERROR_CHARS_MAX = 8 * 1024
UNKNOWN_TAG = "unknown"
UNREADABLE = "unreadable"
# A letter can have 70 KiB, and a range is held in memory.
READ_AT_ONCE = 64


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    timestamp: float
    reason: str
    error: str | None = None
    run_id: str | None = None
    flow_name: str | None = None
    tag: str | None = None
    tags: list[str] | None = None
    worker_id: str | None = None
    num_delivered: int | None = None
    subject: str | None = None
    payload: str | None = None


class KeptLetter(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    letter: DeadLetter


class DeadLetters:
    def __init__(self, client: BrokerClient, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._client = client
        self._jetstream = jetstream
        self._stream = config.dlq_stream
        self._prefix = config.dlq_subject_prefix

    async def publish(self, letter: DeadLetter, *, letter_id: str) -> bool:
        """False if it failed. Publishing with the same `letter_id` again leaves one letter."""
        subject = f"{self._prefix}.{letter.tag or UNKNOWN_TAG}"
        try:
            await self._jetstream.publish(
                subject, msgspec.json.encode(letter), header_block(Nats_Msg_Id=letter_id)
            )
        except Unavailable as error:
            fields = {"err_id": "ERR-PYOCO-0011", "msg_id": "MSG-PYOCO-0011", "run_id": letter.run_id}
            fields |= {"tag": letter.tag, "worker_id": letter.worker_id, "reason": letter.reason}
            log.error("dead letter not published", exc_info=error, extra=fields)
            return False
        return True

    async def has(self, run_id: str, reason: str, *, tag: str, since: float) -> bool:
        """Whether there is such a letter. `since`: an instant of the broker's clock before it was written."""
        found = await self._jetstream.since(self._stream, f"{self._prefix}.{tag}", since)
        letters = (_letter(message.data) for message in found)
        return any(letter.run_id == run_id and letter.reason == reason for letter in letters)

    async def count(self) -> int:
        return (await self._jetstream.stream_info(self._stream)).state.messages

    async def get(self, seq: int) -> KeptLetter | None:
        message = await self._jetstream.at_leader(self._stream, seq)
        return _kept(message) if message is not None else None

    async def newest_first(self, before: int | None = None) -> AsyncIterator[KeptLetter]:
        """From the end, or from the sequence before `before`."""
        state = (await self._jetstream.stream_info(self._stream)).state
        end = min(before or state.last_seq + 1, state.last_seq + 1)
        while end > max(state.first_seq, 1):
            begin = max(end - READ_AT_ONCE, 1)
            page = await self._jetstream.page(self._stream, f"{self._prefix}.>", begin - 1, end - begin)
            for message in reversed([message for message in page if message.seq < end]):
                yield _kept(message)
            end = begin

    async def follow(self, on_reason: Callable[[str], None]) -> None:
        """Call this with the reason of every letter from now on, for as long as the connection is open."""

        def on_message(_subject: bytes, _reply: bytes, _headers: bytes, data: bytes) -> None:
            on_reason(_letter(data).reason)

        await self._client.listen(f"{self._prefix}.>", on_message)


def payload_text(data: bytes) -> str:
    """The beginning of a message, up to the limit of a letter."""
    return data[:PAYLOAD_BYTES_MAX].decode("utf-8", "replace")


def _kept(message: StoredMessage) -> KeptLetter:
    return KeptLetter(seq=message.seq, letter=_letter(message.data))


def _letter(data: bytes) -> DeadLetter:
    """A message that is no letter becomes a letter with its payload: another producer may have sent it."""
    try:
        return msgspec.json.decode(data, type=DeadLetter)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return DeadLetter(timestamp=0.0, reason=UNREADABLE, payload=payload_text(data))
