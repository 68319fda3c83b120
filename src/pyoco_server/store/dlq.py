"""Dead letters, for diagnosis and redrive. Best effort: the truth about a run is in its log."""

from __future__ import annotations

import logging

import msgspec

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.store.headers import header_block
from pyoco_server.store.jetstream import JetStream

log = logging.getLogger(__name__)

PAYLOAD_BYTES_MAX = 64 * 1024
ERROR_CHARS_MAX = 8 * 1024
UNKNOWN_TAG = "unknown"


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


class DeadLetters:
    def __init__(self, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._jetstream = jetstream
        self._prefix = config.dlq_subject_prefix

    async def publish(self, letter: DeadLetter, *, letter_id: str) -> bool:
        """`letter_id` makes a repeated attempt leave one letter."""
        subject = f"{self._prefix}.{letter.tag or UNKNOWN_TAG}"
        try:
            await self._jetstream.publish(
                subject, msgspec.json.encode(letter), header_block(Nats_Msg_Id=letter_id)
            )
        except Unavailable as error:
            fields = {"err_id": "ERR-PYOCO-0011", "msg_id": "MSG-PYOCO-0011", "run_id": letter.run_id}
            log.error("dead letter not published", extra=fields | {"error": str(error)})
            return False
        return True


def payload_text(data: bytes) -> str:
    """As much of a message as a letter may carry."""
    return data[:PAYLOAD_BYTES_MAX].decode("utf-8", "replace")
