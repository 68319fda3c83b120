"""Time spans in requests: the window of a recheck, and the range of a list. Both ends are included."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from pyoco_server.recheck.checks import invalid, object_at, whole_number_at

DAYS_MAX = 180

_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def window_at(value: Any, place: str) -> dict[str, Any]:
    """The validated window, unchanged."""
    window = object_at(value, place)
    has_ends = "from" in window or "to" in window
    if has_ends == ("lookback_days" in window):
        raise invalid(place, "needs from and to, or lookback_days; never both.")
    if not has_ends:
        days = whole_number_at(window["lookback_days"], f"{place}.lookback_days", 1, DAYS_MAX)
        return {"lookback_days": days}
    _check_ends(window, place)
    return {"from": window["from"], "to": window["to"]}


def instant_at(value: Any, place: str, *, ends_day: bool) -> datetime:
    """RFC 3339. A date alone is its first or, with `ends_day`, its last instant."""
    try:
        if isinstance(value, str) and _DAY.fullmatch(value):
            return datetime.combine(date.fromisoformat(value), time.max if ends_day else time.min, UTC)
        if isinstance(value, str) and _INSTANT.fullmatch(value):
            return datetime.fromisoformat(value.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise invalid(place, "must be an instant of RFC 3339, like 2025-08-24T03:34:56Z.")


def _check_ends(window: Mapping[str, Any], place: str) -> None:
    for end in ("from", "to"):
        if end not in window:
            raise invalid(f"{place}.{end}", "is missing.")
    begin = instant_at(window["from"], f"{place}.from", ends_day=False)
    end_at = instant_at(window["to"], f"{place}.to", ends_day=True)
    if begin > end_at:
        raise invalid(place, "is invalid: from must not be after to.")
    if end_at - begin > timedelta(days=DAYS_MAX):
        raise invalid(place, f"is invalid: it may span at most {DAYS_MAX} days.")
