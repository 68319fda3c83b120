"""Clocks.

`elapsed` measures durations, for leases and timeouts; it has no date.

`now` is the date: unix seconds by the clock of the broker, whatever the clock of this machine says.
Instants that one machine writes and another one compares (deadlines of waits, heartbeats, retention,
expiries) are taken from it. It is the stopwatch of this machine plus an offset that is measured at the
broker (`jetstream.broker_clock`); the clock of this machine is used only before the first measurement. A
small correction never sets it back: it stands still until the new offset has caught up. A large one is
a step.

Each context may have a `Clock` of its own (`CURRENT`); without one all of a process share one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import NamedTuple

# Linux: also counts the time in which the machine was suspended, which time.monotonic does not.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
# A correction beyond this is a step: the clock may go back.
STEP_SEC = 1.0
# How far two stopwatches may drift apart, in seconds per second: the error of a measurement grows by this.
DRIFT = 1e-4


def elapsed() -> float:
    """Seconds since some instant, the same for all processes of this machine. Never set back."""
    return time.clock_gettime(_CLOCK)


def _wall() -> float:
    return time.time()


class _Reading(NamedTuple):
    """`offset`: broker time minus `elapsed`, wrong by at most `error_sec`. `now` is never before `floor`."""

    offset: float
    floor: float
    error_sec: float
    measured_at: float


class Clock:
    def __init__(
        self, *, wall: Callable[[], float] = _wall, stopwatch: Callable[[], float] = elapsed
    ) -> None:
        self._wall = wall
        self.stopwatch = stopwatch
        self._reading: _Reading | None = None

    @property
    def offset(self) -> float | None:
        """Broker time minus `elapsed`; None before the first measurement."""
        return None if self._reading is None else self._reading.offset

    def now(self) -> float:
        reading = self._reading
        if reading is None:
            return self._wall()
        return max(self.stopwatch() + reading.offset, reading.floor)

    def observe(self, broker_at: float, *, sent_at: float, received_at: float) -> float:
        """The broker's clock was `broker_at` between these two readings of the stopwatch. Returns the step.

        A measurement that agrees with a more exact one changes nothing.
        """
        earliest, latest = broker_at - received_at, broker_at - sent_at
        error_sec, known = (latest - earliest) / 2, self._reading
        if known is not None and earliest <= known.offset <= latest:
            known_error_sec = known.error_sec + DRIFT * (received_at - known.measured_at)
            if known_error_sec <= error_sec:
                return 0.0
        return self._set((earliest + latest) / 2, error_sec)

    def adopt(self, offset: float) -> None:
        """Use the offset that another process of this machine has measured."""
        if offset != self.offset:
            self._set(offset, 0.0)

    def _set(self, offset: float, error_sec: float) -> float:
        at, known = self.stopwatch(), self._reading
        by = 0.0 if known is None else offset - known.offset
        is_step = known is None or abs(by) > STEP_SEC
        floor = float("-inf") if is_step else self.now()
        self._reading = _Reading(offset, floor, error_sec, at)
        return by if is_step else 0.0


CURRENT: ContextVar[Clock] = ContextVar("clock", default=Clock())  # noqa: B039 - one for the whole process


def now() -> float:
    """Unix seconds by the broker's clock."""
    return CURRENT.get().now()


def offset() -> float | None:
    return CURRENT.get().offset


def adopt(offset: float | None) -> None:
    if offset is not None:
        CURRENT.get().adopt(offset)
