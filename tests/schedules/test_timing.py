"""When schedules are due, by values: distances, calendars, and clocks that are put forward and back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from pyoco_server.schedules.decide import latest_due
from pyoco_server.schedules.record import Schedule, ScheduleStatus, planned_run_id
from pyoco_server.schedules.timing import ScheduleKind, Timing, is_cron, next_instant, next_instants, zone_of
from pyoco_server.schedules.transitions import advance

ID = "7b0f6a52-7f0e-4f6e-9d49-0c6f7a1b5d11"


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def cron(expression: str, timezone: str = "Europe/Berlin") -> Timing:
    return Timing(kind=ScheduleKind.CRON, cron=expression, timezone=timezone)


def every(seconds: float, start_at: float) -> Timing:
    return Timing(kind=ScheduleKind.INTERVAL, interval_seconds=seconds, start_at=start_at)


def once(run_at: float) -> Timing:
    return Timing(kind=ScheduleKind.ONCE, run_at=run_at)


def a_schedule(timing: Timing, next_at: float | None, **changes: Any) -> Schedule:
    members: dict[str, Any] = {
        "schedule_id": ID,
        "flow_name": "nightly",
        "tag": "default",
        "timing": timing,
        "workflow_yaml_sha256": None,
        "workflow_yaml_bytes": None,
        "tenant_id": None,
        "api_key_id": None,
        "created_at": 0.0,
        "updated_at": 0.0,
        "next_at": next_at,
    }
    return Schedule(**(members | changes))


def coming(timing: Timing, after: str, count: int) -> list[str]:
    """The next so many instants, in Berlin."""
    zone, found, instant = zone_of("Europe/Berlin"), [], at(after)
    for _ in range(count):
        following = next_instant(timing, instant)
        assert following is not None
        assert following > instant
        instant = following
        found.append(datetime.fromtimestamp(instant, zone).isoformat())
    return found


def test_once_is_once() -> None:
    assert next_instant(once(10.0), 9.9) == 10.0
    assert next_instant(once(10.0), 10.0) is None


@pytest.mark.parametrize(
    ("after", "expected"),
    [(0.0, 100.0), (99.9, 100.0), (100.0, 130.0), (129.999, 130.0), (130.0, 160.0), (1e9, 1_000_000_030.0)],
)
def test_an_interval_counts_from_its_start(after: float, expected: float) -> None:
    start_at = 100.0 if after < 1e9 else 1e9
    assert next_instant(every(30.0, start_at), after) == expected


def test_a_start_in_the_past_is_counted_from() -> None:
    assert next_instant(every(86_400.0, at("2020-01-01T03:00:00Z")), at("2026-05-05T12:00:00Z")) == at(
        "2026-05-06T03:00:00Z"
    )


def test_tenths_of_seconds_do_not_drift() -> None:
    timing, instant = every(0.1, 1_790_000_000.05), 1_790_000_000.0
    for number in range(2_000):
        following = next_instant(timing, instant)
        assert following == round(1_790_000_000.05 + number * 0.1, 6)
        instant = following


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        ("30 8 * * mon-fri", "2026-05-01T12:00:00Z", "2026-05-04T08:30:00+02:00"),
        ("0 0 1 1 *", "2026-05-01T12:00:00Z", "2027-01-01T00:00:00+01:00"),
        ("0 0 29 2 *", "2026-05-01T12:00:00Z", "2028-02-29T00:00:00+01:00"),
        ("*/15 * * * *", "2026-05-01T12:00:00.5Z", "2026-05-01T14:15:00+02:00"),
        ("* * * * *", "2026-05-01T12:00:59.999Z", "2026-05-01T14:01:00+02:00"),
    ],
)
def test_cron_by_the_clock_of_its_zone(expression: str, after: str, expected: str) -> None:
    assert coming(cron(expression), after, 1) == [expected]


def test_without_a_zone_it_is_utc() -> None:
    timing = Timing(kind=ScheduleKind.CRON, cron="0 3 * * *")
    assert next_instant(timing, at("2026-05-01T12:00:00Z")) == at("2026-05-02T03:00:00Z")


def test_an_instant_that_the_clock_leaves_out_in_spring_comes_right_after() -> None:
    assert coming(cron("30 2 * * *"), "2026-03-28T12:00:00Z", 2) == [
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]


def test_what_names_its_hour_runs_once_when_the_hour_comes_twice() -> None:
    assert coming(cron("30 2 * * *"), "2026-10-24T12:00:00Z", 2) == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-26T02:30:00+01:00",
    ]


def test_what_runs_every_hour_runs_in_both() -> None:
    assert coming(cron("20,50 * * * *"), "2026-10-25T00:00:00Z", 5) == [
        "2026-10-25T02:20:00+02:00",
        "2026-10-25T02:50:00+02:00",
        "2026-10-25T02:20:00+01:00",
        "2026-10-25T02:50:00+01:00",
        "2026-10-25T03:20:00+01:00",
    ]


def test_a_day_that_never_comes_is_none() -> None:
    assert next_instant(cron("0 0 30 2 *"), 0.0) is None


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "*/0 * * * *",
        "1-70 * * * *",
        "0,, * * * *",
        "0 0 * * 9",
        "R * * * *",
        "H * * * *",
        "@daily",
        "a b c d e",
        "* " * 200,
    ],
)
def test_what_is_no_cron(expression: str) -> None:
    assert not is_cron(expression)


@pytest.mark.parametrize(
    "expression", ["* * * * *", "0 0 L * *", "5 4 * JAN sun", "0 9 * * 5#3", "1-5/2 0 ? * 7"]
)
def test_what_is_one(expression: str) -> None:
    assert is_cron(expression)


@pytest.mark.parametrize(
    "name", ["", "Europe", "Europe/Nowhere", "../etc/passwd", "/etc/passwd", "UTC+25", "a" * 300]
)
def test_what_is_no_zone(name: str) -> None:
    assert zone_of(name) is None


def test_of_missed_instants_the_latest_is_due() -> None:
    now = at("2026-10-25T05:10:00Z")
    year_ago = at("2025-10-25T05:00:00Z")
    for timing, expected in (
        (cron("* * * * *"), now),
        (cron("0 3 * * *"), at("2026-10-25T03:00:00+01:00")),
        (cron("0 0 1 * *"), at("2026-10-01T00:00:00+02:00")),
        (every(3600.0, year_ago), at("2026-10-25T05:00:00Z")),
        (every(7.0, year_ago), year_ago + 7.0 * int((now - year_ago) / 7)),
        (once(year_ago), year_ago),
    ):
        first = next_instant(timing, year_ago - 0.5)
        assert latest_due(a_schedule(timing, first), now) == expected


def test_what_is_to_come_is_not_due() -> None:
    assert latest_due(a_schedule(once(10.0), 10.0), 9.9) is None
    assert latest_due(a_schedule(once(10.0), None), 99.0) is None
    assert latest_due(a_schedule(every(5.0, 10.0), 10.0), 10.0) == 10.0


def test_a_schedule_moves_on() -> None:
    moved = advance(a_schedule(every(5.0, 10.0), 20.0, last_error="x"), now=21.0, run_id="r")
    assert (moved.next_at, moved.status) == (25.0, ScheduleStatus.ACTIVE)
    assert (moved.last_at, moved.last_submitted_at, moved.last_run_id) == (20.0, 21.0, "r")
    assert (moved.dispatch_count, moved.updated_at, moved.last_error) == (1, 21.0, None)
    ended = advance(a_schedule(once(10.0), 10.0), now=11.0, run_id="r")
    assert (ended.next_at, ended.status) == (None, ScheduleStatus.COMPLETED)
    failed = advance(a_schedule(every(5.0, 10.0), 20.0), now=21.0, run_id=None, error="why")
    assert (failed.next_at, failed.last_run_id, failed.dispatch_count) == (25.0, None, 0)
    assert failed.last_error == "why"


def test_the_id_of_a_planned_run_follows_from_schedule_and_instant() -> None:
    assert planned_run_id(ID, 20.0) == planned_run_id(ID, 20.0)
    others = {planned_run_id(ID, 20.0), planned_run_id(ID, 20.000001), planned_run_id(ID, 20.0, 1)}
    assert len(others) == 3


def test_the_next_instants_are_those_that_follow_one_another() -> None:
    after = at("2026-03-27T12:00:00+01:00")
    for timing in (cron("30 2 * * *"), cron("15 * * * *"), every(90, after - 7)):
        following = [after]
        for _ in range(30):
            planned = next_instant(timing, following[-1])
            assert planned is not None
            following.append(planned)
        assert next_instants(timing, after, 30) == following[1:]
    assert next_instants(once(after + 1), after, 5) == [after + 1]
    assert next_instants(cron("0 0 30 2 *"), after, 5) == []


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York", "Pacific/Kiritimati"])
def test_the_first_and_the_last_years_of_the_calendar_are_no_error(zone: str) -> None:
    nightly = Timing(kind=ScheduleKind.CRON, cron="0 3 * * *", timezone=zone)
    begin = datetime(1, 1, 1, tzinfo=UTC).timestamp()
    end = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
    for after in (begin - 1e-6, begin, begin + 3600):
        first = next_instant(nightly, after)
        assert first is not None
        assert after < first < begin + 10 * 86_400
    for late in (replace(nightly, start_at=end), replace(nightly, start_at=end - 3 * 86_400)):
        assert len(next_instants(late, 0.0, 10)) <= 4
    assert next_instant(nightly, end) is None
