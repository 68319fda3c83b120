"""The position of a reader of a stream, and which messages it has read last.

A sequence alone is not enough. A broker may return without the end of a stream (power cut, restored disk) and
give the same sequences to other messages. The time at which the broker stored a message, in nanoseconds,
identifies it; a reader continues only if the leader still has the messages that were read.

Messages also disappear for valid reasons: a rollup or a newer value of the same key replaces them, and the
mark of a deletion expires. A newer message of its subject that is still to be read explains a message that is
gone. Then the message that was read before it is checked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from pyoco_server.jetstream.api import JetStream, StoredMessage
from pyoco_server.jetstream.confirmed_reads import is_mark
from pyoco_server.jetstream.descriptions import StreamInfo

# How many messages are remembered beyond a restart. If all of them are gone, everything is read again.
STEPS_MAX = 16
# In memory, for `has`.
RECENT_STEPS_MAX = 64


class Step(NamedTuple):
    """One message that was read. `stored_at`: the broker's time in nanoseconds, as text."""

    seq: int
    subject: str
    stored_at: str
    is_deletion: bool


_decode_steps = msgspec.json.Decoder(list[Step]).decode


class StreamPosition:
    def __init__(self, position: int = 0, created: str = "", steps: Iterable[Step] = ()) -> None:
        # The last message that was read: a new consumer continues after it.
        self.position = position
        # When the stream was created: another stream is read from its beginning. Empty: not known yet.
        self.created = created
        self._steps: deque[Step] = deque(steps, RECENT_STEPS_MAX)

    @classmethod
    def load(cls, kept: dict[str, str]) -> StreamPosition:
        """From what `dump` returned. A position without its last messages is not used."""
        steps = _decode_steps(kept.get("steps", "[]"))
        position = int(kept.get("position", 0))
        return cls(position, kept.get("created", ""), steps) if steps else cls()

    def dump(self) -> dict[str, str]:
        steps = msgspec.json.encode(self._last_steps()).decode()
        return {"position": str(self.position), "created": self.created, "steps": steps}

    @property
    def stored_at(self) -> str:
        """Of the message at the position; empty if none was read."""
        return self._steps[-1].stored_at if self._steps else ""

    def advance(self, step: Step) -> None:
        self.position = step.seq
        self._steps.append(step)

    def has(self, seq: int, stored_at: str | None) -> bool:
        """Whether this message was read. False also if it is not one of the last ones."""
        return any(step.seq == seq and step.stored_at == stored_at for step in reversed(self._steps))

    def _last_steps(self) -> list[Step]:
        return list(self._steps)[-STEPS_MAX:]

    async def stands(self, jetstream: JetStream, stream: str, subjects: str, info: StreamInfo) -> bool:
        """Whether everything that was read is in the stream, or replaced by messages still to be read.

        `subjects`: of the messages that are read. `info`: the stream, as its leader describes it.
        """
        if self.created not in ("", info.created) or self.position > info.state.last_seq:
            return False
        for step in reversed(self._last_steps()):
            found = await jetstream.at_leader(stream, step.seq)
            if found is not None:
                if (found.subject, found.stored_at_ns) != (step.subject, step.stored_at):
                    return False
                # Between this message and the position there must be no message that was not read.
                following = await _following(jetstream, stream, subjects, step.seq)
                return step.seq == self.position or following is None or following.seq > self.position
            newer = await jetstream.last_at_leader(stream, step.subject)
            is_explained = step.is_deletion if newer is None else newer.seq > self.position
            if not is_explained:
                return False
        return not self._steps


async def _following(jetstream: JetStream, stream: str, subjects: str, seq: int) -> StoredMessage | None:
    """The next message that a reader gets."""
    while found := await jetstream.next_at_leader(stream, subjects, seq):
        if not is_mark(found.headers):
            return found
        seq = found.seq
    return None
