"""Types that JSON does not have (a tuple becomes a list), and how they are restored from a checkpoint.

A description is stored beside the JSON where it is needed: `{"is": "tuple"}`, with `each` if all children are
alike and `at` for those that differ. A reader of the JSON can ignore it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

Types = dict[str, Any]

_PLAIN = (str, int, float, bool, type(None))
_TEXT_KINDS: dict[str, type] = {
    kind.__name__: kind for kind in (bytes, datetime, date, time, timedelta, Decimal, UUID)
}
_COLLECTIONS: dict[str, Callable[[Any], Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}
INT_KEYS = "int_keys"


class Inexact(Exception):
    """This value cannot be restored from its JSON."""


def described(value: Any) -> Types | None:
    """None if JSON keeps the value as it is. Raises Inexact."""
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
    raise Inexact(kind.__name__)


def restored(value: Any, types: Types | None) -> Any:
    if types is None:
        return value
    each, at = types.get("each"), types.get("at", {})
    if isinstance(value, list):
        value = [restored(item, at.get(str(index), each)) for index, item in enumerate(value)]
    elif isinstance(value, dict):
        value = {key: restored(item, at.get(key, each)) for key, item in value.items()}
    kind = types.get("is")
    if kind is None:
        return value
    if kind == INT_KEYS:
        return {int(key): item for key, item in value.items()}
    if kind in _COLLECTIONS:
        return _COLLECTIONS[kind](value)
    return msgspec.convert(value, _TEXT_KINDS[kind], strict=False)


def _described_dict(value: dict[Any, Any]) -> Types | None:
    node = _children((str(key), item) for key, item in value.items())
    if all(type(key) is str for key in value):
        return node or None
    if all(type(key) is int for key in value):
        return node | {"is": INT_KEYS}
    raise Inexact("dict")


def _children(items: Iterable[tuple[Any, Any]]) -> Types:
    nodes = {str(key): described(item) for key, item in items}
    kinds = iter(nodes.values())
    first = next(kinds, None)
    if all(other == first for other in kinds):
        return {"each": first} if first else {}
    return {"at": {key: node for key, node in nodes.items() if node}}
