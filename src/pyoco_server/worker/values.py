"""What of a task's inputs and result can be written down, and what is written where it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pyoco_server.lifecycle.status import OutputKept

OUTPUT_INLINE_BYTES_MAX = 64 * 1024
INPUTS_INLINE_BYTES_MAX = 16 * 1024
REPR_CHARS_MAX = 1000
NOTHING = b"null"  # what a number that JSON does not know (NaN, infinity) becomes

_encode = msgspec.json.Encoder().encode


def output_kept(output: Any) -> tuple[Any, OutputKept, int]:
    """The value for the log, what became of it, and its size."""
    if output is None:
        return None, OutputKept.STORED, 0  # as the log reads it back: the sums in a run count its bytes
    encoded = _encoded(output)
    if encoded is None or encoded == NOTHING:
        return _described(output), OutputKept.UNSERIALISABLE, REPR_CHARS_MAX
    if len(encoded) > OUTPUT_INLINE_BYTES_MAX:
        return None, OutputKept.TOO_LARGE, 0
    # The log gets its own copy: user code may change the object after it returned it.
    return msgspec.Raw(encoded), OutputKept.STORED, len(encoded)


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


def _encoded(value: Any) -> bytes | None:
    try:
        return _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return None


def _described(value: Any) -> str:
    """A repr is user code: it may raise anything, and say what cannot be written."""
    try:
        return repr(value)[:REPR_CHARS_MAX].encode("utf-8", "backslashreplace").decode()
    except Exception:
        return _kind(value)


def _kind(value: Any) -> str:
    return f"<{type(value).__name__}>"
