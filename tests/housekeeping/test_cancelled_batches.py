"""The runs of cancelled batches are cancelled, whatever other batches are noted."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pyoco_server.config import NatsBackendConfig
from pyoco_server.housekeeping import cancelled_batches
from pyoco_server.ids import new_uuid
from pyoco_server.operations.batches.cancel import cancel_batch
from pyoco_server.operations.batches.records import begin
from pyoco_server.operations.runs.submit import Submission, submit, validate
from pyoco_server.store.batches import RunBatch
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.http_api.serving import serving
from tests.worker.stage import config_on


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server, housekeeping_interval_sec=0.1)


async def test_batches_whose_notes_stay_do_not_delay_the_others(
    config: NatsBackendConfig, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More interrupted batches than one look takes are noted before."""
    monkeypatch.setattr(cancelled_batches, "BATCHES_AT_ONCE", 2)
    monkeypatch.setattr(cancelled_batches, "LOOK_EVERY_SEC", 0.05)
    batches = [new_uuid() for _ in range(6)]
    for batch_id in batches:
        await begin(store, RunBatch(batch_id=batch_id, created_at=1.0, total=1))
        await cancel_batch(store, batch_id, by=None, reason=None, tenant_id=None)
    run = replace(validate(Submission(flow_name="noop"), store.config), batch_id=batches[-1])
    await submit(store, run)
    async with serving(config):

        async def is_cancelled() -> bool:
            stored = await store.runs.load(run.run_id, at_leader=True)
            return stored is not None and stored.run.is_terminal

        await until(is_cancelled)
