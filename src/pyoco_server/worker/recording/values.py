"""A task's inputs and result as JSON, and what is recorded where that is not possible.

A checkpoint restores types that JSON does not have (a tuple becomes a list). Their description is stored
beside the JSON where it is needed: `{"is": "tuple"}`, with `each` if all children are alike and `at` for
those that differ. A reader of the JSON can ignore it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from pyoco_server.engine.tasks.failure import Failure, describe, try_call
from pyoco_server.lifecycle.status import OutputKept

OUTPUT_INLINE_BYTES_MAX = 64 * 1024
INPUTS_INLINE_BYTES_MAX = 16 * 1024
REPR_CHARS_MAX = 1000
NOTHING = b"null"  # the encoding of a number that JSON does not have (NaN, infinity)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

# An integer up to this is the same in every reader of JSON.
_EXACT_INT_MAX = 2**53

Types = dict[str, Any]

_PLAIN = (str, int, float, bool, type(None))
_TEXT_KINDS: dict[str, type] = {
    kind.__name__: kind for kind in (bytes, datetime, date, time, timedelta, Decimal, UUID)
}
_COLLECTIONS: dict[str, Callable[[Iterable[object]], object]] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}
_INT_KEYS = "int_keys"


class StoredResult(NamedTuple):
    """A task's result as it is recorded: its JSON, how it is stored, and types that JSON does not have."""

    json: bytes | None
    kept: OutputKept = OutputKept.STORED
    types: Types | None = None


def result_of(output: object, bytes_max: int) -> StoredResult:
    """Encoded at once: user code may change the object after it returned it."""
    if output is None:
        return StoredResult(None)  # as it is read from the log: the sums in a run count its bytes
    encoded = _encoded(output)
    if encoded is None or encoded == NOTHING:
        return StoredResult(_encode(_repr(output)), OutputKept.UNSERIALISABLE)
    if len(encoded) > bytes_max:
        return StoredResult(None, OutputKept.TOO_LARGE)
    # Calls __eq__ of user code.
    types = None if _is_exact(output) else try_call(_types, output, encoded, on_error=describe)
    if isinstance(types, Failure):  # it cannot be restored: the task is executed again
        if len(encoded) > OUTPUT_INLINE_BYTES_MAX:
            return StoredResult(None, OutputKept.TOO_LARGE)
        return StoredResult(encoded, OutputKept.APPROXIMATE)
    kept = OutputKept.REFERENCED if len(encoded) > OUTPUT_INLINE_BYTES_MAX else OutputKept.STORED
    return StoredResult(encoded, kept, types)


def results_from(recorded: bytes) -> dict[str, object]:
    """The results of `{task: [JSON, types]}`, as the tasks have returned them."""
    found: dict[str, tuple[object, Any]] = _decode(recorded)
    return {name: _restored(value, types) for name, (value, types) in found.items()}


def inputs_kept(inputs: Mapping[str, object]) -> tuple[dict[str, object], int]:
    kept: dict[str, object] = {}
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


def _types(output: object, encoded: bytes) -> Types | None:
    """Raises if the result cannot be restored from its JSON."""
    back = _decode(encoded)
    if back == output:
        return None
    types = _described(output)
    if _restored(back, types) != output or len(_encode(types)) > OUTPUT_INLINE_BYTES_MAX:
        raise _Inexact
    return types


def _is_exact(output: object) -> bool:
    """JSON keeps it as it is; most results are one of these."""
    kind = type(output)
    if kind is int and isinstance(output, int):
        return -_EXACT_INT_MAX <= output <= _EXACT_INT_MAX
    return kind is str or kind is bool


def _encoded(value: object) -> bytes | None:
    try:
        return _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return None


def _repr(value: object) -> str:
    """`__repr__` is user code: it may raise, and return text that cannot be encoded."""
    return try_call(
        lambda: repr(value)[:REPR_CHARS_MAX].encode("utf-8", "backslashreplace").decode(),
        on_error=lambda _: _kind(value),
    )


def _kind(value: object) -> str:
    return f"<{type(value).__name__}>"


class _Inexact(Exception):
    """This value cannot be restored from its JSON."""


def _described(value: Any) -> Types | None:
    """None if JSON keeps the value as it is. Raises if there is no description."""
    kind = type(value)
    if kind in _PLAIN:
        return None
    if kind is dict:
        return _described_dict(value)
    if kind is list or (kind.__name__ in _COLLECTIONS and kind in (tuple, set, frozenset)):
        node = _children(enumerate(value))
        return node or None if kind is list else node | {"is": kind.__name__}
    if _TEXT_KINDS.get(kind.__name__) is kind:
        return {"is": kind.__name__}
    raise _Inexact(kind.__name__)


def _restored(value: Any, types: Types | None) -> object:
    if types is None:
        return value
    each, at = types.get("each"), types.get("at", {})
    if isinstance(value, list):
        value = [_restored(item, at.get(str(index), each)) for index, item in enumerate(value)]
    elif isinstance(value, dict):
        value = {key: _restored(item, at.get(key, each)) for key, item in value.items()}
    kind = types.get("is")
    if kind is None:
        return value
    if kind == _INT_KEYS:
        return {int(key): item for key, item in value.items()}
    if kind in _COLLECTIONS:
        return _COLLECTIONS[kind](value)
    return msgspec.convert(value, _TEXT_KINDS[kind], strict=False)


def _described_dict(value: dict[object, object]) -> Types | None:
    node = _children((str(key), item) for key, item in value.items())
    if all(type(key) is str for key in value):
        return node or None
    if all(type(key) is int for key in value):
        return node | {"is": _INT_KEYS}
    raise _Inexact("dict")


def _children(items: Iterable[tuple[object, object]]) -> Types:
    nodes = {str(key): _described(item) for key, item in items}
    kinds = iter(nodes.values())
    first = next(kinds, None)
    if all(other == first for other in kinds):
        return {"each": first} if first else {}
    return {"at": {key: node for key, node in nodes.items() if node}}
