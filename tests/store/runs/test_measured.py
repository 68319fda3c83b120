"""A snapshot that was measured otherwise, or made under a lower limit, is folded anew from the log."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from msgspec.structs import replace

from pyoco_server.lifecycle.run import Lack
from pyoco_server.store.runs import stored_run
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.store.making import START, begun, claimed, committed, config_on, put_bytes, stored_bytes, task_done

OLD_SUMS = {"bytes_full": 9_000, "bytes_slim": 7_000, "bytes_bare": 5_000}


@pytest.fixture
def healing_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_run, "HEAL_AFTER_SEC", 0.0)


async def run_of_many_tasks(store: Store) -> StoredRun:
    born = await begun(store)
    at = await committed(store, born, claimed())
    for number in range(20):
        at = await committed(store, at, *task_done(f"task-{number}", START + number))
    return await store.runs.snapshots.project(replace(at, revision=born.revision))


@pytest.mark.usefixtures("healing_at_once")
async def test_a_snapshot_with_the_sums_of_the_first_version_is_read_from_the_log_and_rewritten(
    store: Store,
) -> None:
    at = await run_of_many_tasks(store)
    run_id = at.run.run_id
    new = await stored_bytes(store, run_id)
    assert new is not None
    members = msgspec.json.decode(new)
    del members["pyoco"]["sizes"]
    members["pyoco"] |= OLD_SUMS
    members["task_records"] = {}  # left out by a sum that was too high
    members["task_records_truncated"] = True
    await put_bytes(store, run_id, msgspec.json.encode(members))
    read = await store.runs.load(run_id)
    assert read is not None
    assert read.run == at.run

    async def rewritten() -> bool:
        return await stored_bytes(store, run_id) == new

    await until(rewritten)


@pytest.mark.usefixtures("healing_at_once")
async def test_with_a_higher_limit_a_snapshot_gets_back_what_it_had_left_out(nats_server: NatsServer) -> None:
    small = await Store.connect(config_on(nats_server, max_run_snapshot_bytes=2_000), name="small")
    run_id = (await run_of_many_tasks(small)).run.run_id
    snapshot = await small.runs.snapshots.get(run_id)
    assert snapshot is not None
    assert snapshot.pyoco.lacks is Lack.RECORDS
    await small.close()

    config = dataclasses.replace(small.config, max_run_snapshot_bytes=262_144)
    large = await Store.connect(config, name="large")
    read = await large.runs.load(run_id)
    assert read is not None
    assert read.run.lacks is Lack.NOTHING

    async def whole_again() -> bool:
        found = await large.runs.snapshots.get(run_id)
        return found is not None and found.pyoco.lacks is Lack.NOTHING and len(found.task_records) == 20

    await until(whole_again)
    await large.close()
