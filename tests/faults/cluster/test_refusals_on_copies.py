"""Streams with several copies: refusals are confirmed, and what was right with one copy stays right."""

from __future__ import annotations

import asyncio
import re

import pytest

from pyoco_server import clock
from pyoco_server.errors import NotFound
from pyoco_server.http_api.faces.executions.event_history import EventHistory
from pyoco_server.jetstream.kv import Bucket, KvEntry
from pyoco_server.lifecycle.commands import AddTag
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.lifecycle.graph import GraphTask
from pyoco_server.operations.executions.graphs import register
from pyoco_server.operations.executions.histories import Histories
from pyoco_server.operations.fleet.workers import patch
from pyoco_server.operations.identity.callers import ANONYMOUS
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.cancel import cancel_run
from pyoco_server.operations.runs.erase import erase_run
from pyoco_server.operations.runs.query import get_run
from pyoco_server.operations.runs.submit import Submission
from pyoco_server.operations.schedules import create
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.schedules.timing import ScheduleKind, Timing
from pyoco_server.store.fleet.registry import DRAIN
from pyoco_server.store.graphs import _head_key
from pyoco_server.store.store import Store
from tests.faults.cluster.copies import with_copies
from tests.faults.faulty_client import Fault, Faults
from tests.worker.stage import submitted

READ = re.compile(r"^\$JS\.API\.STREAM\.MSG\.GET\.")


async def test_an_erased_run_is_said_to_be_gone_and_not_to_be_busy(store: Store) -> None:
    """What is left of it in the log is the mark of its erasure: that is no later commit to wait for."""
    with_copies(store)
    run_id = await _erased(store)
    applied = await apply(store, run_id, AddTag(tag="late", tags_max=10))
    assert applied.refused is not None
    assert applied.refused.reason is Reason.UNKNOWN


async def test_the_history_of_an_erased_run_is_not_found(store: Store) -> None:
    with_copies(store)
    run_id = await _erased(store)
    model = ReadModel(store.client, store.jetstream, store.config)
    with pytest.raises(NotFound):
        await Histories(store, model, EventHistory).read(run_id)


async def test_a_crowd_that_asks_for_one_unknown_run_is_confirmed_together(store: Store) -> None:
    """Confirmations of one place stand in each other's way, and in that of commits."""
    with_copies(store)
    before = await store.jetstream.last_seq(store.config.events_stream)
    asked = await asyncio.gather(*(get_run(store, "unknown") for _ in range(50)), return_exceptions=True)
    assert all(isinstance(one, NotFound) for one in asked)
    assert await store.jetstream.last_seq(store.config.events_stream) - before < 10


async def test_a_graph_is_registered_again_where_only_an_old_head_says_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Registered: this, then another, then this again. The answer is the third version, not the first."""
    with_copies(store)
    this, other = (GraphTask(id="a"),), (GraphTask(id="b"),)
    await register(store, ANONYMOUS, "g", this)
    bucket = store.graphs._bucket
    old = await bucket.get_at_leader(_head_key(None, "g"))
    await register(store, ANONYMOUS, "g", other)
    _shown_once(monkeypatch, bucket, old)
    found, is_new = await register(store, ANONYMOUS, "g", this)
    assert (found.graph.version, is_new) == (3, True)


async def test_a_worker_that_was_started_again_is_not_said_to_have_stopped(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_copies(store)
    bucket = store.registry._bucket
    await store.registry.merge("w", {"state": "STOPPED_GRACEFUL"})
    stopped = await bucket.get_at_leader("w")
    await store.registry.merge("w", {"state": "IDLE", "last_seen_at": clock.now(), "instance_id": "w.2"})
    _shown_once(monkeypatch, bucket, stopped)
    await patch(store, "w", draining=True)
    record = await store.registry.get("w")
    assert record is not None
    assert record[DRAIN] == "w.2"


async def test_what_a_schedule_begins_with_is_not_missing_because_one_node_lacks_it(
    store: Store, faulty_store: Store, faults: Faults
) -> None:
    with_copies(faulty_store)
    timing = Timing(kind=ScheduleKind.INTERVAL, interval_seconds=3600.0, start_at=clock.now())
    made = await create(store, Submission(flow_name="five"), timing, None, now=clock.now())
    faults.add(READ, Fault.NO_MESSAGE)
    assert await faulty_store.schedules.begins_with(made.schedule_id) is not None


def _shown_once(monkeypatch: pytest.MonkeyPatch, bucket: Bucket, old: KvEntry) -> None:
    """The next reader is shown this, and later ones what is there."""
    read = bucket.get_at_leader

    async def get_at_leader(key: str) -> KvEntry:
        monkeypatch.setattr(bucket, "get_at_leader", read)
        return old

    monkeypatch.setattr(bucket, "get_at_leader", get_at_leader)


async def _erased(store: Store) -> str:
    run_id = await submitted(store)
    await cancel_run(store, run_id)
    await erase_run(store, run_id, by=None, tenant_id=None)
    return run_id
