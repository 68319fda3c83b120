"""Dismissals of dead letters: who decided that a letter needs no more attention, when, and why.

The letter stays in its stream. A dismissal is written once and kept for as long as a letter. Its key contains
the sequence of the letter and a digest of its run and time: after the stream was created again, the same
sequence is another letter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from pyoco_server.config import NatsBackendConfig
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.jetstream.kv import Bucket
from pyoco_server.store.queue.dead_letters import KeptLetter

NOTE_CHARS_MAX = 1_000


class Dismissal(msgspec.Struct, frozen=True, kw_only=True):
    """`by`: the principal of the caller; None if authentication is off."""

    at: float
    by: str | None = None
    note: str | None = None


_decode = msgspec.json.Decoder(Dismissal).decode


class Dismissals:
    def __init__(self, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._bucket = Bucket(jetstream, config.dismissals_kv_bucket)

    async def create(self, kept: KeptLetter, dismissal: Dismissal) -> Dismissal:
        """The dismissal of this letter: this one, or the one that was written before."""
        try:
            await self._bucket.put(_key(kept), msgspec.json.encode(dismissal), revision=0)
        except WrongSequence:
            entry = await self._bucket.get_at_leader(_key(kept))
            if entry.value is None:
                raise
            return _decode(entry.value)
        return dismissal

    async def of(self, letters: Sequence[KeptLetter]) -> dict[int, Dismissal]:
        """Those of these letters that are dismissed, by sequence. One request for up to 1,000 letters."""
        keys = {_key(kept): kept.seq for kept in letters}
        found = await self._bucket.last_of(list(keys))
        return {keys[self._bucket.key_of(one)]: _decode(one.data) for one in found if one.data}


def _key(kept: KeptLetter) -> str:
    letter = repr((kept.letter.run_id, kept.letter.timestamp))
    return f"{kept.seq}.{hashlib.sha256(letter.encode()).hexdigest()[:32]}"
