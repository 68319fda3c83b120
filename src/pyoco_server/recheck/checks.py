"""Validates members of JSON objects. Each function returns the value, or raises Invalid with its place."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pyoco_server.errors import Invalid
from pyoco_server.printable import has_control_beside_breaks

_MISSING: Any = object()


def invalid(place: str, problem: str) -> Invalid:
    message = f"{place} {problem}"
    return Invalid(message, details=[{"loc": place.split("."), "msg": problem, "type": "value_error"}])


def object_at(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise invalid(place, "must be an object.")
    return value


def text_at(value: Any, place: str, least: int, most: int) -> str:
    if not isinstance(value, str) or not least <= len(value) <= most:
        raise invalid(place, f"must be text of {least} to {most} characters.")
    if has_control_beside_breaks(value):
        raise invalid(place, "may not have control characters, other than line breaks and tabs.")
    return value


def whole_number_at(value: Any, place: str, least: int, most: int) -> int:
    """`14.0` is accepted as 14: both have the same digest, so they must have the same meaning."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or value != value or value in (float("inf"), float("-inf")) or int(value) != value:
        raise invalid(place, f"must be a whole number, {least} to {most}.")
    if not least <= value <= most:
        raise invalid(place, f"must be {least} to {most}.")
    return int(value)


def flag_at(value: Any, place: str) -> bool:
    if not isinstance(value, bool):
        raise invalid(place, "must be true or false.")
    return value


def texts_at(value: Any, place: str, *, most: int, chars_max: int) -> tuple[str, ...]:
    """A list of strings without duplicates, in the order of first occurrence."""
    if not isinstance(value, list) or len(value) > most:
        raise invalid(place, f"must be a list of at most {most} texts.")
    for number, one in enumerate(value):
        text_at(one, f"{place}.{number}", 1, chars_max)
    return tuple(dict.fromkeys(value))


def check_known(texts: Collection[str], place: str, known: Collection[str]) -> None:
    strange = [one for one in texts if one not in known]
    if strange:
        raise invalid(place, f"may hold {', '.join(known)}; not {strange[0]!r}.")


def member(members: Mapping[str, Any], name: str, default: Any = _MISSING) -> Any:
    value = members.get(name, default)
    if value is _MISSING:
        raise invalid(name, "is missing.")
    return value
