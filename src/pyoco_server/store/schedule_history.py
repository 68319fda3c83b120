"""What happened to the occurrences of each schedule: one subject per schedule, one message per entry.

The broker keeps a limited number of entries of each schedule. Entries are numbered by the schedule, and
written in their order at the expected sequence, so an entry that several processes write is stored once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.jetstream.headers import header_block
from pyoco_server.schedules.record import Occurrences

log = logging.getLogger(__name__)

TRIES_MAX = 20

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Occurrences).decode


class ScheduleHistory:
    def __init__(self, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._jetstream = jetstream
        self._stream = config.occurrences_stream
        self._prefix = f"{config.occurrences_subject_prefix}."

    async def write(self, schedule_id: str, entries: Sequence[Occurrences]) -> None:
        """Those that are not stored yet. Repeatable."""
        if not entries:
            return None
        for _ in range(TRIES_MAX):
            try:
                return await self._write(schedule_id, entries)
            except WrongSequence:
                continue  # another process wrote the same
        raise Unavailable(f"The history of schedule {schedule_id} changes too fast to be written.")

    async def read(self, schedule_id: str) -> list[Occurrences]:
        """All that are kept, the oldest first."""
        messages = await self._jetstream.after(self._stream, self._prefix + schedule_id, 0)
        found = (_entry(schedule_id, one.data) for one in messages)
        return [entry for entry in found if entry is not None]

    async def remove(self, schedule_id: str) -> None:
        await self._jetstream.purge(self._stream, self._prefix + schedule_id)

    async def _write(self, schedule_id: str, entries: Sequence[Occurrences]) -> None:
        subject = self._prefix + schedule_id
        last = await self._jetstream.last_at_leader(self._stream, subject)
        known = None if last is None else _entry(schedule_id, last.data)
        seq = 0 if last is None else last.seq
        for entry in entries:
            if known is None or entry.number > known.number:
                headers = header_block(Nats_Expected_Last_Subject_Sequence=seq)
                seq = (await self._jetstream.publish(subject, _encode(entry), headers)).seq


def _entry(schedule_id: str, data: bytes) -> Occurrences | None:
    try:
        return _decode(data)
    except msgspec.MsgspecError as error:
        log.warning("an entry cannot be read", extra={"schedule_id": schedule_id, "error": str(error)})
        return None
