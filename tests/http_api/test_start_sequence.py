"""Whatever fails once while a gateway starts is repeated; `/ready` names what does not work."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.http_api import create_app
from pyoco_server.http_api.faces.executions.event_history import EventHistory
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.lifecycle.commands import ClaimRun
from pyoco_server.operations.runs.apply import apply
from pyoco_server.store.store import Store
from pyoco_server.supervision import Service
from tests.conftest import NatsServer, free_port, until
from tests.http_api.serving import is_ready, submit
from tests.worker.stage import config_on, the_run

STEPS = [
    "broker",
    "storage",
    "list of runs",
    "list of rechecks",
    "recheck executor",
    "commands",
    "histories",
    "watched runs",
    "requests",
    "dead letters",
    "changes of workers",
    "changes of lists",
    "housekeeping",
    "recheck batches",
    "memory",
]
QUICK = {"housekeeping_interval_sec": 0.1, "worker_lease_sec": 1.1, "worker_lease_interval_sec": 0.1}


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server, **QUICK)


@asynccontextmanager
async def starting(config: NatsBackendConfig, prepare: Any) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(config)
    prepare(app.state.gateway)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=30) as client,
    ):
        yield client


def failing_once(gateway: Gateway, step: str, error: Exception) -> None:
    errors = [error]

    def wrap(service: Service) -> Service:
        async def start() -> None:
            if errors:
                raise errors.pop()
            await service.start()

        return dataclasses.replace(service, start=start) if service.name == step else service

    services = gateway._services
    services.services = [wrap(service) for service in services.services]


async def test_every_step_of_the_start_is_known_to_these_tests(config: NatsBackendConfig) -> None:
    gateway = Gateway(config, make_history=EventHistory)
    assert [service.name for service in gateway._services.services] == STEPS
    await gateway.stop()


@pytest.mark.parametrize(
    "error", [Unavailable("no leader"), RuntimeError("a defect")], ids=["away", "defect"]
)
@pytest.mark.parametrize("step", STEPS)
async def test_a_step_that_fails_once_is_repeated_and_housekeeping_is_done(
    config: NatsBackendConfig, store: Store, step: str, error: Exception
) -> None:
    async with starting(config, lambda gateway: failing_once(gateway, step, error)) as client:
        await until(lambda: is_ready(client))
        run_id = await submit(client)
        await apply(store, run_id, ClaimRun(worker_id="w", instance_id="w.dead", job_no=1))

        async def is_taken_over() -> bool:
            return (await the_run(store, run_id)).losses == 1

        await until(is_taken_over)
        [listed] = (await client.get("/runs")).json()
        assert listed["run_id"] == run_id


async def test_a_step_that_cannot_be_done_is_named(config: NatsBackendConfig) -> None:
    def prepare(gateway: Gateway) -> None:
        away = AsyncMock(side_effect=Unavailable("the stream of dead letters has no leader"))
        gateway.list_changes.stream_changes._ends = away  # type: ignore[method-assign]

    async with starting(config, prepare) as client:
        reason = "changes of lists: the stream of dead letters has no leader"

        async def is_named() -> bool:
            answer = await client.get("/ready")
            return answer.status_code == 503 and answer.json()["reasons"] == [reason]

        await until(is_named)
        # What does not need it is served meanwhile.
        assert (await client.get("/runs")).status_code == 200


async def test_housekeeping_that_fails_is_named(config: NatsBackendConfig) -> None:
    def prepare(gateway: Gateway) -> None:
        away = AsyncMock(side_effect=Unavailable("the stream of schedules has no leader"))
        gateway._housekeeper._due_schedules._read_changes = away  # type: ignore[method-assign]

    async with starting(config, prepare) as client:
        reason = "housekeeping fails: schedules (the stream of schedules has no leader)"

        async def is_named() -> bool:
            answer = await client.get("/ready")
            return answer.status_code == 503 and answer.json()["reasons"] == [reason]

        await until(is_named)
        metrics = (await client.get("/metrics")).text
        assert 'pyoco_loop_failures_total{loop="housekeeping.schedules"}' in metrics


@pytest.mark.parametrize(
    ("member", "setting"),
    [("nats_tls_ca_file", "PYOCO_NATS_TLS_CA_FILE"), ("nats_creds_file", "PYOCO_NATS_CREDS_FILE")],
)
async def test_a_wrong_setting_is_reported_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, member: str, setting: str
) -> None:
    """Also where no broker answers yet: the operator must not wait for it to learn of the mistake."""
    files: dict[str, Any] = {member: str(tmp_path / "missing")}
    config = NatsBackendConfig(nats_url=f"nats://127.0.0.1:{free_port()}", start_wait_sec=0, **files)
    async with starting(config, lambda _: None) as client:

        async def says_so() -> bool:
            reasons = (await client.get("/ready")).json()["reasons"]
            return any(setting in reason for reason in reasons)

        await until(says_so, within_sec=5.0)
    assert any(setting in record.__dict__.get("error", "") for record in caplog.records)
