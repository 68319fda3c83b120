"""Runs whose dead letter may be missing: a note each, so that a crash does not lose the letter.

Written before a commit that ends a run with a letter, or where a letter could not be published. Housekeeping
sees to the letter and removes the note. Kept among the leases, where messages may have a time to live.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from pyoco_server.config import NatsBackendConfig
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.headers import header_block

NOTE_KEPT = "720h"


class OwedLetter(NamedTuple):
    run_id: str
    reason: str
    revision: int
    age_sec: float  # by the broker's clock


class OwedLetters:
    def __init__(self, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._jetstream = jetstream
        self._stream = f"KV_{config.leases_kv_bucket}"
        self._prefix = f"$KV.{config.leases_kv_bucket}.letter."

    async def note(self, run_id: str, reason: str) -> int:
        """The revision of the note. It takes the place of an earlier one of the run: a run ends once."""
        data, headers = msgspec.json.encode(reason), header_block(Nats_TTL=NOTE_KEPT)
        return (await self._jetstream.publish(self._prefix + run_id, data, headers)).seq

    async def oldest(self, count: int) -> list[OwedLetter]:
        messages = await self._jetstream.page(self._stream, self._prefix + "*", 0, count)
        if not messages:
            return []
        now, skip = await self._jetstream.clock(self._stream), len(self._prefix)
        return [
            OwedLetter(one.subject[skip:], _reason(one.data), one.seq, now - (one.stored_at or now))
            for one in messages
        ]

    async def remove(self, run_id: str, revision: int) -> None:
        """Unless it was written again since."""
        upto = {"filter": self._prefix + run_id, "seq": revision + 1}
        await self._jetstream.api(f"STREAM.PURGE.{self._stream}", upto)


def _reason(data: bytes) -> str:
    try:
        return msgspec.json.decode(data, type=str)
    except msgspec.MsgspecError:
        return ""
