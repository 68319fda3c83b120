"""When runs are planned: once, at a fixed interval, or by local time; with a first and a last instant.

A schedule is due once (`run_at`), at a fixed interval (`interval_seconds`, counted from `start_at`), or by
local time (`cron` in a `timezone`). A planned instant is called an occurrence. With a jitter its run starts
later than planned, by a part of the jitter that follows from the schedule and the instant.
"""

from __future__ import annotations

import hashlib
import math
import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import msgspec

if TYPE_CHECKING:
    from croniter import croniter

CRON_CHARS_MAX = 128
ZONE_DEFAULT = "UTC"
# Counting the occurrences of a cron expression takes about 60 µs each.
COUNTED_MAX = 10_000
# The instants that have a date in every time zone, and room for a step before and after.
FIRST_DATED, LAST_DATED = -62_135_000_000.0, 253_402_000_000.0

_NAMES = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat"
# A subset of what the library accepts: no columns for seconds and years, no random fields.
_FIELD = re.compile(rf"(?:[0-9*/,#?L-]|{_NAMES})+", re.IGNORECASE)
_ZONE = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")
_HOUR = 1
# The name of each field, and its values.
_CRON_FIELDS = (
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of month", "1 to 31"),
    ("month", "1 to 12 or jan to dec"),
    ("day of week", "0 to 7 or sun to sat"),
)


class ScheduleKind(StrEnum):
    ONCE = "once"
    INTERVAL = "interval"
    CRON = "cron"


class Timing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When runs are planned. The kind decides which members are set.

    `start_at`: of an interval, the instant that it counts from. No occurrence is before it, and none after
    `end_at`.
    """

    kind: ScheduleKind
    run_at: float | None = None
    interval_seconds: float | None = None
    start_at: float | None = None
    cron: str | None = None
    timezone: str | None = None
    end_at: float | None = None
    jitter_seconds: float = 0.0


def next_instant(timing: Timing, after: float) -> float | None:
    """The first planned instant later than `after`; None if there is none."""
    return _until_end(timing, _next(timing, after))


def next_instants(timing: Timing, after: float, count: int) -> list[float]:
    """The first planned instants later than `after`, at most `count`."""
    found: list[float] = []
    steps = _CronSteps(timing, after) if timing.kind is ScheduleKind.CRON else None
    while len(found) < count:
        following = (
            _until_end(timing, steps.next(after)) if steps is not None else next_instant(timing, after)
        )
        if following is None:
            break
        found.append(following)
        after = following
    return found


def latest_instant(timing: Timing, known: float, until: float) -> float:
    """The latest planned instant that is not after `until`. `known`: one of them."""
    latest, end = known, until
    # A binary search: a year of missed minutes takes about twenty steps.
    while (following := next_instant(timing, latest)) is not None and following <= until:
        latest = following
        middle = (latest + end) / 2
        later = next_instant(timing, middle)
        if later is not None and later <= until:
            latest = later
        else:
            end = middle
    return latest


def count_instants(timing: Timing, first: float, last: float) -> int | None:
    """How many planned instants there are from one to another, both included. None: over `COUNTED_MAX`."""
    count = 1
    if timing.kind is ScheduleKind.INTERVAL:
        assert timing.interval_seconds is not None
        count += round((last - first) / timing.interval_seconds)
    elif timing.kind is ScheduleKind.CRON and last > first:
        steps, following = _CronSteps(timing, first), first
        while count <= COUNTED_MAX and (following := steps.next(following) or math.inf) <= last:
            count += 1
    return count if count <= COUNTED_MAX else None


def starts_at(schedule_id: str, timing: Timing, planned_at: float) -> float:
    """When the run of an occurrence starts: with a jitter later than planned, never after the next one."""
    if not timing.jitter_seconds:
        return planned_at
    following = _next(timing, planned_at)
    room = math.inf if following is None else following - planned_at
    digest = hashlib.sha256(f"{schedule_id}/{planned_at:.6f}".encode()).digest()
    part = int.from_bytes(digest[:4]) / 2**32
    return planned_at + part * min(timing.jitter_seconds, room)


def _until_end(timing: Timing, instant: float | None) -> float | None:
    if instant is None or (timing.end_at is not None and instant > timing.end_at):
        return None
    return instant


def _next(timing: Timing, after: float) -> float | None:
    """Also after the end."""
    match timing.kind:
        case ScheduleKind.ONCE:
            assert timing.run_at is not None
            return timing.run_at if timing.run_at > after else None
        case ScheduleKind.INTERVAL:
            return _next_of_interval(timing, after)
        case ScheduleKind.CRON:
            return _CronSteps(timing, after).next(after)


def zone_of(name: str) -> ZoneInfo | None:
    """None if there is no such time zone."""
    if not _ZONE.fullmatch(name):
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, not a zone's file, or a folder of them
        return None


def is_cron(expression: str) -> bool:
    """Five fields: minute, hour, day of month, month, day of week."""
    fields = expression.split()
    if len(expression) > CRON_CHARS_MAX or len(fields) != 5 or not all(map(_FIELD.fullmatch, fields)):
        return False
    try:
        _steps(expression, datetime.fromtimestamp(0, UTC))
    except ValueError:
        return False
    return True


def bad_cron_field(expression: str) -> tuple[str, str] | None:
    """The name and the values of the first field that is not valid. None: it does not have five fields."""
    fields = expression.split()
    if len(expression) > CRON_CHARS_MAX or len(fields) != len(_CRON_FIELDS):
        return None
    for number, (field, about) in enumerate(zip(fields, _CRON_FIELDS, strict=True)):
        alone = ["*"] * len(_CRON_FIELDS)
        alone[number] = field
        if not is_cron(" ".join(alone)):
            return about
    return None


def _next_of_interval(timing: Timing, after: float) -> float:
    assert timing.start_at is not None
    assert timing.interval_seconds is not None
    number = max(0, int((after - timing.start_at) / timing.interval_seconds) - 1)
    # Counted from the start, not from the instant before: rounding errors do not add up.
    while (instant := round(timing.start_at + number * timing.interval_seconds, 6)) <= after:
        number += 1
    return instant


class _CronSteps:
    """The instants of one cron expression in their order: it is parsed once."""

    def __init__(self, timing: Timing, after: float) -> None:
        assert timing.cron is not None
        self._cron = timing.cron
        self._zone = ZoneInfo(timing.timezone or ZONE_DEFAULT)
        self._start_at = -math.inf if timing.start_at is None else timing.start_at
        # A second before the start: the instant of the start itself is a step.
        begin = min(max(after, self._start_at - 1, FIRST_DATED), LAST_DATED)
        self._steps = _steps(timing.cron, datetime.fromtimestamp(begin, self._zone))

    def next(self, after: float) -> float | None:
        try:
            while True:
                planned: datetime = self._steps.get_next(datetime)
                instant = planned.timestamp()
                if instant <= after or instant < self._start_at:
                    continue
                if not _is_repeated(self._cron, planned, self._zone):
                    return instant
        except (ValueError, OverflowError):
            return None  # like the 30th of February, or after the year 9999


def _is_repeated(cron: str, planned: datetime, zone: ZoneInfo) -> bool:
    """In the repeated hour in autumn, a cron with a fixed hour runs once, an hourly one twice."""
    local = datetime.fromtimestamp(planned.timestamp(), zone)
    return local.fold == 1 and "*" not in cron.split()[_HOUR]


def _steps(cron: str, after: datetime) -> croniter:
    """Imported when needed: it takes a tenth of a second, which workers and clients save."""
    from croniter import croniter

    return croniter(cron, after)
