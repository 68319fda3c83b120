"""What a repeated request for a batch answers: which items have runs, as it was decided then."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from pyoco_server import clock
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.http_api.faces.runs.batches import body
from pyoco_server.operations.batches import submit as batch_submit
from pyoco_server.operations.runs.submit import DELAY_SEC_MAX
from pyoco_server.operations.runs.submit import submit as submit_run
from pyoco_server.store.runs.stored_run import StoredRun
from pyoco_server.store.store import Store
from tests.conftest import NatsServer
from tests.http_api.faces.runs.test_batches import items, lines_of, sent
from tests.worker.stage import config_on


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server, housekeeping_interval_sec=0.1)


async def test_runs_of_an_interrupted_request_are_named_after_a_cancel(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body, "PORTION", 2)
    begun: list[str] = []

    async def losing(store: Store, wanted: Any, **how: Any) -> StoredRun:
        begun.append(wanted.run_id)
        if len(begun) > 3:
            raise Unavailable("The broker did not answer.")
        return await submit_run(store, wanted, **how)

    with monkeypatch.context() as lost:
        lost.setattr(batch_submit, "submit", losing)
        first, _, _ = lines_of(await sent(client, items(6), "key"))
    await client.post(f"/batches/{first['batch_id']}/cancel")
    again = lines_of(await sent(client, items(6), "key"))
    assert [one.get("run_id") for one in again[1]] == [*begun[:3], None, None, None]
    assert (again[2]["accepted"], again[2]["refused"], again[2]["complete"]) == (3, 3, True)
    assert lines_of(await sent(client, items(6), "key")) == again


async def test_an_item_that_was_refused_then_has_no_run_when_it_is_valid_now(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [*items(9), *items(1, start_at=time.time() + DELAY_SEC_MAX + 60)]
    _, found, last = lines_of(await sent(client, wanted, "key"))
    assert ["error" in one for one in found] == [False] * 9 + [True]
    now = clock.now
    monkeypatch.setattr(clock, "now", lambda: now() + 120)
    _, again, end = lines_of(await sent(client, wanted, "key"))
    assert again[:9] == found[:9]
    assert "run_id" not in again[9]
    assert end == last
