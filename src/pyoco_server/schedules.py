"""Schedules: their stored form, and when their runs are planned. Pure: the current time is an argument.

A schedule is due once (`run_at`), at a fixed interval (`interval_seconds`, counted from `start_at`), or by
local time (`cron` in a `timezone`). After a downtime only the latest missed instant is made up.
"""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import msgspec
from msgspec.structs import replace

if TYPE_CHECKING:
    from croniter import croniter

CRON_CHARS_MAX = 128
ZONE_DEFAULT = "UTC"

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


class ScheduleStatus(StrEnum):
    ACTIVE = "ACTIVE"
    COMPLETED = "COMPLETED"


class Timing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When runs are planned. The kind decides which members are set."""

    kind: ScheduleKind
    run_at: float | None = None
    interval_seconds: float | None = None
    start_at: float | None = None
    cron: str | None = None
    timezone: str | None = None


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """`next_at`, `last_at`: planned instants. `last_submitted_at`: when a run was actually submitted.

    `beginning_at`: the planned instant whose run is being submitted. It is written before the submission;
    from then on the run is submitted, also if the schedule is deleted.
    """

    schedule_id: str
    flow_name: str
    tag: str
    timing: Timing
    workflow_yaml_sha256: str | None
    workflow_yaml_bytes: int | None
    tenant_id: str | None
    api_key_id: str | None
    created_at: float
    updated_at: float
    next_at: float | None
    status: ScheduleStatus = ScheduleStatus.ACTIVE
    last_at: float | None = None
    last_submitted_at: float | None = None
    last_run_id: str | None = None
    dispatch_count: int = 0
    last_error: str | None = None
    beginning_at: float | None = None


def next_instant(timing: Timing, after: float) -> float | None:
    """The first planned instant later than `after`; None if there is none."""
    match timing.kind:
        case ScheduleKind.ONCE:
            assert timing.run_at is not None
            return timing.run_at if timing.run_at > after else None
        case ScheduleKind.INTERVAL:
            return _next_of_interval(timing, after)
        case ScheduleKind.CRON:
            return _next_of_cron(timing, after)


def next_instants(timing: Timing, after: float, count: int) -> list[float]:
    """The first planned instants later than `after`, at most `count`."""
    found: list[float] = []
    steps = _CronSteps(timing, after) if timing.kind is ScheduleKind.CRON else None
    while len(found) < count:
        following = steps.next(after) if steps is not None else next_instant(timing, after)
        if following is None:
            break
        found.append(following)
        after = following
    return found


def latest_due(schedule: Schedule, now: float) -> float | None:
    """The latest planned instant that is not in the future, also if several were missed. None: not due.

    A run that is being submitted comes first: it may or may not exist.
    """
    if schedule.beginning_at is not None:
        return schedule.beginning_at
    latest, until = schedule.next_at, now
    if latest is None or latest > now:
        return None
    # A binary search: a year of missed minutes takes about twenty steps.
    while (following := next_instant(schedule.timing, latest)) is not None and following <= now:
        latest = following
        middle = (latest + until) / 2
        later = next_instant(schedule.timing, middle)
        if later is not None and later <= now:
            latest = later
        else:
            until = middle
    return latest


def advance(schedule: Schedule, *, now: float, run_id: str | None, error: str | None = None) -> Schedule:
    """The schedule after its planned run was submitted. Without a `run_id`: that failed for good."""
    assert schedule.next_at is not None
    next_at = next_instant(schedule.timing, schedule.next_at)
    moved = replace(
        schedule,
        next_at=next_at,
        status=ScheduleStatus.ACTIVE if next_at is not None else ScheduleStatus.COMPLETED,
        updated_at=now,
        last_error=error,
        beginning_at=None,
    )
    if run_id is None:
        return moved
    return replace(
        moved,
        last_at=schedule.next_at,
        last_submitted_at=now,
        last_run_id=run_id,
        dispatch_count=schedule.dispatch_count + 1,
    )


def planned_run_id(schedule_id: str, planned_at: float, number: int = 0) -> str:
    """The same id for each submission of a planned run. `number`: of failed submissions before."""
    return str(uuid.uuid5(uuid.UUID(schedule_id), f"{planned_at:.6f}/{number}"))


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


def _next_of_cron(timing: Timing, after: float) -> float | None:
    return _CronSteps(timing, after).next(after)


class _CronSteps:
    """The instants of one cron expression in their order: it is parsed once."""

    def __init__(self, timing: Timing, after: float) -> None:
        assert timing.cron is not None
        self._cron = timing.cron
        self._zone = ZoneInfo(timing.timezone or ZONE_DEFAULT)
        self._steps = _steps(timing.cron, datetime.fromtimestamp(after, self._zone))

    def next(self, after: float) -> float | None:
        try:
            while True:
                planned: datetime = self._steps.get_next(datetime)
                if planned.timestamp() > after and not _is_repeated(self._cron, planned, self._zone):
                    return planned.timestamp()
        except ValueError:
            return None  # like the 30th of February


def _is_repeated(cron: str, planned: datetime, zone: ZoneInfo) -> bool:
    """In the repeated hour in autumn, a cron with a fixed hour runs once, an hourly one twice."""
    local = datetime.fromtimestamp(planned.timestamp(), zone)
    return local.fold == 1 and "*" not in cron.split()[_HOUR]


def _steps(cron: str, after: datetime) -> croniter:
    """Imported when needed: it takes a tenth of a second, which workers and clients save."""
    from croniter import croniter

    return croniter(cron, after)
