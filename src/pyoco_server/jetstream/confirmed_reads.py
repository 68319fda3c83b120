"""Prove by a majority that what was read of a subject is its last message.

A node that is cut off from a cluster considers itself the leader of its streams for up to ten more seconds
and answers `STREAM.MSG.GET` from what it had then. A majority may have elected another leader meanwhile. So
a read through the leader is no ground for "not there", "refused" or "nothing to do".

A write is: it is acknowledged only after a majority has stored it. `confirm` writes a mark whose headers say
what the last sequence of the other subject must be. The leader checks that in the same step. One mark is kept
per stream; readers of streams pass over it (`is_mark`).

A stream with one copy has no second opinion: there the read itself counts.
"""

from __future__ import annotations

from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.jetstream.headers import header_block

# The last token of the subject of a mark: `$` stands in no run id and in no key of ours.
MARK = "$confirm"
# How often a subject is read again because another message came between reading and confirming.
CONFIRM_TRIES_MAX = 8

_HEADER = b"Pyoco-Confirm:"


def is_mark(headers: bytes) -> bool:
    """Whether this message of a stream is a mark and nothing that its readers are interested in."""
    return _HEADER in headers


async def wait_for_majority(jetstream: JetStream, stream: str, mark: str) -> bool:
    """Return when a majority has answered: what a node has shown before may be old, and is read again.

    False: there is one copy, and what was read is what there is. Raises Unavailable where none answers.
    """
    if jetstream.replicas.get(stream) == 1:
        return False
    await jetstream.publish(mark, b"", _headers(stream))
    return True


async def confirm(jetstream: JetStream, stream: str, mark: str, subject: str, seq: int) -> bool:
    """Whether `seq` is the last sequence of `subject` (0: it has no message), as a majority knows.

    `mark`: a subject of the same stream that ends with MARK. Raises Unavailable where no majority answers.
    """
    if jetstream.replicas.get(stream) == 1:
        return True
    headers = _headers(
        subject,
        Nats_Expected_Last_Subject_Sequence=seq,
        Nats_Expected_Last_Subject_Sequence_Subject=subject,
    )

    async def is_stored() -> bool:
        try:
            await jetstream.publish(mark, b"", headers)
        except WrongSequence:
            return False
        return True

    # The broker takes one at a time for a subject, and holds up commits to it for so long (10164).
    return await jetstream.confirming.ask(f"{subject} {seq}", is_stored)


def _headers(what: str, **expected: str | int) -> bytes:
    """`KV-Operation`: so that other readers of a bucket take the mark for a deleted key."""
    return header_block(Pyoco_Confirm=what, KV_Operation="PURGE", Nats_Rollup="sub", **expected)
