"""Validates members of JSON objects. Each function returns the value, or raises Invalid with its place."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime, time, timedelta

from pyoco_server.errors import Invalid
from pyoco_server.printable import has_control_beside_breaks

DAYS_MAX = 180  # of a window

_MISSING = object()
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def invalid(place: str, problem: str) -> Invalid:
    message = f"{place} {problem}"
    return Invalid(message, details=[{"loc": place.split("."), "msg": problem, "type": "value_error"}])


def object_at(value: object, place: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise invalid(place, "must be an object.")
    return value


def text_at(value: object, place: str, least: int, most: int) -> str:
    if not isinstance(value, str) or not least <= len(value) <= most:
        raise invalid(place, f"must be text of {least} to {most} characters.")
    if has_control_beside_breaks(value):
        raise invalid(place, "may not have control characters, other than line breaks and tabs.")
    return value


def whole_number_at(value: object, place: str, least: int, most: int) -> int:
    """`14.0` is accepted as 14: both have the same digest, so they must have the same meaning."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_whole(value):
        raise invalid(place, f"must be a whole number, {least} to {most}.")
    if not least <= value <= most:
        raise invalid(place, f"must be {least} to {most}.")
    return int(value)


def _is_whole(value: float) -> bool:
    return value == value and value not in (float("inf"), float("-inf")) and int(value) == value


def flag_at(value: object, place: str) -> bool:
    if not isinstance(value, bool):
        raise invalid(place, "must be true or false.")
    return value


def texts_at(value: object, place: str, *, most: int, chars_max: int) -> tuple[str, ...]:
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


def member(members: Mapping[str, object], name: str, default: object = _MISSING) -> object:
    value = members.get(name, default)
    if value is _MISSING:
        raise invalid(name, "is missing.")
    return value


def window_at(value: object, place: str) -> dict[str, object]:
    """The time span of a recheck. Both ends are included."""
    window = object_at(value, place)
    has_ends = "from" in window or "to" in window
    if has_ends == ("lookback_days" in window):
        raise invalid(place, "needs from and to, or lookback_days; never both.")
    if not has_ends:
        days = whole_number_at(window["lookback_days"], f"{place}.lookback_days", 1, DAYS_MAX)
        return {"lookback_days": days}
    _check_ends(window, place)
    return {"from": window["from"], "to": window["to"]}


def instant_at(value: object, place: str, *, ends_day: bool) -> datetime:
    """RFC 3339. A date alone is its first or, with `ends_day`, its last instant."""
    try:
        if isinstance(value, str) and _DAY.fullmatch(value):
            return datetime.combine(date.fromisoformat(value), time.max if ends_day else time.min, UTC)
        if isinstance(value, str) and _INSTANT.fullmatch(value):
            return datetime.fromisoformat(value.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise invalid(place, "must be an instant of RFC 3339, like 2025-08-24T03:34:56Z.")


def _check_ends(window: Mapping[str, object], place: str) -> None:
    for end in ("from", "to"):
        if end not in window:
            raise invalid(f"{place}.{end}", "is missing.")
    begin = instant_at(window["from"], f"{place}.from", ends_day=False)
    end_at = instant_at(window["to"], f"{place}.to", ends_day=True)
    if begin > end_at:
        raise invalid(place, "is invalid: from must not be after to.")
    if end_at - begin > timedelta(days=DAYS_MAX):
        raise invalid(place, f"is invalid: it may span at most {DAYS_MAX} days.")
