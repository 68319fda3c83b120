"""Occurrences by local time: both changes of the clock, in zones that change it in different ways."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from pyoco_server.schedules.timing import (
    COUNTED_MAX,
    ScheduleKind,
    Timing,
    count_instants,
    latest_instant,
    next_instant,
    next_instants,
    starts_at,
)

ID = "7b0f6a52-7f0e-4f6e-9d49-0c6f7a1b5d11"
# By an hour; by half an hour; in the other half of the year; around Ramadan; never.
ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Africa/Casablanca",
    "Asia/Tokyo",
)


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def cron(expression: str, timezone: str = "UTC", **members: Any) -> Timing:
    return Timing(kind=ScheduleKind.CRON, cron=expression, timezone=timezone, **members)


def every(seconds: float, start_at: float, **members: Any) -> Timing:
    return Timing(kind=ScheduleKind.INTERVAL, interval_seconds=seconds, start_at=start_at, **members)


@pytest.mark.parametrize("zone", ZONES)
@settings(max_examples=6, deadline=None)
@given(hour=some.integers(0, 23), minute=some.sampled_from((0, 1, 15, 30, 45, 59)))
def test_a_daily_schedule_has_one_occurrence_on_each_local_day(zone: str, hour: int, minute: int) -> None:
    """Also on the days on which its time does not exist, or exists twice."""
    begin = datetime(2026, 1, 1, 12, tzinfo=ZoneInfo(zone))
    found = next_instants(cron(f"{minute} {hour} * * *", zone), begin.timestamp(), 400)
    local = [datetime.fromtimestamp(instant, ZoneInfo(zone)) for instant in found]
    first = date(2026, 1, 1) if hour > 12 or (hour, minute > 0) == (12, True) else date(2026, 1, 2)
    assert [one.date() for one in local] == [first + timedelta(days=number) for number in range(400)]
    for one in local:
        wanted = one.replace(hour=hour, minute=minute, fold=0)
        exists = wanted.astimezone(UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None) == wanted.replace(
            tzinfo=None
        )
        if exists:
            assert one == wanted, "in the repeated hour the first of the two"
        else:
            assert one > wanted.replace(tzinfo=None).replace(tzinfo=one.tzinfo) - timedelta(hours=1)


@pytest.mark.parametrize("zone", ZONES)
def test_an_hourly_schedule_has_one_occurrence_in_each_real_hour(zone: str) -> None:
    """Where the clock changes by half an hour, the occurrences are at most an hour apart."""
    found = next_instants(cron("30 * * * *", zone), at("2026-01-01T00:00:00Z"), 366 * 24)
    apart = {later - earlier for earlier, later in pairwise(found)}
    assert apart <= ({3600.0} if zone != "Australia/Lord_Howe" else {1800.0, 3600.0, 5400.0})


@settings(max_examples=60, deadline=None)
@given(
    zone=some.sampled_from(ZONES),
    expression=some.sampled_from(("*/7 * * * *", "30 2 * * *", "0 */3 * * 1-5", "15 1 1 * *", "0 0 29 2 *")),
    after=some.integers(at("2026-01-01T00:00:00Z").__int__(), at("2027-12-31T00:00:00Z").__int__()),
)
def test_stepping_and_listing_give_the_same(zone: str, expression: str, after: int) -> None:
    timing = cron(expression, zone)
    found = next_instants(timing, float(after), 30)
    stepped, instant = [], float(after)
    for _ in found:
        following = next_instant(timing, instant)
        assert following is not None
        stepped.append(instant := following)
    assert stepped == found
    assert latest_instant(timing, found[0], found[-1]) == found[-1]
    assert count_instants(timing, found[0], found[-1]) == len(found)


def test_nothing_is_planned_before_the_start_and_after_the_end() -> None:
    begin, end = at("2026-05-02T03:00:00Z"), at("2026-05-04T03:00:00Z")
    timing = cron("0 3 * * *", start_at=begin, end_at=end)
    assert next_instants(timing, 0.0, 9) == [begin, begin + 86_400, end]
    assert next_instant(timing, end) is None
    late = cron("0 3 * * *", start_at=begin + 0.5)
    assert next_instant(late, 0.0) == begin + 86_400
    assert next_instants(every(60.0, begin, end_at=begin + 120), 0.0, 9) == [begin, begin + 60, begin + 120]
    assert next_instant(every(60.0, begin, end_at=begin - 1), 0.0) is None
    assert next_instant(Timing(kind=ScheduleKind.ONCE, run_at=end, end_at=begin), 0.0) is None


def test_occurrences_are_counted_up_to_a_limit() -> None:
    assert count_instants(every(0.1, 5.0), 5.0, 6.0) == 11
    assert count_instants(every(1.0, 0.0), 0.0, float(COUNTED_MAX)) is None
    minutes = cron("* * * * *")
    assert count_instants(minutes, 60.0, 60.0 * COUNTED_MAX) == COUNTED_MAX
    assert count_instants(minutes, 60.0, 60.0 * (COUNTED_MAX + 1)) is None
    assert count_instants(cron("0 3 * * *", end_at=at("1970-01-02T03:00:00Z")), 10_800.0, 97_200.0) == 2


@settings(max_examples=100, deadline=None)
@given(
    jitter=some.floats(0.001, 200_000.0),
    timing=some.sampled_from((cron("*/5 * * * *"), cron("30 2 * * *", "Europe/Berlin"), every(0.1, 1e9))),
)
def test_a_jitter_is_the_same_each_time_and_keeps_the_order(jitter: float, timing: Timing) -> None:
    jittered = Timing(
        **{name: getattr(timing, name) for name in timing.__struct_fields__} | {"jitter_seconds": jitter}
    )
    planned = next_instants(jittered, 1.79e9, 20)
    begins = [starts_at(ID, jittered, instant) for instant in planned]
    assert begins == [starts_at(ID, jittered, instant) for instant in planned]
    assert begins == sorted(begins)
    for instant, begin, following in zip(planned, begins, planned[1:], strict=False):
        assert instant <= begin <= min(instant + jitter, following)
    assert starts_at(ID, timing, planned[0]) == planned[0]


def test_two_schedules_of_the_same_time_are_spread_by_their_jitter() -> None:
    timing = cron("0 3 * * *", jitter_seconds=3600.0)
    begins = {starts_at(f"7b0f6a52-7f0e-4f6e-9d49-{number:012}", timing, 97_200.0) for number in range(200)}
    assert len(begins) == 200
    assert 97_200.0 <= min(begins) < 97_200.0 + 180
    assert 97_200.0 + 3_420 < max(begins) < 97_200.0 + 3_600
