"""JSON values: what counts as a number, and when two are the same. Pure.

1 and 1.0 are the same, true and 1 are not.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable


def comparable(value: object, count: Callable[[int], None]) -> Hashable:
    """Equal for equal JSON values. `count` receives the number of values that were looked at."""
    match value:
        case bool():
            return ("bool", value)
        case {**members}:
            count(len(members))
            return ("object", frozenset((name, comparable(one, count)) for name, one in members.items()))
        case [*items]:
            count(len(items))
            return ("array", tuple(comparable(one, count) for one in items))
        case str() | int() | float() | None:
            return value
        case _:
            raise TypeError(f"not a JSON value: {type(value).__name__}")


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_integer(value: object) -> bool:
    return is_number(value) and (isinstance(value, int) or float(str(value)).is_integer())
