"""Runs of today: by the local calendar, from commit to commit, and over a restart."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from pyoco_server import clock as broker_clock
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.read_model.run_tally import DayTally
from tests.worker.stage import a_submission

ZONE = "Asia/Kolkata"  # half an hour beside all others


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = at("12:00")
        monkeypatch.setattr(broker_clock, "now", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    monkeypatch.setenv("TZ", ZONE)
    time.tzset()
    yield Clock(monkeypatch)
    monkeypatch.undo()
    time.tzset()


def at(hour: str, day: int = 10) -> float:
    return datetime.fromisoformat(f"2026-03-{day:02}T{hour}").replace(tzinfo=ZoneInfo(ZONE)).timestamp()


def run(updated_at: float, *, tenant: str | None = "a", ended: RunStatus | None = None) -> Run:
    begun = fold(None, (a_submission(tenant_id=tenant, at=updated_at),))
    assert begun is not None
    return replace(begun, ended=ended, updated_at=updated_at)


def shown(tally: DayTally, tenant: str | None = None) -> dict[str, int]:
    return {status: count for status, count in tally.of(tenant, broker_clock.now()).items() if count}


def test_a_run_counts_under_its_status_on_the_day_of_its_last_change(clock: Clock) -> None:
    tally = DayTally()
    late, early = run(at("23:59", day=9)), run(at("00:00"), tenant="b")
    tally.change(None, late)
    tally.change(None, early)
    assert shown(tally) == {"PENDING": 1}
    assert (shown(tally, "a"), shown(tally, "b")) == ({}, {"PENDING": 1})
    tally.change(late, run(at("12:00"), ended=RunStatus.COMPLETED))
    assert shown(tally) == {"PENDING": 1, "COMPLETED": 1}
    tally.change(early, replace(early, gone=True))
    assert shown(tally) == {"COMPLETED": 1}


def test_at_midnight_it_begins_at_nothing(clock: Clock) -> None:
    tally = DayTally()
    tally.change(None, run(at("12:00")))
    clock.now = at("00:00", day=11)
    assert shown(tally) == {}
    tally.change(None, run(clock.now))
    assert shown(tally) == {"PENDING": 1}


def test_only_the_days_beside_today_are_kept(clock: Clock) -> None:
    tally = DayTally()
    for day in range(1, 28):
        tally.change(None, run(at("12:00", day=day)))
    assert len(tally._days) == 3
    clock.now = at("12:00", day=20)
    tally.change(None, run(clock.now))
    assert len(tally._days) == 1
    tally.change(None, run(1e300))
    assert shown(tally) == {"PENDING": 1}


def test_a_clock_far_ahead_makes_no_number_below_nothing(clock: Clock) -> None:
    tally = DayTally()
    ahead = run(at("12:00", day=20))
    tally.change(None, ahead)
    clock.now = at("12:00", day=20)
    tally.change(ahead, run(clock.now, ended=RunStatus.FAILED))
    assert shown(tally) == {"FAILED": 1}


def test_it_can_be_written_down_and_read_again(clock: Clock) -> None:
    tally, other, filled = DayTally(), DayTally(), DayTally()
    first = run(at("12:00"))
    tally.change(None, first)
    tally.change(None, run(at("11:00"), tenant=None, ended=RunStatus.FAILED))
    other.load(tally.dump())
    filled.fill(
        [
            ("a", "PENDING", at("12:00")),
            (None, "FAILED", at("11:00")),
            ("a", "FAILED", at("01:00", 9)),
        ]
    )
    assert shown(other) == shown(filled) == shown(tally) == {"PENDING": 1, "FAILED": 1}
    other.change(first, run(at("12:00"), ended=RunStatus.COMPLETED))
    assert shown(other, "a") == {"COMPLETED": 1}
