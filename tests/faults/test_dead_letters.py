"""A run that failed has its dead letter, once, whatever went wrong when it was to be written."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.housekeeping import lost_workers as losing
from pyoco_server.housekeeping.lost_workers import LostWorkers
from pyoco_server.housekeeping.missing_letters import MissingLetters
from pyoco_server.lifecycle.commands import ClaimRun, FailRun
from pyoco_server.operations.fleet.publish_dead_letter import MAX_DELIVER, publish_dead_letter
from pyoco_server.operations.runs.apply import apply
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store import store as store_module
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.faults.faulty_client import Fault, Faults, faulty
from tests.worker.stage import (
    Flows,
    config_on,
    ended_as,
    letters,
    one_task,
    queue_drained,
    submitted,
    the_letter,
    the_run,
    working,
)

LEASE_SEC = 5


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server, broker_timeout_sec=1.0, consumer_max_deliver=1)


@pytest.fixture
def missing(store: Store) -> MissingLetters:
    return MissingLetters(store, settled_sec=0.0)


async def lost(store: Store, read_model: ReadModel, *, by: Store | None = None) -> str:
    """A run that fails because its worker is lost, by a housekeeper with this store."""
    run_id = await submitted(store)
    await apply(store, run_id, ClaimRun(worker_id="w", instance_id="w.dead", job_no=1))
    await read_model.catch_up()
    losses = LostWorkers(by or store, read_model)
    for second in range(LEASE_SEC + 2):
        await losses.look(float(second), own_write_went_through=True)
    await ended_as(store, run_id, "FAILED")
    return run_id


async def no_notes(store: Store) -> bool:
    return await store.owed_letters.oldest(10) == []


async def test_a_letter_of_a_lost_run_that_the_broker_did_not_take_is_written_later(
    store: Store, faulty_store: Store, faults: Faults, read_model: ReadModel, missing: MissingLetters
) -> None:
    letter = re.compile(re.escape(store.config.dlq_subject_prefix))
    faults.add(letter, Fault.LOSE_REQUEST, times=100)
    run_id = await lost(store, read_model, by=faulty_store)
    assert await letters(store) == []
    assert await missing.look() == 1
    assert (await the_letter(store))["run_id"] == run_id
    assert await no_notes(store)


@pytest.mark.parametrize("step", ["note_soon", "publish_dead_letter"])
async def test_a_housekeeper_that_dies_after_the_commit_leaves_a_run_that_gets_its_letter(
    store: Store, read_model: ReadModel, missing: MissingLetters, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    async def dies(*_: object) -> bool:
        raise RuntimeError("killed")

    with monkeypatch.context() as before_the_letter:
        before_the_letter.setattr(losing, step, dies)
        run_id = await lost(store, read_model)
    assert (await letters(store), await missing.look()) == ([], 1)
    assert (await the_letter(store))["run_id"] == run_id
    assert await no_notes(store)


async def test_a_letter_that_is_there_is_not_written_again_however_much_later(
    store: Store, read_model: ReadModel, missing: MissingLetters
) -> None:
    """The broker forgets the ids of messages after a while."""
    stream = store.config.dlq_stream
    info = await store.jetstream.api(f"STREAM.INFO.{stream}")
    short = info["config"] | {"duplicate_window": 100_000_000}
    await store.jetstream.api(f"STREAM.UPDATE.{stream}", short)
    run_id = await lost(store, read_model)
    assert await no_notes(store)
    run = await the_run(store, run_id)
    await store.owed_letters.note(run_id, MAX_DELIVER)
    await until(lambda: _is_forgotten(store, run_id))
    assert await letters(store) == [await the_letter(store)]
    assert (await missing.look(), await no_notes(store)) == (0, True)
    assert len(await letters(store)) == 1
    assert await publish_dead_letter(store, run, MAX_DELIVER)  # it would have been taken
    assert len(await letters(store)) == 2


async def test_a_note_of_a_run_that_goes_on_writes_nothing_and_is_removed_at_its_end(
    store: Store, missing: MissingLetters
) -> None:
    run_id = await submitted(store)
    await store.owed_letters.note(run_id, MAX_DELIVER)
    assert (await missing.look(), await no_notes(store)) == (0, False)
    async with working(store.config) as worker:
        assert await worker.run_once(timeout=20.0) == run_id
    missing._look_at = 0.0
    assert (await missing.look(), await no_notes(store), await letters(store)) == (0, True, [])


async def test_a_letter_that_a_worker_could_not_publish_is_written_later(
    store: Store, config: NatsBackendConfig, missing: MissingLetters, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Faults()
    faults.add(re.compile(re.escape(config.dlq_subject_prefix)), Fault.LOSE_REQUEST, times=100)
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "BrokerClient", faulty(faults))
        async with working(config, Flows(fails=one_task(_fails))) as worker:
            run_id = await submitted(store, "fails")
            assert await worker.run_once(timeout=20.0) == run_id
            await queue_drained(store)
    await ended_as(store, run_id, "FAILED")
    assert (await letters(store), await missing.look()) == ([], 1)
    letter = await the_letter(store)
    assert (letter["reason"], letter["run_id"]) == ("execution_error", run_id)


async def test_a_worker_that_dies_after_the_commit_leaves_a_run_that_gets_its_letter(
    store: Store, missing: MissingLetters
) -> None:
    """Its job comes back, and says that the letter may be missing."""
    run_id = await submitted(store)
    claim = ClaimRun(worker_id="w", instance_id="w.dead", job_no=1)
    await apply(store, run_id, claim, FailRun(fence=1, reason="execution_error", error="no"))
    async with working(store.config) as worker:
        await worker.run_once(timeout=20.0)
        await queue_drained(store)
    assert (await letters(store), await missing.look()) == ([], 1)
    assert (await the_letter(store))["run_id"] == run_id


async def test_a_job_without_a_run_comes_back_until_its_letter_is_stored(
    store: Store, config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Faults()
    faults.add(re.compile(re.escape(config.dlq_subject_prefix)), Fault.LOSE_REQUEST, times=1)
    several = replace(config, consumer_max_deliver=5)
    monkeypatch.setattr("pyoco_server.worker.attempt.attempt.NAK_LETTER_SEC", 0.1)
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "BrokerClient", faulty(faults))
        async with working(several) as worker:
            await store.jetstream.publish(f"{config.work_subject_prefix}.default", b"no job")
            await worker.run_once(timeout=20.0)
            assert await letters(store) == []
            await worker.run_once(timeout=20.0)
            await queue_drained(store)
    assert (await the_letter(store))["reason"] == "invalid_job"


def _fails() -> None:
    raise ValueError("no")


async def _is_forgotten(store: Store, run_id: str) -> bool:
    """Whether the broker would take a message with an id that it has seen."""
    found = await store.jetstream.after(store.config.dlq_stream, f"{store.config.dlq_subject_prefix}.>", 0)
    now = await store.jetstream.clock(store.config.dlq_stream)
    stored_at: Any = found[-1].stored_at
    return bool(now - stored_at > 0.5)
