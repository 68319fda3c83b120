"""Prove by a majority that what was read of a subject is its last message.

A node that is cut off from a cluster considers itself the leader of its streams for up to ten more seconds
and answers `STREAM.MSG.GET` with old data. A majority may have elected another leader meanwhile. So a read
through the leader does not prove "not there", "refused" or "nothing to do".

A write does: it is acknowledged only after a majority has stored it. `confirm` writes a mark whose headers
contain the expected last sequence of the other subject. The leader checks it in the same step. One mark is
kept per stream; readers of streams skip it (`is_mark`).

In a stream with one copy the read itself is the proof.
"""

from __future__ import annotations

from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.jetstream.headers import header_block

# The last token of the subject of a mark: no run id and no key of the product contains `$`.
MARK = "$confirm"
# How often a subject is read again because another message came between reading and confirming.
CONFIRM_TRIES_MAX = 8

_HEADER = b"Pyoco-Confirm:"


def is_mark(headers: bytes) -> bool:
    """Whether this message of a stream is a mark, which its readers skip."""
    return _HEADER in headers


async def wait_for_majority(jetstream: JetStream, stream: str, mark: str) -> bool:
    """Return when a majority has answered. Data that was read before may be old and must be read again.

    False: there is one copy, and what was read is current. Raises Unavailable if no majority answers.
    """
    if jetstream.replicas.get(stream) == 1:
        return False
    await jetstream.publish(mark, b"", _headers(stream))
    return True


async def confirm(jetstream: JetStream, stream: str, mark: str, subject: str, seq: int) -> bool:
    """Whether `seq` is the last sequence of `subject` (0: it has no message), confirmed by a majority.

    `mark`: a subject of the same stream that ends with MARK. Raises Unavailable if no majority answers.
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

    # The broker accepts one at a time per subject, and delays commits to it meanwhile (10164).
    return await jetstream.confirming.ask(f"{subject} {seq}", is_stored)


def _headers(what: str, **expected: str | int) -> bytes:
    """`KV-Operation`: other readers of a bucket then treat the mark as a deleted key."""
    return header_block(Pyoco_Confirm=what, KV_Operation="PURGE", Nats_Rollup="sub", **expected)
