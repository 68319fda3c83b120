"""The latest refusals of each run, to explain its state. They are not part of its history, and expire."""

from __future__ import annotations

import logging

import msgspec

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.api import JetStream

log = logging.getLogger(__name__)


class Refusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`command` and `reason` as the refusing part names them."""

    at: float
    command: str
    reason: str
    task: str | None = None
    by: str | None = None
    correlation_id: str | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Refusal).decode


class Refusals:
    def __init__(self, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._jetstream = jetstream
        self._stream = config.refused_stream
        self._prefix = config.refused_subject_prefix

    async def note(self, run_id: str, refusal: Refusal) -> None:
        """Best effort: the caller gets the refusal in any case."""
        try:
            await self._jetstream.publish(f"{self._prefix}.{run_id}", _encode(refusal))
        except Unavailable as error:
            log.warning("a refusal was not noted", extra={"run_id": run_id, "error": error.message})

    async def of(self, run_id: str) -> list[Refusal]:
        """Oldest first."""
        messages = await self._jetstream.after(self._stream, f"{self._prefix}.{run_id}", 0)
        return [_decode(message.data) for message in messages]

    async def erase(self, run_id: str) -> None:
        await self._jetstream.purge(self._stream, f"{self._prefix}.{run_id}")
