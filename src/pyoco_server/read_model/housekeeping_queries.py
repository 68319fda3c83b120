"""What housekeeping asks the list of runs: which are owed, due, claimed, stuck, or over for long.

A part of the read model. What was heard and not written yet is written before a question is answered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from pyoco_server.lifecycle.run import Run
from pyoco_server.read_model.run_rows import decoded
from pyoco_server.read_model.run_table import Over, ReadTable
from pyoco_server.read_model.waits import OpenWait, WaitPlace


class HousekeepingQueries(ABC):
    _table: ReadTable

    @abstractmethod
    def _flush(self) -> None: ...

    def oldest_over(self, limit: int) -> list[Over]:
        """Those that are over, the longest unchanged first."""
        self._flush()
        return self._table.oldest_over(limit)

    def owed(self, tag: str, *, before: float, limit: int) -> list[Run]:
        self._flush()
        return decoded(self._table.owed(tag, before, limit))

    def owed_before(self, tag: str, instant: float, *, at_most: int) -> int:
        """How many runs have waited longer for a worker of this tag; counted no further than `at_most`."""
        self._flush()
        return self._table.owed_before(tag, instant, at_most)

    def tags_that_owe(self) -> list[str]:
        self._flush()
        return self._table.tags_that_owe()

    def delayed(self, *, until: float, limit: int) -> list[Run]:
        """Those that were to start by then and were given no job yet."""
        self._flush()
        return decoded(self._table.delayed(until, limit))

    def due(self, *, until: float, limit: int) -> list[Run]:
        """Those in which time alone changes something by then, the earliest first."""
        self._flush()
        return decoded(self._table.due(until, limit))

    def next_due(self, *, after: float) -> float | None:
        self._flush()
        return self._table.next_due(after)

    def stuck_cancels(self, limit: int) -> list[Run]:
        """Asked to stop, without a claim, and not over: should not be, and would stay so for ever."""
        self._flush()
        return decoded(self._table.stuck_cancels(limit))

    def waiting(
        self, tenant: str | None, limit: int, after: WaitPlace | None = None
    ) -> list[tuple[WaitPlace, OpenWait]]:
        """What waits for an answer, the longest waiting first, from this place on."""
        self._flush()
        return self._table.waiting(tenant, limit, after or WaitPlace(0, 0))

    def claiming_instances(self) -> set[str]:
        self._flush()
        return self._table.instances()

    def claimed_by(self, instance_id: str, limit: int) -> list[Run]:
        self._flush()
        return decoded(self._table.claimed_by(instance_id, limit))

    def ids_claimed_by(self, instance_id: str) -> list[str]:
        self._flush()
        return self._table.ids_claimed_by(instance_id)
