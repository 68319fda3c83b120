"""What a worker and its slots say to each other: msgpack behind a length, over a socket pair.

Values of user code travel as JSON bytes, made where the values are: nothing of theirs is unpickled, and the
parent never loads their classes.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from pyoco_server.lifecycle.status import OutputKept

LENGTH = struct.Struct("!I")


class _Message(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    pass


# To the slot


class RunFlow(_Message, frozen=True, kw_only=True, tag=True, array_like=True):
    run_id: str
    flow_name: str
    params: bytes
    recorded: bytes
    metadata: dict[str, Any]


class Stop(_Message, frozen=True, kw_only=True, tag=True, array_like=True):
    """A cancel: no further task starts, running ones are asked to return."""

    run_id: str


class Acknowledged(_Message, frozen=True, kw_only=True, tag=True, array_like=True):
    """The result with this number is in the log; what waits for it may start."""

    number: int


ToSlot = RunFlow | Stop | Acknowledged


# From the slot


class Ready(_Message, frozen=True, kw_only=True, tag=True, array_like=True):
    pass


class Broken(_Message, frozen=True, kw_only=True, tag=True, array_like=True):
    """The resolver cannot be loaded."""

    error: str


class Planned(_Message, frozen=True, kw_only=True, tag=True, array_like=True):
    tasks: list[str]
    loops: bool


class Started(_Message, frozen=True, kw_only=True, tag=True, array_like=True):
    task: str
    attempt: int
    inputs: bytes
    size: int


class Succeeded(_Message, frozen=True, kw_only=True, tag=True, array_like=True):
    task: str
    attempt: int
    started_at: float
    ended_at: float
    output: bytes | None
    kept: OutputKept
    number: int


class Failed(_Message, frozen=True, kw_only=True, tag=True, array_like=True):
    task: str
    attempt: int
    started_at: float
    ended_at: float
    error: str
    traceback: str
    will_retry: bool


class Cancelled(_Message, frozen=True, kw_only=True, tag=True, array_like=True):
    task: str


class Ended(_Message, frozen=True, kw_only=True, tag=True, array_like=True):
    """`status` of the engine. A flow that could not be had: FAILED with its reason."""

    status: str
    reason: str
    error: str | None = None
    task: str | None = None


FromSlot = Ready | Broken | Planned | Started | Succeeded | Failed | Cancelled | Ended

_encode = msgspec.msgpack.Encoder().encode
_decode_to: Any = msgspec.msgpack.Decoder(ToSlot).decode
_decode_from: Any = msgspec.msgpack.Decoder(FromSlot).decode


def frame(message: ToSlot | FromSlot) -> bytes:
    data = _encode(message)
    return LENGTH.pack(len(data)) + data


def for_slot(data: bytes) -> ToSlot:
    message: ToSlot = _decode_to(data)
    return message


def from_slot(data: bytes) -> FromSlot:
    message: FromSlot = _decode_from(data)
    return message
