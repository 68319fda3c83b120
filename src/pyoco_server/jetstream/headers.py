"""The header block of a NATS message and the reply subject of a delivery, as bytes without a dictionary."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

_VERSION = b"NATS/1.0"
_PARTS_OF_THE_OLD_FORM = 9


class DeliveryPosition(NamedTuple):
    delivered: int
    stream_seq: int
    consumer_seq: int
    stored_at: bytes  # the broker's time, in nanoseconds


def header_block(**fields: str | int) -> bytes:
    """`Nats_Msg_Id="x"` becomes `Nats-Msg-Id: x`. Values are ours: no line breaks in them."""
    return (_form(tuple(fields)) % tuple(fields.values())).encode()


def traced(correlation_id: str | None, traceparent: str | None) -> dict[str, str]:
    """The tracing fields of a message, for `header_block`."""
    fields = {"X_Correlation_Id": correlation_id, "traceparent": traceparent}
    return {name: value for name, value in fields.items() if value is not None}


@cache
def _form(names: tuple[str, ...]) -> str:
    """Cached: there are as many as calls of `header_block` in the code."""
    lines = "".join(f"{name.replace('_', '-')}: %s\r\n" for name in names)
    return f"{_VERSION.decode()}\r\n{lines}\r\n"


def status_of(block: bytes) -> int:
    """The inline status of a control message; 0 for an ordinary one."""
    if not block.startswith(_VERSION + b" "):
        return 0
    code = block[len(_VERSION) + 1 : len(_VERSION) + 4]
    return int(code) if code.isdigit() else 0


def value_of(block: bytes, name: bytes) -> str | None:
    start = block.find(b"\r\n" + name + b":")
    if start < 0:
        return None
    start += len(name) + 3
    end = block.find(b"\r\n", start)
    return block[start:end].strip().decode("utf-8", "replace")


def number_of(block: bytes, name: bytes) -> int:
    value = value_of(block, name)
    return int(value) if value and value.isdigit() else 0


def position_of(reply: bytes) -> DeliveryPosition:
    """From the reply subject of a delivery, which contains its sequences and its time.

    Up to nats-server 2.14 it has nine parts; later versions have two more (domain and account) before them.
    """
    parts = reply.split(b".")
    skip = 4 if len(parts) == _PARTS_OF_THE_OLD_FORM else 6
    return DeliveryPosition(int(parts[skip]), int(parts[skip + 1]), int(parts[skip + 2]), parts[skip + 3])
