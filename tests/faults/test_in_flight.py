"""A message that a cluster has not decided on yet (10164): nothing happens twice or is refused."""

from __future__ import annotations

import asyncio
import re

import pytest

from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.lifecycle.commands import AddTag, ClaimRun
from pyoco_server.operations.idempotency.key_scope import IdempotencyKey
from pyoco_server.operations.idempotency.keyed_request import RecordedAnswer, Reservation
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.cancel import cancel_run
from pyoco_server.operations.runs.submit import Submission, submit
from pyoco_server.store.fleet.leases import Lease
from pyoco_server.store.store import Store
from tests.faults.faulty_client import Fault, Faults
from tests.operations.idempotency.keyed import once
from tests.worker.stage import count_of, jobs_queued, submitted, the_run

KEY = IdempotencyKey(tenant="acme", principal="ci", method="POST", path="/runs", key="order-4711")
# Where commits are published; reading them goes by way of the API.
COMMIT = re.compile(r"^[^$]*\.events\.")
LEASE = re.compile(r"^\$KV\.[^.]*leases\.")
# Longer than the client waits for one reply, shorter than it is prepared to find out.
SLOW_SEC = 2.5


async def keyed_submit(store: Store) -> str:
    async def do(reservation: Reservation) -> RecordedAnswer:
        wanted = Submission(flow_name="noop", run_id=reservation.resource_id)
        stored = await submit(store, wanted, commit_id=reservation.command_id)
        return RecordedAnswer(status=200, body=stored.run.run_id.encode(), headers={}, event_ids=[])

    return (await once(store, KEY, b'{"flow_name":"noop"}', do)).body.decode()


async def test_one_key_makes_one_run_although_its_first_commit_is_slow(
    store: Store, faulty_store: Store, faults: Faults
) -> None:
    faults.add(COMMIT, Fault.IN_FLIGHT, sec=SLOW_SEC)
    try:
        first = await keyed_submit(faulty_store)
    except Unavailable:
        first = await keyed_submit(faulty_store)  # as a client does that got a 503
    again = await keyed_submit(store)
    assert ("answered 10164") in {what for _, what in faults.happened}
    assert first == again
    assert [run_id async for run_id in store.runs.ids()] == [first]
    assert await jobs_queued(store) == 1


async def test_a_submission_is_not_refused_because_it_is_slow(
    store: Store, faulty_store: Store, faults: Faults
) -> None:
    faults.add(COMMIT, Fault.IN_FLIGHT, sec=SLOW_SEC)
    run_id = await submitted(faulty_store)
    assert (await the_run(store, run_id)).status == "PENDING"
    assert await jobs_queued(store) == 1


async def test_an_accepted_command_is_not_refused_and_not_applied_twice(
    store: Store, faulty_store: Store, faults: Faults
) -> None:
    run_id = await submitted(store)
    faults.add(COMMIT, Fault.IN_FLIGHT, sec=SLOW_SEC)
    applied = await apply(faulty_store, run_id, ClaimRun(worker_id="w", instance_id="w.1", job_no=1))
    assert applied.refused is None
    assert applied.events
    assert await count_of(store, run_id, "RunClaimed") == 1


async def test_a_cancel_that_is_slow_is_accepted_once(
    store: Store, faulty_store: Store, faults: Faults
) -> None:
    run_id = await submitted(store)
    faults.add(COMMIT, Fault.IN_FLIGHT, sec=SLOW_SEC)
    await cancel_run(faulty_store, run_id)
    assert (await the_run(store, run_id)).status == "CANCELLED"
    assert await count_of(store, run_id, "CancelRequested") == 1


async def test_a_commit_behind_one_that_is_in_flight_is_decided_on_what_that_one_did(
    store: Store, faulty_store: Store, faults: Faults
) -> None:
    run_id = await submitted(store)
    faults.add(COMMIT, Fault.IN_FLIGHT, sec=0.1)
    claim = ClaimRun(worker_id="w", instance_id="w.1", job_no=1)
    tagged, claimed = await asyncio.gather(
        apply(faulty_store, run_id, AddTag(tag="late", tags_max=10)), apply(faulty_store, run_id, claim)
    )
    assert (tagged.refused, claimed.refused) == (None, None)
    assert await count_of(store, run_id, "RunClaimed") == 1
    run = await the_run(store, run_id)
    assert "late" in run.tags
    assert run.claim is not None


async def test_a_lease_is_written_although_its_renewal_is_slow(
    store: Store, faulty_store: Store, faults: Faults
) -> None:
    faults.add(LEASE, Fault.IN_FLIGHT, sec=0.1)
    revision = await faulty_store.leases.write("w.1", Lease(holder="w.1"), revision=0)
    assert (await store.leases.read("w.1"))[1] == revision
    with pytest.raises(WrongSequence):
        await faulty_store.leases.write("w.1", Lease(holder="other"), revision=0)
