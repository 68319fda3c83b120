"""The bucket of schedules: a small record each, changed only by compare-and-set, and beside it the
submission of its runs, written once.

So a search for due schedules, or a list of them, reads no workflows. What happened to the occurrences is in
the history (`schedule_history`). Its new entries are written with the record first, so a record and its
history cannot differ: `change` writes them to the history afterwards, or before the next change. Decides
nothing about time.
"""

from __future__ import annotations

import contextlib
import logging
from typing import NamedTuple

import msgspec

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.kv import Bucket
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.names import is_run_id
from pyoco_server.schedules.record import Schedule, ScheduleStatus
from pyoco_server.store.runs.codec import decode_commit, encode_commit
from pyoco_server.store.schedule_history import ScheduleHistory

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
        self.history = ScheduleHistory(jetstream, config)

    async def create(self, schedule: Schedule, begins_with: RunSubmitted) -> None:
        """The record is stored last: a visible schedule can be run."""
        key = schedule.schedule_id
        await self._bucket.put(key + _BEGINS_WITH, encode_commit([begins_with]), revision=0)
        await self._bucket.put(key, _encode(schedule), revision=0)

    async def put_submission(self, address: str, begins_with: RunSubmitted) -> None:
        """Another submission of a schedule, in use when its record names the address."""
        await self._bucket.put(address + _BEGINS_WITH, encode_commit([begins_with]), revision=0)

    async def remove_submission(self, address: str) -> None:
        await self._bucket.delete(address + _BEGINS_WITH, ttl=MARK_KEPT)

    async def get(self, schedule_id: str) -> StoredSchedule | None:
        """Confirmed by a majority, because decisions are based on it."""
        if not is_run_id(schedule_id):
            return None  # it could not be a key
        entry = await self._bucket.get_confirmed(schedule_id)
        schedule = _schedule(schedule_id, entry.value)
        return StoredSchedule(schedule, entry.revision) if schedule is not None else None

    async def begins_with(self, address: str) -> RunSubmitted | None:
        """`address`: the `submission_address` of a schedule."""
        entry = await self._bucket.get_confirmed(address + _BEGINS_WITH)
        begun = next(iter(decode_commit(entry.value)), None) if entry.value else None
        return begun if isinstance(begun, RunSubmitted) else None

    async def change(self, stored: StoredSchedule, changed: Schedule) -> StoredSchedule:
        """Replace the record. Raises WrongSequence like `replace`."""
        key = changed.schedule_id
        await self.history.write(key, stored.schedule.unwritten)
        revision = await self.replace(changed, revision=stored.revision)
        with contextlib.suppress(Unavailable):  # the record has them; the next change writes them
            await self.history.write(key, changed.unwritten)
        return StoredSchedule(changed, revision)

    async def replace(self, schedule: Schedule, *, revision: int) -> int:
        """Raises WrongSequence if another process has changed or deleted it since."""
        key, is_over = schedule.schedule_id, schedule.status is ScheduleStatus.COMPLETED
        ttl = COMPLETED_KEPT if is_over else ""
        stored = await self._bucket.put(key, _encode(schedule), revision=revision, ttl=ttl)
        if is_over:
            await self.remove_submission(schedule.submission_address)
        return stored

    async def delete(self, schedule_id: str, *, revision: int, address: str | None = None) -> None:
        """Raises WrongSequence like `replace`. `address`: of its submission, if it is another one."""
        await self._bucket.delete(schedule_id, revision=revision, ttl=MARK_KEPT)
        for one in {schedule_id, address or schedule_id}:
            await self.remove_submission(one)
        await self.history.remove(schedule_id)

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
        """Remove submissions that no record of a schedule refers to. Returns how many."""
        without_record = await self._ids("*" + _BEGINS_WITH) - await self._ids("*")
        edited = await self._ids("*.*" + _BEGINS_WITH)
        if not without_record and not edited:
            return 0
        now, removed = await self._bucket.now(), 0
        for address in sorted(without_record | edited):
            key = address + _BEGINS_WITH
            message = await self._bucket.message(key)
            if message is None or now - (message.stored_at or now) < older_than_sec:
                continue
            if await self._is_in_use(address):
                continue  # of very many subjects the broker returns only some
            await self._bucket.remove(key, upto=message.seq)
            log.info("what a schedule left was removed", extra={"schedule_id": address})
            removed += 1
        return removed

    async def _is_in_use(self, address: str) -> bool:
        schedule_id, _, version = address.partition(".")
        value = (await self._bucket.get_confirmed(schedule_id)).value
        schedule = _schedule(schedule_id, value)
        # A record that cannot be read may need it.
        is_other = bool(version) and schedule is not None and schedule.submission_address != address
        return bool(value) and not is_other

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
