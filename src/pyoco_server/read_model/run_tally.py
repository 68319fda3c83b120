"""Sums over runs by tenant, updated with every commit, so that a running gateway never counts the runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from pyoco_server import clock
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.read_model.run_rows import WAITING, listed_status

MINUTE_SEC = 60
MINUTES_KEPT = 60
SUBMITTED = "SUBMITTED"
# The key of runs without a tenant: no tenant has an empty name.
_NO_TENANT = ""

Sums = dict[str, Counter[str]]


class Minute(NamedTuple):
    """`sums`: by the status that runs ended in, and `SUBMITTED`."""

    began_at: int
    sums: Mapping[str, int]


class RunTally:
    """Runs by status, and submissions and ends by minute.

    Minutes are kept for an hour. They follow the clocks of the processes that wrote the events.
    """

    def __init__(self) -> None:
        self._all: Counter[str] = Counter()
        self._by_tenant: Sums = {}
        self._minutes: dict[int, Sums] = {}

    def clear(self) -> None:
        self._all.clear()
        self._by_tenant.clear()
        self._minutes.clear()

    def of(self, tenant: str | None) -> Mapping[str, int]:
        """By status, and `WAITING`: how many of the RUNNING ones wait. None: of all tenants."""
        return self._all if tenant is None else self._by_tenant.get(tenant, Counter())

    def minutes(self, tenant: str | None, now: float) -> list[Minute]:
        """Every minute of the last hour, the oldest first, also those without runs."""
        current = int(now // MINUTE_SEC)
        return [self.minute(tenant, at * MINUTE_SEC) for at in range(current - MINUTES_KEPT + 1, current + 1)]

    def minute(self, tenant: str | None, now: float) -> Minute:
        at = int(now // MINUTE_SEC)
        sums = self._minutes.get(at, {})
        if tenant is not None:
            return Minute(at * MINUTE_SEC, dict(sums.get(tenant, {})))
        return Minute(at * MINUTE_SEC, dict(sum(sums.values(), Counter())))

    def change(self, before: Run | None, after: Run) -> None:
        tenant = after.tenant_id or _NO_TENANT
        if before is None:
            self._count_minute(tenant, SUBMITTED, after.submitted_at)
        if after.ended is not None and (before is None or before.ended is None):
            self._count_minute(tenant, after.ended.value, after.ended_at or after.updated_at)
        was = None if before is None or before.gone else listed_status(before)
        now = None if after.gone else listed_status(after)
        if was != now:
            self._count(tenant, was, -1)
            self._count(tenant, now, 1)

    def remember(self, runs: Iterable[Run]) -> None:
        """Add submissions and ends of runs that are counted by status already."""
        for run in runs:
            tenant = run.tenant_id or _NO_TENANT
            self._count_minute(tenant, SUBMITTED, run.submitted_at)
            if run.ended is not None:
                self._count_minute(tenant, run.ended.value, run.ended_at or run.updated_at)

    def dump(self) -> str:
        return msgspec.json.encode(self._by_tenant).decode()

    def load(self, dumped: str) -> None:
        self.clear()
        for tenant, sums in msgspec.json.decode(dumped, type=dict[str, dict[str, int]]).items():
            self._by_tenant[tenant] = Counter(sums)
            self._all.update(sums)

    def fill(self, counted: Iterable[tuple[str | None, str, int]]) -> None:
        """Replace all sums by these: tenant, listed status and how many."""
        self.clear()
        for tenant, status, count in counted:
            self._count(tenant or _NO_TENANT, status, count)

    def _count(self, tenant: str, status: str | None, more: int) -> None:
        """A run that waits is counted as RUNNING, and as WAITING besides."""
        if status == WAITING:
            self._count(tenant, RunStatus.RUNNING.value, more)
        if status is None:
            return
        self._all[status] += more
        _sums_of(self._by_tenant, tenant)[status] += more

    def _count_minute(self, tenant: str, what: str, at: float) -> None:
        minute = int(at // MINUTE_SEC)
        sums = self._minutes.get(minute)
        if sums is None:
            newest = max(self._minutes, default=minute)
            if minute <= newest - MINUTES_KEPT:
                return
            sums = self._minutes[minute] = {}
            self._forget_before(max(newest, minute) - MINUTES_KEPT + 1)
        _sums_of(sums, tenant)[what] += 1

    def _forget_before(self, minute: int) -> None:
        for old in [at for at in self._minutes if at < minute]:
            del self._minutes[old]


class DayTally:
    """How many runs had their last change today, by tenant and status.

    Days follow the local calendar of the gateway's machine. A run counts on the day of its last change, so it
    moves from yesterday's sums to today's when it changes again. Yesterday and tomorrow are kept too: the
    clocks of event writers differ.
    """

    def __init__(self) -> None:
        self._days: dict[int, Sums] = {}
        self._today = 0
        self._looked_up = (0.0, 0.0, 0)  # from, to, day: nearly all instants are of one day

    def clear(self) -> None:
        self._days.clear()

    def of(self, tenant: str | None, now: float) -> Mapping[str, int]:
        """By status. None: of all tenants."""
        sums = self._days.get(self._day_of(now), {})
        if tenant is not None:
            return sums.get(tenant, Counter())
        return sum(sums.values(), Counter())

    def change(self, before: Run | None, after: Run) -> None:
        tenant, today = after.tenant_id or _NO_TENANT, self._day_now()
        if before is not None and not before.gone:
            self._count(today, before.updated_at, tenant, before.status.value, -1)
        if not after.gone:
            self._count(today, after.updated_at, tenant, after.status.value, 1)

    def dump(self) -> str:
        return msgspec.json.encode(self._days).decode()

    def load(self, dumped: str) -> None:
        found = msgspec.json.decode(dumped, type=dict[int, dict[str, dict[str, int]]])
        self._days = {
            day: {tenant: Counter(sums) for tenant, sums in tenants.items()} for day, tenants in found.items()
        }

    def fill(self, counted: Iterable[tuple[str | None, str, float]]) -> None:
        """Replace all sums: tenant, status and last change of each run of these days."""
        self.clear()
        today = self._day_now()
        for tenant, status, updated_at in counted:
            self._count(today, updated_at, tenant or _NO_TENANT, status, 1)

    def _day_now(self) -> int:
        """Today. Older days are forgotten when it begins."""
        today = self._day_of(clock.now())
        if today != self._today:
            self._today = today
            for old in [known for known in self._days if abs(known - today) > 1]:
                del self._days[old]
        return today

    def _count(self, today: int, at: float, tenant: str, status: str, more: int) -> None:
        day = self._day_of(at)
        if abs(day - today) <= 1:
            sums = _sums_of(self._days.setdefault(day, {}), tenant)
            # A run with an instant far ahead of this clock was not counted when it came.
            sums[status] = max(0, sums[status] + more)

    def _day_of(self, at: float) -> int:
        begins, ends, day = self._looked_up
        if begins <= at < ends:
            return day
        try:
            found = datetime.fromtimestamp(at)
        except (ValueError, OverflowError, OSError):  # an instant that no calendar has
            return 0
        hour = found.replace(minute=0, second=0, microsecond=0).timestamp()
        self._looked_up = (hour, hour + 3600.0, found.toordinal())
        return found.toordinal()


def _sums_of(sums: Sums, tenant: str) -> Counter[str]:
    """Those of a tenant. Called for every commit, so it makes no Counter in vain."""
    found = sums.get(tenant)
    if found is None:
        found = sums[tenant] = Counter()
    return found


def since() -> float:
    """Runs whose last change is before this instant are in no sum."""
    return clock.now() - 2 * 86_400.0
