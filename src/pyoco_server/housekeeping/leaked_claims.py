"""Hands back claims that their worker does not list.

A worker lists the runs that it holds in its lease. An unlisted claim was committed, but its worker did not
get the reply, or lost the run by a defect. The worker is alive, so `lost_workers` does not take its runs, and
the run would stay RUNNING forever. It is handed back when the claim is known for a lease period and two
successive renewals did not list it. This does not count as a loss.

A worker lists a run before it sends the claim, so a claim is never younger than its entry in the list.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from pyoco_server.housekeeping.isolation import Isolation
from pyoco_server.lifecycle.commands import ReportLoss
from pyoco_server.lifecycle.run import Claim, Run
from pyoco_server.lifecycle.status import LossCause
from pyoco_server.operations.logs.notices import note_soon
from pyoco_server.operations.runs.apply import apply
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.fleet.leases import Lease
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

RENEWALS_MIN = 2
DETAIL = "its worker does not know of the claim"


class _Unlisted(NamedTuple):
    """A claim that is missing in its worker's lease: since when (monotonic), and in how many renewals.

    `fence` tells this claim from a later one of the same worker.
    """

    fence: int
    since: float
    revision: int
    renewals: int


class LeakedClaims:
    def __init__(self, store: Store, read_model: ReadModel) -> None:
        self._store = store
        self._read_model = read_model
        self._lease_sec = store.config.worker_lease_sec
        self._isolation = Isolation("leaked claims")
        self._unlisted: dict[tuple[str, str], _Unlisted] = {}

    def forget(self) -> None:
        """The broker was away, or another gateway held the lease: start to observe again."""
        self._unlisted.clear()

    def observe(self, leases: Mapping[str, tuple[Lease | None, int]], now: float) -> None:
        unlisted = {}
        for instance, (lease, revision) in leases.items():
            if lease is None or lease.holds is None:
                continue  # a lost worker, or a version that lists nothing: `lost_workers` handles those
            for run_id in self._read_model.housekeeping.ids_claimed_by(instance):
                claim = self._claim_of(run_id, instance)
                if claim is not None and not _is_listed(lease.holds, run_id, claim.fence):
                    place = (instance, run_id)
                    unlisted[place] = _aged(self._unlisted.get(place), claim.fence, revision, now)
        self._unlisted = unlisted

    async def hand_back(self, now: float) -> int:
        """Returns how many runs were handed back."""
        due = [
            run
            for (instance, run_id), unlisted in self._unlisted.items()
            if unlisted.renewals >= RENEWALS_MIN and now - unlisted.since >= self._lease_sec
            if (claim := self._claim_of(run_id, instance)) and claim.fence == unlisted.fence
            if (run := self._read_model.find(run_id))
        ]
        return await self._isolation.each_run(due, self._hand_back)

    def _claim_of(self, run_id: str, instance: str) -> Claim | None:
        run = self._read_model.find(run_id)
        claim = run.claim if run is not None else None
        return claim if claim is not None and claim.instance_id == instance else None

    async def _hand_back(self, run: Run) -> bool:
        assert run.claim is not None
        handed_back = ReportLoss(
            fence=run.claim.fence,
            cause=LossCause.HANDED_BACK,
            losses_max=self._store.config.consumer_max_deliver,
            crashes_max=self._store.config.max_crashes,
            detail=DETAIL,
        )
        if run.cancel is not None:  # the run ends now, and followers read no line after its end
            await note_soon(self._store, run.run_id, f"{DETAIL}; the run ends", fence=run.claim.fence + 1)
        applied = await apply(self._store, run.run_id, handed_back)
        if applied.events:
            if run.cancel is None:
                await note_soon(self._store, run.run_id, f"{DETAIL}; the run is queued again")
            fields = {"run_id": run.run_id, "instance_id": run.claim.instance_id, "fence": run.claim.fence}
            log.warning("a claim that its worker does not list was handed back", extra=fields)
        return bool(applied.events)


def _is_listed(holds: Mapping[str, int], run_id: str, fence: int) -> bool:
    """Fence 0: the worker is about to claim it. Another fence: an earlier claim is still ending."""
    return holds.get(run_id, -1) in (0, fence)


def _aged(before: _Unlisted | None, fence: int, revision: int, now: float) -> _Unlisted:
    if before is None or before.fence != fence:
        return _Unlisted(fence, now, revision, 0)
    return _Unlisted(fence, before.since, revision, before.renewals + (revision != before.revision))
