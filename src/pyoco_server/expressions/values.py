"""Which values operators accept: plain data without code of its own.

A task may return any object. To compare it would call its methods, so operators accept only the types listed
here. Numbers of other libraries are converted; subclasses of text and numbers are converted to their
base types.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import numbers
import uuid
from typing import Any

# Of the operands of one operator, with the members of lists and mappings.
VALUES_MAX = 1_000_000
DEPTH_MAX = 100

_SCALARS = frozenset({
    type(None), bool, int, float, str, bytes, decimal.Decimal, fractions.Fraction, uuid.UUID,
    datetime.datetime, datetime.date, datetime.time, datetime.timedelta,
})  # fmt: skip


class NotPlain(TypeError):
    """The message names the type of the value, or the limit that it exceeds."""


def plain(value: Any) -> Any:
    """The same value, made of the known types only. Raises NotPlain."""
    return value if type(value) in _SCALARS else _Plain().of(value, 0)


class _Plain:
    def __init__(self) -> None:
        self._left = VALUES_MAX

    def of(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind in _SCALARS:
            return value
        if isinstance(value, list | tuple | dict | set | frozenset):
            return self._contained(value, depth)
        return _scalar(value)

    def _contained(self, value: Any, depth: int) -> Any:
        base = next(kind for kind in (list, tuple, dict, set, frozenset) if isinstance(value, kind))
        self._left -= base.__len__(value)
        if self._left < 0 or depth >= DEPTH_MAX:
            raise NotPlain(
                f"An operator takes at most {VALUES_MAX} values, nested at most {DEPTH_MAX} deep; "
                "compute it in a task."
            )
        if base is dict:
            pairs = dict.items(value)
            return {self.of(key, depth + 1): self.of(one, depth + 1) for key, one in pairs}
        return base(self.of(one, depth + 1) for one in base.__iter__(value))


def _scalar(value: Any) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    raise NotPlain(
        f"An operator takes text, numbers, times, lists and mappings, no {type(value).__name__}; "
        "return such a value from the task."
    )
