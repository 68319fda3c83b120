"""One stream has no leader: what does not need it goes on, and the rest is answered with 503 in time.

The table is that of docs/decisions/0036.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import httpx
import pytest

from pyoco_server.clock import elapsed
from pyoco_server.config import NatsBackendConfig
from pyoco_server.housekeeping.lost_workers import LostWorkers
from pyoco_server.lifecycle.commands import ClaimRun
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.cancel import cancel_run
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store import store as store_module
from pyoco_server.store.store import Store
from pyoco_server.worker import PyocoNatsWorker
from tests.conftest import NatsServer, until
from tests.faults.cluster.dead_stream import kill, stream_names
from tests.faults.faulty_client import Faults, faulty
from tests.http_api.serving import serving, submit
from tests.store.making import begun
from tests.worker.stage import Flows, config_on, one_task, submitted

BROKER_TIMEOUT_SEC = 0.5
MANY_TIMEOUT_SEC = 3.0
# A request is tried three times where that is safe, and what may have been stored is looked for.
ANSWER_SEC = 6 * BROKER_TIMEOUT_SEC
# A run's end waits for one unanswered request of its log, and not for every one.
END_SEC = 4 * BROKER_TIMEOUT_SEC + 1.5

# What is refused with 503 while the stream is away. Everything else that is asked here works.
REFUSED: dict[str, set[str]] = {
    "events": {"submit", "keyed", "get", "list", "cancel", "logs"},
    "work": {"submit", "keyed"},
    "runs": {"submit", "keyed", "get", "cancel", "logs"},
    "logs": {"logs"},
    "workers": {"workers"},
    "schedules": {"schedules"},
    "idempotency": {"keyed"},
    "auth": {"logs", "dead letters"},  # until the secret is known that signs where a page ends
    "dlq": {"dead letters"},
    "wheels": {"wheels"},
    "leases": set(),
    "refused": set(),
    "graphs": set(),
    "wheel_history": set(),
    "results": set(),
    "rechecks": set(),
    "dismissals": set(),  # it is asked for existing letters only
    "limits": set(),
    "artifacts": set(),
    "batches": {"batches"},
    "occurrences": set(),  # the history of a schedule
}
NEEDED_BY_ALL = ("events", "work", "runs", "leases")


def said() -> str:
    sys.stdout.write("hello\n")
    return "ok"


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server, broker_timeout_sec=BROKER_TIMEOUT_SEC)


@asynccontextmanager
async def installation(
    config: NatsBackendConfig, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[httpx.AsyncClient]:
    """A gateway and a worker, both with this client."""
    monkeypatch.setattr(store_module, "BrokerClient", faulty(faults))
    async with serving(config) as client:
        worker = await PyocoNatsWorker.connect(config, flow_resolver=Flows(talk=one_task(said)))
        work = asyncio.create_task(worker.serve())
        try:
            yield client
        finally:
            faults.is_on = False
            worker.stop()
            await asyncio.wait([work], timeout=10.0)
            await worker.close()


async def timed(asking: asyncio.Future[httpx.Response]) -> int:
    began = elapsed()
    answer = await asking
    assert elapsed() - began < ANSWER_SEC, answer.request.url
    return answer.status_code


async def is_completed(client: httpx.AsyncClient, run_id: str) -> bool:
    return bool((await client.get(f"/runs/{run_id}")).json().get("status") == "COMPLETED")


async def answers(client: httpx.AsyncClient, waiting: str) -> dict[str, int]:
    body = {"flow_name": "noop", "tag": "unserved"}
    asked = {
        "submit": partial(client.post, "/runs", json=body),
        "keyed": partial(client.post, "/runs", json=body, headers={"Idempotency-Key": "order-4711"}),
        "get": partial(client.get, f"/runs/{waiting}"),
        "list": partial(client.get, "/runs"),
        "logs": partial(client.get, f"/runs/{waiting}/logs"),
        "workers": partial(client.get, "/workers"),
        "schedules": partial(client.get, "/schedules"),
        "batches": partial(client.get, "/batches"),
        "wheels": partial(client.get, "/wheels"),
        "dead letters": partial(client.get, "/dlq"),
        "metrics": partial(client.get, "/metrics"),
        "cancel": partial(client.post, f"/runs/{waiting}/cancel"),
    }
    return {name: await timed(asyncio.ensure_future(ask())) for name, ask in asked.items()}


def test_the_table_has_every_stream(config: NatsBackendConfig) -> None:
    assert set(REFUSED) == set(stream_names(config))


@pytest.mark.parametrize("name", REFUSED)
async def test_a_stream_that_is_away_stops_only_what_needs_it(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    faults = Faults()
    async with installation(config, faults, monkeypatch) as client:
        waiting = await submit(client, tag="unserved")
        await client.get("/runs")
        kill(faults, config, name)
        found = await answers(client, waiting)
        refused = {what for what, status in found.items() if status == 503}
        assert refused == REFUSED[name]
        assert {status for what, status in found.items() if what not in refused} == {200}

        if "submit" not in refused:
            run_id = await submit(client, "talk")
            await until(partial(is_completed, client, run_id), within_sec=END_SEC)
        faults.is_on = False
        run_id = await submit(client, "talk")
        await until(partial(is_completed, client, run_id))


@pytest.mark.parametrize("name", sorted(set(REFUSED) - set(NEEDED_BY_ALL)))
async def test_a_process_starts_while_a_stream_that_it_can_do_without_is_away(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch, store: Store, name: str
) -> None:
    faults = Faults()
    kill(faults, config, name)
    monkeypatch.setattr(store_module, "BrokerClient", faulty(faults))
    starting = await Store.connect(config, name="starting")
    assert starting.why_not_ready is None
    stored = await begun(starting)
    assert await starting.runs.load(stored.run.run_id) is not None
    assert starting._reported is not None
    # It is looked at when it is back, so that what is not as configured there is said.
    faults.is_on = False
    await until(lambda: starting._reported is None)
    await starting.close()


async def test_the_log_must_have_been_seen_by_a_process_that_starts(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    faults = Faults()
    kill(faults, config, "events")
    monkeypatch.setattr(store_module, "BrokerClient", faulty(faults))
    starting = Store(config, name="starting")
    opening = asyncio.create_task(starting.open())
    await until(lambda: "did not answer" in (starting.why_not_ready or ""))
    assert not opening.done()
    faults.is_on = False
    await opening
    assert starting.why_not_ready is None
    await starting.close()


async def test_streams_that_are_away_together_are_not_waited_for_one_after_the_other(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Faults()
    async with installation(config, faults, monkeypatch) as client:
        for name in REFUSED:
            if name not in NEEDED_BY_ALL:
                kill(faults, config, name)
        run_id = await submit(client, "talk")
        await until(partial(is_completed, client, run_id), within_sec=END_SEC)


async def test_requests_that_wait_for_a_stream_do_not_hold_up_others(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long enough for the other requests on a busy machine.
    config = config_on(nats_server, broker_timeout_sec=MANY_TIMEOUT_SEC)
    faults = Faults()
    async with installation(config, faults, monkeypatch) as client:
        waiting = await submit(client, tag="unserved")
        kill(faults, config, "logs")
        stuck = [asyncio.ensure_future(client.get(f"/runs/{waiting}/logs")) for _ in range(300)]
        began = elapsed()
        for _ in range(5):
            await submit(client, tag="unserved")
            assert (await client.get(f"/runs/{waiting}")).status_code == 200
        assert elapsed() - began < 2 * MANY_TIMEOUT_SEC
        assert {answer.status_code for answer in await asyncio.gather(*stuck)} == {503}


async def test_lines_that_could_not_be_stored_at_the_end_are_stored_when_the_stream_is_back(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    faults = Faults()
    async with installation(config, faults, monkeypatch) as client:
        kill(faults, config, "logs")
        run_id = await submit(client, "talk")
        await until(partial(is_completed, client, run_id), within_sec=END_SEC)
        assert await store.logs.entries(run_id) == []
        faults.is_on = False

        async def is_there() -> bool:
            return "hello" in [entry.message for entry in await store.logs.entries(run_id)]

        await until(is_there)


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["lost", "cancelled and lost"])
async def test_runs_of_a_lost_worker_are_taken_over_without_waiting_for_their_logs(
    config: NatsBackendConfig, store: Store, faulty_store: Store, faults: Faults, is_cancelled: bool
) -> None:
    run_ids = [await submitted(store) for _ in range(10)]
    for run_id in run_ids:
        await apply(store, run_id, ClaimRun(worker_id="w", instance_id="w.dead", job_no=1))
        if is_cancelled:
            await cancel_run(store, run_id)
    read_model = ReadModel(faulty_store.client, faulty_store.jetstream, config)
    await read_model.start()
    try:
        await read_model.catch_up()
        kill(faults, config, "logs")
        lost_workers, began = LostWorkers(faulty_store, read_model), elapsed()
        looks = [await lost_workers.look(float(second), own_write_went_through=True) for second in range(10)]
        assert sum(looks) == len(run_ids)
        assert elapsed() - began < 4 * BROKER_TIMEOUT_SEC
    finally:
        await read_model.stop()
