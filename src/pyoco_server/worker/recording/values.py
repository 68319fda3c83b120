"""A task's inputs and result as JSON, and what is recorded where that is not possible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from pyoco_server.engine.tasks.failure import Failure, describe, try_call
from pyoco_server.lifecycle.status import OutputKept
from pyoco_server.worker.recording.types_kept import Inexact, Types, described, restored

OUTPUT_INLINE_BYTES_MAX = 64 * 1024
INPUTS_INLINE_BYTES_MAX = 16 * 1024
REPR_CHARS_MAX = 1000
NOTHING = b"null"  # the encoding of a number that JSON does not have (NaN, infinity)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class StoredResult(NamedTuple):
    """A task's result as it is recorded: its JSON, how it is stored, and types that JSON does not have."""

    json: bytes | None
    kept: OutputKept = OutputKept.STORED
    types: Types | None = None


def result_of(output: Any, bytes_max: int) -> StoredResult:
    """Encoded at once: user code may change the object after it returned it."""
    if output is None:
        return StoredResult(None)  # as it is read from the log: the sums in a run count its bytes
    encoded = _encoded(output)
    if encoded is None or encoded == NOTHING:
        return StoredResult(_encode(_repr(output)), OutputKept.UNSERIALISABLE)
    if len(encoded) > bytes_max:
        return StoredResult(None, OutputKept.TOO_LARGE)
    types = try_call(_types, output, encoded, on_error=describe)  # calls __eq__ of user code
    if isinstance(types, Failure):  # it cannot be restored: the task is executed again
        if len(encoded) > OUTPUT_INLINE_BYTES_MAX:
            return StoredResult(None, OutputKept.TOO_LARGE)
        return StoredResult(encoded, OutputKept.APPROXIMATE)
    kept = OutputKept.REFERENCED if len(encoded) > OUTPUT_INLINE_BYTES_MAX else OutputKept.STORED
    return StoredResult(encoded, kept, types)


def results_from(recorded: bytes) -> dict[str, Any]:
    """The results of `{task: [JSON, types]}`, as the tasks have returned them."""
    found: dict[str, tuple[Any, Any]] = _decode(recorded)
    return {name: restored(value, types) for name, (value, types) in found.items()}


def inputs_kept(inputs: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    kept: dict[str, Any] = {}
    size = 0
    for name, value in inputs.items():
        encoded = _encoded(value)
        if encoded is not None and size + len(encoded) <= INPUTS_INLINE_BYTES_MAX:
            kept[name] = msgspec.Raw(encoded)
            size += len(encoded)
        else:
            text = _repr(value) if size <= INPUTS_INLINE_BYTES_MAX else _kind(value)
            kept[name] = text
            size += len(text)
    return kept, size


def _types(output: Any, encoded: bytes) -> Types | None:
    """Raises if the result cannot be restored from its JSON."""
    if type(output) is str:
        return None
    back = _decode(encoded)
    if back == output:
        return None
    types = described(output)
    if restored(back, types) != output or len(_encode(types)) > OUTPUT_INLINE_BYTES_MAX:
        raise Inexact
    return types


def _encoded(value: Any) -> bytes | None:
    try:
        return _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return None


def _repr(value: Any) -> str:
    """`__repr__` is user code: it may raise, and return text that cannot be encoded."""
    return try_call(
        lambda: repr(value)[:REPR_CHARS_MAX].encode("utf-8", "backslashreplace").decode(),
        on_error=lambda _: _kind(value),
    )


def _kind(value: Any) -> str:
    return f"<{type(value).__name__}>"
