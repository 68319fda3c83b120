"""What each operator does. Operators that can make large values from small ones are limited.

Operators accept plain data without code of its own. A task may return any object, and to compare it would
call its methods, so only the types listed here are accepted. Numbers of other libraries are converted;
subclasses of text and numbers are converted to their base types.
"""

from __future__ import annotations

import ast
import datetime
import decimal
import fractions
import numbers
import operator
import uuid
from collections.abc import Callable
from typing import Any

INTEGER_BITS_MAX = 4096
MADE_ITEMS_MAX = 100_000  # characters or items of a value that an operator makes

_ROWS = (str, bytes, list, tuple)
# Of the operands of one operator, with the members of lists and mappings.
VALUES_MAX = 1_000_000
DEPTH_MAX = 100

_SCALARS = frozenset({
    type(None), bool, int, float, str, bytes, decimal.Decimal, fractions.Fraction, uuid.UUID,
    datetime.datetime, datetime.date, datetime.time, datetime.timedelta,
})  # fmt: skip


class TooCostly(ValueError):
    """The result would be too large; the message names the limit."""


def _add(left: Any, right: Any) -> object:
    if isinstance(left, _ROWS) and isinstance(right, _ROWS):
        _check_items(len(left) + len(right))
    return left + right


def _multiply(left: Any, right: Any) -> object:
    for row, times in ((left, right), (right, left)):
        if isinstance(row, _ROWS) and isinstance(times, int):
            _check_items(len(row) * max(times, 0))
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + right.bit_length())
    return left * right


def _power(left: Any, right: Any) -> object:
    if isinstance(left, complex) or not isinstance(right, int | float):
        raise TypeError("** takes numbers, and an exponent that is a whole number or a float")
    if isinstance(right, int) and not isinstance(left, float):
        _check_bits(_bits(left) * abs(right))
    made = left**right
    if isinstance(made, complex):
        raise ValueError("the result is no real number")
    return made


def _modulo(left: Any, right: Any) -> object:
    if isinstance(left, str | bytes):
        raise TypeError("% does not format text; do it in a task")
    return left % right


def _bits(value: object) -> int:
    """About how many bits a number has; of a fraction, its longer part. Decimals have their own limit."""
    if isinstance(value, int):
        return value.bit_length()
    numerator, denominator = getattr(value, "numerator", 0), getattr(value, "denominator", 0)
    return int(max(numerator.bit_length(), denominator.bit_length()))


def _check_items(count: int) -> None:
    if count > MADE_ITEMS_MAX:
        raise TooCostly(f"the result has more than {MADE_ITEMS_MAX} characters or items; do it in a task")


def _check_bits(bits: int) -> None:
    if bits > INTEGER_BITS_MAX:
        raise TooCostly(f"the result has more than {INTEGER_BITS_MAX} bits; do it in a task")


BINARY: dict[type[ast.AST], Callable[[Any, Any], object]] = {
    ast.Add: _add,
    ast.Sub: operator.sub,
    ast.Mult: _multiply,
    ast.Div: operator.truediv,
    ast.Mod: _modulo,
    ast.Pow: _power,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, container: item in container,
    ast.NotIn: lambda item, container: item not in container,
}
UNARY: dict[type[ast.AST], Callable[[Any], object]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def binary(sign: ast.AST, left: object, right: object) -> object:
    return BINARY[type(sign)](plain(left), plain(right))


def unary(sign: ast.AST, value: object) -> object:
    return UNARY[type(sign)](value if isinstance(sign, ast.Not) else plain(value))


class NotPlain(TypeError):
    """The message names the type of the value, or the limit that it exceeds."""


def plain(value: object) -> object:
    """The same value, made of the known types only. Raises NotPlain."""
    return value if type(value) in _SCALARS else _Plain().of(value, 0)


class _Plain:
    def __init__(self) -> None:
        self._left = VALUES_MAX

    def of(self, value: object, depth: int) -> Any:
        kind = type(value)
        if kind in _SCALARS:
            return value
        if isinstance(value, list | tuple | dict | set | frozenset):
            return self._contained(value, depth)
        return _scalar(value)

    def _contained(self, value: Any, depth: int) -> object:
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


def _scalar(value: object) -> object:
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
