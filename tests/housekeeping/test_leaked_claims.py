"""Claims that a living worker does not list in its lease go back to the queue; listed ones stay."""

from __future__ import annotations

import pytest

from pyoco_server.housekeeping.leaked_claims import LeakedClaims
from pyoco_server.lifecycle.commands import ClaimRun, ReportLoss
from pyoco_server.lifecycle.status import LossCause
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.cancel import cancel_run
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.fleet.leases import Lease
from pyoco_server.store.store import Store
from tests.worker.stage import commits_of, ended_as, jobs_queued, lawful, submitted, the_run, working

INSTANCE = "w1.alive"
LEASE_SEC = 5


class Observed:
    """A housekeeper's look, once a second by its own clock; the lease is renewed before each."""

    def __init__(self, store: Store, read_model: ReadModel) -> None:
        self._store = store
        self._read_model = read_model
        self._leaked = LeakedClaims(store, read_model)
        self._revision = 0
        self._second = 0

    async def for_seconds(self, seconds: int, holds: dict[str, int] | None, *, renewed: bool = True) -> int:
        handed_back = 0
        for _ in range(seconds):
            lease = Lease(holder=INSTANCE, worker_id="w1", holds=holds)
            if renewed:
                self._revision = await self._store.leases.renew(INSTANCE, lease, revision=self._revision)
            await self._read_model.catch_up()
            self._leaked.observe({INSTANCE: (lease, self._revision)}, float(self._second))
            handed_back += await self._leaked.hand_back(float(self._second))
            self._second += 1
        return handed_back


@pytest.fixture
def observed(store: Store, read_model: ReadModel) -> Observed:
    return Observed(store, read_model)


async def claimed(store: Store) -> str:
    run_id = await submitted(store)
    await store.jetstream.api(f"STREAM.PURGE.{store.config.work_stream}")
    await apply(store, run_id, ClaimRun(worker_id="w1", instance_id=INSTANCE, job_no=1))
    return run_id


async def test_an_unlisted_claim_is_handed_back_and_another_worker_completes_the_run(
    store: Store, observed: Observed
) -> None:
    run_id = await claimed(store)
    assert await observed.for_seconds(LEASE_SEC, {}) == 0
    assert await observed.for_seconds(1, {}) == 1
    run = await the_run(store, run_id)
    assert (run.claim, run.losses, run.job_no) == (None, 0, 2)
    assert (await commits_of(store, run_id))[-1] == ["RunLost"]
    assert await jobs_queued(store) == 1
    async with working(store.config) as worker:
        assert await worker.run_once(timeout=20.0) == run_id
    await ended_as(store, run_id, "COMPLETED")


async def test_a_cancel_of_a_run_whose_claim_was_lost_converges(store: Store, observed: Observed) -> None:
    run_id = await claimed(store)
    await cancel_run(store, run_id)
    assert (await the_run(store, run_id)).status == "CANCELLING"
    assert await observed.for_seconds(LEASE_SEC + 1, {}) == 1
    await ended_as(store, run_id, "CANCELLED")
    assert await jobs_queued(store) == 0


async def test_a_claim_that_is_listed_stays(store: Store, observed: Observed) -> None:
    run_id = await claimed(store)
    assert await observed.for_seconds(3 * LEASE_SEC, {run_id: 1}) == 0
    assert (await lawful(store, run_id)).status == "RUNNING"


async def test_a_claim_is_not_listed_by_an_earlier_one_of_the_same_run(
    store: Store, observed: Observed
) -> None:
    run_id = await claimed(store)
    assert await observed.for_seconds(LEASE_SEC + 1, {run_id: 7}) == 1
    assert (await the_run(store, run_id)).claim is None


async def test_a_claim_that_is_listed_now_and_then_stays(store: Store, observed: Observed) -> None:
    run_id = await claimed(store)
    for _ in range(3):
        assert await observed.for_seconds(LEASE_SEC, {}) == 0
        assert await observed.for_seconds(1, {run_id: 0}) == 0
    assert (await the_run(store, run_id)).claim is not None


async def test_a_lease_that_is_not_renewed_is_not_evidence(store: Store, observed: Observed) -> None:
    """A paused worker is the business of the chore for lost workers, which counts a loss."""
    run_id = await claimed(store)
    assert await observed.for_seconds(1, {}) == 0
    assert await observed.for_seconds(3 * LEASE_SEC, {}, renewed=False) == 0
    assert (await the_run(store, run_id)).claim is not None


async def test_a_lease_of_an_earlier_version_lists_nothing_and_loses_nothing(
    store: Store, observed: Observed
) -> None:
    run_id = await claimed(store)
    assert await observed.for_seconds(3 * LEASE_SEC, None) == 0
    assert (await the_run(store, run_id)).claim is not None


async def test_a_second_claim_of_the_same_worker_is_judged_by_itself(
    store: Store, read_model: ReadModel
) -> None:
    """The first one went unlisted, and the second was made after the lease was read for the last time."""
    run_id = await claimed(store)
    leaked = LeakedClaims(store, read_model)
    await read_model.catch_up()
    for second in range(LEASE_SEC + 1):
        lease = Lease(holder=INSTANCE, worker_id="w1", holds={})
        leaked.observe({INSTANCE: (lease, second + 1)}, float(second))
    lost = ReportLoss(fence=1, cause=LossCause.HANDED_BACK, losses_max=9, crashes_max=9, detail="")
    await apply(store, run_id, lost)
    await apply(store, run_id, ClaimRun(worker_id="w1", instance_id=INSTANCE, job_no=2))
    await read_model.catch_up()
    assert await leaked.hand_back(float(LEASE_SEC)) == 0
    claim = (await the_run(store, run_id)).claim
    assert claim is not None
    assert claim.fence == 2
