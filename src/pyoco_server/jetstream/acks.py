"""The reply subject of a delivery, which contains its sequences and its time.

Up to nats-server 2.14 it has nine parts; later versions have two more (domain and account) before them.
"""

from __future__ import annotations

from typing import NamedTuple

_PARTS_OF_THE_OLD_FORM = 9


class DeliveryPosition(NamedTuple):
    delivered: int
    stream_seq: int
    consumer_seq: int
    stored_at: bytes  # the broker's time, in nanoseconds


def position_of(reply: bytes) -> DeliveryPosition:
    parts = reply.split(b".")
    skip = 4 if len(parts) == _PARTS_OF_THE_OLD_FORM else 6
    return DeliveryPosition(int(parts[skip]), int(parts[skip + 1]), int(parts[skip + 2]), parts[skip + 3])
