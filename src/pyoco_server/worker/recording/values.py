"""What of a task's inputs and result can be written down, and what is written where it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from pyoco_server.lifecycle.status import OutputKept
from pyoco_server.worker.recording.types_kept import Inexact, Types, described, restored

OUTPUT_INLINE_BYTES_MAX = 64 * 1024
INPUTS_INLINE_BYTES_MAX = 16 * 1024
REPR_CHARS_MAX = 1000
NOTHING = b"null"  # what a number that JSON does not know (NaN, infinity) becomes

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class StoredResult(NamedTuple):
    """A task's result as it is recorded: its JSON, how it is kept, and types that JSON does not have."""

    json: bytes | None
    kept: OutputKept = OutputKept.STORED
    types: Types | None = None


def result_of(output: Any, bytes_max: int) -> StoredResult:
    """The log gets its own copy: user code may change the object after it returned it."""
    if output is None:
        return StoredResult(None)  # as the log reads it back: the sums in a run count its bytes
    encoded = _encoded(output)
    if encoded is None or encoded == NOTHING:
        return StoredResult(_encode(_described(output)), OutputKept.UNSERIALISABLE)
    if len(encoded) > bytes_max:
        return StoredResult(None, OutputKept.TOO_LARGE)
    try:
        types = _types(output, encoded)
    except Exception:  # user code: __eq__ may raise. What cannot be restored is executed again
        if len(encoded) > OUTPUT_INLINE_BYTES_MAX:
            return StoredResult(None, OutputKept.TOO_LARGE)
        return StoredResult(encoded, OutputKept.APPROXIMATE)
    kept = OutputKept.REFERENCED if len(encoded) > OUTPUT_INLINE_BYTES_MAX else OutputKept.STORED
    return StoredResult(encoded, kept, types)


def results_from(recorded: bytes) -> dict[str, Any]:
    """The results of `{task: [JSON, types]}`, as they were when they were returned."""
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
            described = _described(value) if size <= INPUTS_INLINE_BYTES_MAX else _kind(value)
            kept[name] = described
            size += len(described)
    return kept, size


def _types(output: Any, encoded: bytes) -> Types | None:
    """Raises when the result could not be had again from its JSON."""
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


def _described(value: Any) -> str:
    """A repr is user code: it may raise anything, and return text that cannot be encoded."""
    try:
        return repr(value)[:REPR_CHARS_MAX].encode("utf-8", "backslashreplace").decode()
    except Exception:  # user code: __repr__ may raise anything
        return _kind(value)


def _kind(value: Any) -> str:
    return f"<{type(value).__name__}>"
