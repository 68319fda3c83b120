"""Refusals for broker trouble fail nobody: a message is replaced before the broker gives up on it."""

from __future__ import annotations

import pytest

from pyoco_server.jetstream.errors import BrokerAway
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.operations.runs.submit import Submission, submit
from pyoco_server.store.store import Store
from pyoco_server.worker import PyocoNatsWorker
from pyoco_server.worker.attempt import attempt
from tests.conftest import NatsServer, config_for, until
from tests.promises.flows import resolve


async def test_a_job_given_back_until_it_is_worn_out_is_replaced_and_executed(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_for(nats_server, consumer_max_deliver=3)
    store = await Store.connect(config, name="test")
    stored = await submit(store, Submission(flow_name="quick"))
    puller = await store.queue.pull(["default"])
    first = await puller.next(5.0)
    assert first is not None
    first.nak()
    await puller.close()

    worker = await PyocoNatsWorker.connect(config, flow_resolver=resolve, worker_id="w")
    # The second delivery is the last but one: a worker that meets trouble with it asks for a fresh job.
    with monkeypatch.context() as trouble:
        trouble.setattr(attempt, "claim", _in_trouble)
        assert await worker.run_once(5.0) is None
    assert await worker.run_once(5.0) == stored.run.run_id
    done = await store.runs.load(stored.run.run_id)
    assert done is not None
    assert (done.run.status, done.run.job_no, done.run.losses) == (RunStatus.COMPLETED, 2, 0)
    await until(lambda: _is_empty(store))
    await worker.close()
    await store.close()


async def _in_trouble(*_: object, **__: object) -> None:
    raise BrokerAway


async def _is_empty(store: Store) -> bool:
    info = await store.jetstream.api(f"STREAM.INFO.{store.config.work_stream}")
    return int(info["state"]["messages"]) == 0
