"""The time of the broker, kept with the stopwatch of this machine."""

from __future__ import annotations

import contextvars
import time

import pytest

from pyoco_server import clock
from pyoco_server.clock import Clock, elapsed


class Machine:
    """A stopwatch and a clock on the wall, both as the test sets them."""

    def __init__(self) -> None:
        self.stopwatch = 100.0
        self.wall = 9_000.0
        self.clock = Clock(wall=lambda: self.wall, stopwatch=lambda: self.stopwatch)

    def measures(self, broker_at: float, *, took_sec: float = 0.0) -> float:
        return self.clock.observe(broker_at, sent_at=self.stopwatch - took_sec, received_at=self.stopwatch)


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_before_the_first_measurement_the_wall_clock_counts(machine: Machine) -> None:
    assert machine.clock.now() == 9_000.0
    assert machine.clock.offset is None


def test_after_it_the_wall_clock_counts_for_nothing(machine: Machine) -> None:
    assert machine.measures(5_000.0) == 0.0
    machine.wall += 3600
    machine.stopwatch += 10
    assert machine.clock.now() == 5_010.0


def test_half_the_time_that_the_answer_took_is_added(machine: Machine) -> None:
    machine.measures(5_000.0, took_sec=0.5)
    assert machine.clock.now() == 5_000.25


def test_a_worse_measurement_that_agrees_changes_nothing_and_a_better_one_does(machine: Machine) -> None:
    machine.measures(5_000.0, took_sec=0.1)
    machine.measures(4_999.5, took_sec=2.0)
    assert machine.clock.now() == 5_000.05
    machine.measures(5_000.06)
    assert machine.clock.now() == 5_000.06


def test_an_old_measurement_gives_way_to_one_that_is_better_by_now(machine: Machine) -> None:
    machine.measures(5_000.0, took_sec=0.1)
    machine.stopwatch += 10_000
    machine.measures(14_999.9, took_sec=0.2)
    machine.stopwatch += 1
    assert machine.clock.now() == pytest.approx(15_001.0)


def test_a_small_correction_never_sets_it_back(machine: Machine) -> None:
    machine.measures(5_000.0)
    assert machine.measures(4_999.5) == 0.0
    assert machine.clock.now() == 5_000.0
    machine.stopwatch += 0.4
    assert machine.clock.now() == 5_000.0
    machine.stopwatch += 0.4
    assert machine.clock.now() == pytest.approx(5_000.3)


def test_a_large_correction_is_a_step(machine: Machine) -> None:
    machine.measures(5_000.0)
    assert machine.measures(4_000.0) == -1_000.0
    assert machine.clock.now() == 4_000.0


def test_a_process_adopts_what_another_one_has_measured(machine: Machine) -> None:
    other = Machine()
    machine.measures(5_000.0)
    assert machine.clock.offset is not None
    other.clock.adopt(machine.clock.offset)
    assert other.clock.now() == 5_000.0


def test_a_context_may_have_a_clock_of_its_own(machine: Machine) -> None:
    def told() -> float:
        clock.CURRENT.set(machine.clock)
        return clock.now()

    assert contextvars.copy_context().run(told) == 9_000.0
    assert clock.now() != 9_000.0


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="only Linux has it")
def test_the_stopwatch_goes_on_while_the_machine_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "clock_gettime", {time.CLOCK_BOOTTIME: 4_711.0, time.CLOCK_MONOTONIC: 0.0}.get)
    assert elapsed() == 4_711.0
