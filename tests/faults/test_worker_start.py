"""Whatever is not answered once while a worker starts is asked again: the process does not end, and works."""

from __future__ import annotations

import re

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.jetstream.errors import BrokerTooOld
from pyoco_server.store import resources
from pyoco_server.store import store as store_module
from pyoco_server.store.store import Store
from pyoco_server.worker import PyocoNatsWorker
from tests.faults.faulty_client import Fault, Faults, faulty
from tests.store.queue.test_jobs import queued
from tests.worker.stage import Flows, one_task

ASKED = {
    "its lease": r"^\$KV\..*_leases\.",
    "its entry, read": r"^\$JS\.API\.STREAM\.MSG\.GET\.KV_.*_workers$",
    "its entry, written": r"^\$KV\..*_workers\.",
    "its consumer": r"^\$JS\.API\.CONSUMER\.INFO\.",
    "its consumer, made": r"^\$JS\.API\.CONSUMER\.CREATE\.",
}


@pytest.mark.parametrize("fault", [Fault.LOSE_REQUEST, Fault.LOSE_REPLY])
@pytest.mark.parametrize("asked", ASKED)
async def test_a_request_that_is_not_answered_does_not_end_a_worker_that_starts(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch, store: Store, asked: str, fault: Fault
) -> None:
    faults = Faults()
    rule = faults.add(re.compile(ASKED[asked]), fault, times=1)
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "BrokerClient", faulty(faults))
        worker = await PyocoNatsWorker.connect(config, flow_resolver=Flows(greet=one_task(str)))
    assert rule.times == 0, "nothing was lost"
    stored = await queued(store)
    assert await worker.run_once(10.0) == stored.run.run_id
    await worker.close()


@pytest.mark.parametrize("fault", [Fault.LOSE_REQUEST, Fault.LOSE_REPLY])
@pytest.mark.parametrize("answered_before", [0, 1])
async def test_a_store_that_opens_waits_for_the_answers_about_the_log(
    config: NatsBackendConfig, store: Store, answered_before: int, fault: Fault
) -> None:
    """The log is asked about twice: how it is, and what time it is there."""
    faults = Faults()
    log = re.compile(rf"^\$JS\.API\.STREAM\.INFO\.{config.events_stream}$")
    faults.add(log, Fault.DELAY, times=answered_before, sec=0.0)
    lost = faults.add(log, fault, times=1)
    opened = await Store.connect(config, name="test", make_client=faulty(faults))
    assert lost.times == 0, "nothing was lost"
    assert opened.why_not_ready is None
    await opened.close()


async def test_a_broker_that_is_too_old_is_reported_at_once(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "OLDEST_BROKER", (99, 0))
    with pytest.raises(BrokerTooOld):
        await PyocoNatsWorker.connect(config, flow_resolver=Flows(greet=one_task(str)))
