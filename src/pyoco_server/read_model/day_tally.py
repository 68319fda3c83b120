"""How many runs had their last change today, by tenant and status, updated with every commit.

Days follow the local calendar of the gateway's machine. A run counts on the day of its last change, so it
moves from yesterday's sums to today's when it changes again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from pyoco_server import clock
from pyoco_server.lifecycle.run import Run

# The key of runs without a tenant: no tenant has an empty name.
_NO_TENANT = ""

Sums = dict[str, Counter[str]]


class DayTally:
    """Keeps today, yesterday and tomorrow: the clocks of event writers differ."""

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
        tenant = after.tenant_id or _NO_TENANT
        if before is not None and not before.gone:
            self._count(before.updated_at, tenant, before.status.value, -1)
        if not after.gone:
            self._count(after.updated_at, tenant, after.status.value, 1)

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
        for tenant, status, updated_at in counted:
            self._count(updated_at, tenant or _NO_TENANT, status, 1)

    def _count(self, at: float, tenant: str, status: str, more: int) -> None:
        day, today = self._day_of(at), self._day_of(clock.now())
        if today != self._today:
            self._today = today
            for old in [known for known in self._days if abs(known - today) > 1]:
                del self._days[old]
        if abs(day - today) <= 1:
            sums = self._days.setdefault(day, {}).setdefault(tenant, Counter())
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


def since() -> float:
    """Runs whose last change is before this instant are in no sum."""
    return clock.now() - 2 * 86_400.0
