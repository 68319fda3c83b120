"""The messages between a worker and its slots: msgpack with a length prefix, over a socket pair.

Values of user code are sent as JSON bytes, encoded in the slot: nothing is unpickled, and the worker never
loads the classes of user code.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from pyoco_server.json_value import JsonObject
from pyoco_server.lifecycle.commands import StartTask, SucceedTask
from pyoco_server.worker.recording.listener import TaskCommand

M = TypeVar("M")

LENGTH = struct.Struct("!I")
NOT_AWAITED = 0
# Before the first message to a slot: its group is guarded, so it may load and execute code of users.
GO_ON = b"g"


class _Message(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    pass


# To the slot


class UsePage(_Message, frozen=True, kw_only=True, tag=True, array_like=True):
    """Before the first run: where the slot opens its control page."""

    path: str


class RunFlow(_Message, frozen=True, kw_only=True, tag=True, array_like=True):
    """`number` names the run in all other messages; `lane` is its place in the control page."""

    number: int
    lane: int
    run_id: str
    fence: int
    attempts: dict[str, int]  # how often each task was tried before this claim
    flow_name: str
    params: bytes
    recorded: bytes
    metadata: JsonObject
    result_bytes_max: int
    timeout_sec: float | None
    workflow_yaml: str | None = None
    callable_packages: tuple[str, ...] = ()
    flow_env: tuple[str, ...] = ()  # environment variables that the text may read
    import_path: str | None = None  # the wheels of the run's tenant; a slot has one tenant
    failures: dict[str, str] = {}
    awaited: tuple[str, ...] = ()
    clock_offset: float | None = None  # from `clock.elapsed` to the broker's time
    may_start_until: float = -math.inf  # as in `MayStart`


class Stop(_Message, frozen=True, kw_only=True, tag=True, array_like=True):
    """A cancel: no further task starts, running ones are asked to return."""

    run: int


class AcknowledgeMessage(_Message, frozen=True, kw_only=True, tag=True, array_like=True):
    """The result with this number is in the log; tasks that wait for it may start."""

    run: int
    number: int


class MayStart(_Message, frozen=True, kw_only=True, tag=True, array_like=True):
    """Tasks may be started until then (`clock.elapsed`): no other worker can claim the run before."""

    run: int
    until: float
    clock_offset: float | None = None  # as measured last


class AnswerMessage(_Message, frozen=True, kw_only=True, tag=True, array_like=True):
    """A wait of the run has ended and is in the log: with its result as JSON, or with an error."""

    run: int
    task: str
    output: bytes
    error: str | None = None


ToSlot = UsePage | RunFlow | Stop | AcknowledgeMessage | MayStart | AnswerMessage


# From the slot


class Ready(_Message, frozen=True, kw_only=True, tag=True, array_like=True):
    """`flows`: those that the resolver lists, with a description each; empty if it lists none.

    `params`: their parameters, as far as they could be inspected.
    """

    flows: dict[str, str] = {}
    params: dict[str, list[JsonObject]] = {}


class BrokenMessage(_Message, frozen=True, kw_only=True, tag=True, array_like=True):
    """The resolver cannot be loaded."""

    error: str


class Reported(_Message, frozen=True, kw_only=True, tag=True, array_like=True):
    """A command for the log. `values`: values of user code (output, inputs, prompt), as JSON."""

    run: int
    command: TaskCommand
    values: bytes | None = None
    number: int = NOT_AWAITED  # otherwise it is acknowledged with this number


class Executed(_Message, frozen=True, kw_only=True, tag=True, array_like=True):
    """A start and the success that followed it, mostly of the same task: two reports in one message."""

    run: int
    started: StartTask
    inputs: bytes | None
    succeeded: SucceedTask
    output: bytes | None
    number: int = NOT_AWAITED


class Printed(_Message, frozen=True, kw_only=True, tag=True, array_like=True):
    """Whole lines, without their ends, of one task (None: the task is not known)."""

    run: int
    at: float
    stream: str
    task: str | None
    attempt: int | None
    lines: list[str]
    level: str | None = None


class EndedMessage(_Message, frozen=True, kw_only=True, tag=True, array_like=True):
    """`status` of the engine. A flow that could not be loaded: FAILED with its reason.

    Every run that was sent gets one, also a run that was taken back.
    """

    run: int
    status: str
    reason: str
    error: str | None = None
    task: str | None = None
    # Threads of the run are still in user code, or its processes still print.
    must_be_replaced: bool = False
    waiting: tuple[str, ...] = ()  # PARKED: which waits are open
    cause: JsonObject | None = None  # FAILED: the exception, as fields of a log line
    # How long its code was called: in all, and the longest time without a wait.
    code_sec: float = 0.0
    longest_sec: float = 0.0
    may_interleave: bool = False  # nothing in this run speaks against other runs beside it


FromSlot = Ready | BrokenMessage | Reported | Executed | Printed | EndedMessage

_encode = msgspec.msgpack.Encoder().encode
_decode_to: Callable[[bytearray], ToSlot] = msgspec.msgpack.Decoder(ToSlot).decode
_decode_from: Callable[[bytearray], FromSlot] = msgspec.msgpack.Decoder(FromSlot).decode


def frame(message: ToSlot | FromSlot) -> bytes:
    data = _encode(message)
    return LENGTH.pack(len(data)) + data


class MessageReader(Generic[M]):
    """Whole messages out of pieces of any size. The cost of a large message is linear in its size."""

    def __init__(self, decode: Callable[[bytearray], M]) -> None:
        self._decode = decode
        self._unread = bytearray()
        self._needed = LENGTH.size

    def read(self, data: bytes) -> list[M]:
        self._unread += data
        if len(self._unread) < self._needed:
            return []
        messages = []
        start, size, head = 0, len(self._unread), LENGTH.size
        while size - start >= head:
            (length,) = LENGTH.unpack_from(self._unread, start)
            end = start + head + length
            if end > size:
                break
            messages.append(self._decode(self._unread[start + head : end]))
            start = end
        del self._unread[:start]
        left = size - start
        self._needed = head + LENGTH.unpack_from(self._unread)[0] if left >= head else head
        return messages


def slot_reader() -> MessageReader[ToSlot]:
    return MessageReader(_decode_to)


def worker_reader() -> MessageReader[FromSlot]:
    return MessageReader(_decode_from)
