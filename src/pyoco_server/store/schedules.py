"""The bucket of schedules: a small record each, changed only by compare-and-set, and beside it the
submission of its runs, written once.

So a search for due schedules, or a list of them, reads no workflows. Decides nothing about time.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import msgspec

from pyoco_server.config import NatsBackendConfig
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.kv import Bucket
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.names import is_run_id
from pyoco_server.schedules.record import Schedule, ScheduleStatus
from pyoco_server.store.runs.codec import decode_commit, encode_commit

log = logging.getLogger(__name__)

# A schedule that will not run again is shown for this long, and the mark of a deleted one expires too.
COMPLETED_KEPT = "720h"
MARK_KEPT = "48h"
_BEGINS_WITH = ".run"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Schedule).decode


class StoredSchedule(NamedTuple):
    schedule: Schedule
    revision: int


class ChangedSchedule(NamedTuple):
    """`schedule` is None for one that was deleted, or cannot be read."""

    schedule_id: str
    schedule: Schedule | None
    revision: int


class Schedules:
    def __init__(self, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._jetstream = jetstream
        self._bucket = Bucket(jetstream, config.schedules_kv_bucket)

    async def create(self, schedule: Schedule, begins_with: RunSubmitted) -> None:
        """The record is stored last: a visible schedule can be run."""
        key = schedule.schedule_id
        await self._bucket.put(key + _BEGINS_WITH, encode_commit([begins_with]), revision=0)
        await self._bucket.put(key, _encode(schedule), revision=0)

    async def get(self, schedule_id: str) -> StoredSchedule | None:
        """Confirmed by a majority, because decisions are based on it."""
        if not is_run_id(schedule_id):
            return None  # it could not be a key
        entry = await self._bucket.get_confirmed(schedule_id)
        schedule = _schedule(schedule_id, entry.value)
        return StoredSchedule(schedule, entry.revision) if schedule is not None else None

    async def begins_with(self, schedule_id: str) -> RunSubmitted | None:
        entry = await self._bucket.get_confirmed(schedule_id + _BEGINS_WITH)
        begun = next(iter(decode_commit(entry.value)), None) if entry.value else None
        return begun if isinstance(begun, RunSubmitted) else None

    async def replace(self, schedule: Schedule, *, revision: int) -> int:
        """Raises WrongSequence if another process has changed or deleted it since."""
        key, is_over = schedule.schedule_id, schedule.status is ScheduleStatus.COMPLETED
        ttl = COMPLETED_KEPT if is_over else ""
        stored = await self._bucket.put(key, _encode(schedule), revision=revision, ttl=ttl)
        if is_over:
            await self._bucket.delete(key + _BEGINS_WITH, ttl=MARK_KEPT)
        return stored

    async def delete(self, schedule_id: str, *, revision: int) -> None:
        """Raises WrongSequence like `replace`."""
        await self._bucket.delete(schedule_id, revision=revision, ttl=MARK_KEPT)
        await self._bucket.delete(schedule_id + _BEGINS_WITH, ttl=MARK_KEPT)

    async def all(self) -> list[Schedule]:
        """All of them, the latest first."""
        # A schedule that was written during the read is there twice; the later one counts.
        found = {changed.schedule_id: changed.schedule for changed in await self.changed_after(0)}
        schedules = [schedule for schedule in found.values() if schedule is not None]
        return sorted(schedules, key=lambda one: (one.created_at, one.schedule_id), reverse=True)

    async def changed_after(self, revision: int) -> list[ChangedSchedule]:
        """Those written since that revision of the bucket, each as it is now; 0: all of them."""
        changed = ((self._bucket.key_of(one), one) for one in await self._bucket.after("*", revision))
        return [ChangedSchedule(key, _schedule(key, one.data), one.seq) for key, one in changed]

    async def remove_half_made(self, *, older_than_sec: float) -> int:
        """Remove submissions of schedules that have no record. Returns how many."""
        without_record = await self._ids("*" + _BEGINS_WITH) - await self._ids("*")
        if not without_record:
            return 0
        now, removed = await self._bucket.now(), 0
        for schedule_id in sorted(without_record):
            key = schedule_id + _BEGINS_WITH
            message = await self._bucket.message(key)
            if message is None or now - (message.stored_at or now) < older_than_sec:
                continue
            if (await self._bucket.get_confirmed(schedule_id)).value:
                continue  # of very many subjects the broker returns only some
            await self._bucket.remove(key, upto=message.seq)
            log.info("what a schedule left was removed", extra={"schedule_id": schedule_id})
            removed += 1
        return removed

    async def _ids(self, keys: str) -> set[str]:
        """Of those with such a key. Names only: workflows are not read for this."""
        bucket = self._bucket
        subjects = await self._jetstream.subjects(bucket.stream, bucket.prefix + keys)
        return {subject.removeprefix(bucket.prefix).removesuffix(_BEGINS_WITH) for subject in subjects}


def _schedule(schedule_id: str, value: bytes | None) -> Schedule | None:
    if not value:
        return None
    try:
        return _decode(value)
    except msgspec.MsgspecError as error:
        log.warning("a schedule cannot be read", extra={"schedule_id": schedule_id, "error": str(error)})
        return None
