"""Runs that may have left something behind: a note each, so that a crash does not make anybody forget it.

Written before a run is erased, and whenever objects may have been stored that no log refers to.
Housekeeping clears up after the runs that are noted (`operations.runs.leftovers`) and then removes the
note. Kept among the leases, where messages may have a time to live: one that nothing can be done about
vanishes in the end.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import msgspec

from pyoco_server.config import NatsBackendConfig
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.headers import header_block

NOTE_KEPT = "720h"


class Noted(NamedTuple):
    """`earlier`: names of its objects that are not found by the run (see `store.runs.results`)."""

    run_id: str
    revision: int
    age_sec: float  # by the broker's clock
    earlier: tuple[str, ...] = ()


class Leftovers:
    def __init__(self, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._jetstream = jetstream
        self._stream = f"KV_{config.leases_kv_bucket}"
        self._prefix = f"$KV.{config.leases_kv_bucket}.leftover."

    async def note(self, run_id: str, earlier: Collection[str] = ()) -> None:
        """A second note takes the place of the first, and its age begins again."""
        data = msgspec.json.encode(list(earlier))
        await self._jetstream.publish(self._prefix + run_id, data, header_block(Nats_TTL=NOTE_KEPT))

    def note_soon(self, run_id: str) -> None:
        """Sent and not waited for. Raises BrokerAway; whether it was stored is not found out."""
        self._jetstream.publish_soon(self._prefix + run_id, b"[]", header_block(Nats_TTL=NOTE_KEPT))

    async def oldest(self, count: int) -> list[Noted]:
        messages = await self._jetstream.page(self._stream, self._prefix + "*", 0, count)
        if not messages:
            return []
        now = await self._jetstream.clock(self._stream)
        skip = len(self._prefix)
        return [
            Noted(one.subject[skip:], one.seq, now - (one.stored_at or now), _names(one.data))
            for one in messages
        ]

    async def remove(self, run_id: str, revision: int) -> None:
        """Unless it was written again since."""
        upto = {"filter": self._prefix + run_id, "seq": revision + 1}
        await self._jetstream.api(f"STREAM.PURGE.{self._stream}", upto)


def _names(data: bytes) -> tuple[str, ...]:
    try:
        return msgspec.json.decode(data, type=tuple[str, ...])
    except msgspec.MsgspecError:
        return ()
