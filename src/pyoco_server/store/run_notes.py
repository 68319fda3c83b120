"""Notes about runs that housekeeping must still look at, so that a crash does not lose the work.

Three kinds: runs that may have left objects or output behind (`leftover`), with the names of objects that are
not found by the run; runs whose dead letter may be missing (`letter`), with its reason; and, with its id in
place of a run id, a batch whose runs must be cancelled (`batch`). A note is written
before the step that may fail, and removed when the work is done. Notes are stored among the leases, because
messages there may have a time to live: a note about which nothing can be done expires.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import msgspec

from pyoco_server.config import NatsBackendConfig
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.kv import Bucket

NOTE_KEPT = "720h"

T = TypeVar("T")


class RunNote(NamedTuple, Generic[T]):
    run_id: str
    value: T
    revision: int
    age_sec: float  # by the broker's clock


class RunNotes(Generic[T]):
    def __init__(
        self, jetstream: JetStream, config: NatsBackendConfig, kind: str, of: type[T], empty: T
    ) -> None:
        """`of`: the type of the values. `empty`: the value of a note that has none, or cannot be read."""
        self._bucket = Bucket(jetstream, config.leases_kv_bucket)
        self._kind = f"{kind}."
        self._decode = msgspec.json.Decoder(of).decode
        self._empty = empty

    async def note(self, run_id: str, value: T | None = None) -> int:
        """Returns the revision. A second note replaces the first, and its age begins again."""
        data = msgspec.json.encode(self._empty if value is None else value)
        return await self._bucket.put(self._kind + run_id, data, ttl=NOTE_KEPT)

    def note_soon(self, run_id: str) -> None:
        """Send a note without waiting for the answer. Raises BrokerAway."""
        self._bucket.put_soon(self._kind + run_id, msgspec.json.encode(self._empty), ttl=NOTE_KEPT)

    async def oldest(self, count: int, after: int = 0) -> list[RunNote[T]]:
        """`after`: of those with a later revision."""
        messages = await self._bucket.page(self._kind + "*", count, after)
        if not messages:
            return []
        now, skip = await self._bucket.now(), len(self._kind)
        return [
            RunNote(
                self._bucket.key_of(one)[skip:], self._value(one.data), one.seq, now - (one.stored_at or now)
            )
            for one in messages
        ]

    async def remove(self, run_id: str, revision: int) -> None:
        """A note that was written after this revision stays."""
        await self._bucket.remove(self._kind + run_id, upto=revision)

    def _value(self, data: bytes) -> T:
        try:
            return self._decode(data)
        except msgspec.MsgspecError:
            return self._empty
