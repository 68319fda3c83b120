"""Until when a worker may start something, by values."""

from __future__ import annotations

import pytest

from pyoco_server.worker.presence import lease_deadline
from pyoco_server.worker.presence.lease_deadline import LeaseDeadline


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(lease_deadline, "elapsed", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.mark.usefixtures("clock")
def test_without_a_renewal_nothing_may_be_started() -> None:
    assert not LeaseDeadline(5.0).is_current


def test_a_renewal_is_good_for_a_lease_period_from_when_it_was_sent(clock: Clock) -> None:
    deadline = LeaseDeadline(5.0)
    sent_at, clock.now = clock.now, clock.now + 3.0  # its reply took three seconds
    deadline.renew(sent_at)
    assert deadline.is_current
    clock.now = sent_at + 5.0
    assert not deadline.is_current


def test_a_renewal_after_the_deadline_says_that_it_had_passed(clock: Clock) -> None:
    deadline, told = LeaseDeadline(5.0), list[bool]()
    deadline.renew(clock.now)
    deadline.subscribe(told.append)
    clock.now += 1.0
    deadline.renew(clock.now)
    clock.now += 5.5  # paused, suspended or cut off
    deadline.renew(clock.now)
    assert told == [False, True]


def test_a_late_reply_of_an_older_renewal_does_not_set_the_deadline_back(clock: Clock) -> None:
    deadline = LeaseDeadline(5.0)
    deadline.renew(clock.now)
    deadline.renew(clock.now - 2.0)
    assert deadline.until == clock.now + 5.0


def test_a_reply_that_came_after_its_own_deadline_gives_no_leave(clock: Clock) -> None:
    deadline = LeaseDeadline(5.0)
    deadline.renew(clock.now - 6.0)
    assert not deadline.is_current


def test_an_unsubscribed_one_hears_nothing(clock: Clock) -> None:
    deadline, told = LeaseDeadline(5.0), list[bool]()
    deadline.subscribe(told.append)
    deadline.unsubscribe(told.append)
    deadline.renew(clock.now)
    assert told == []
