"""A gateway, a store beside it, and a worker in this process: enough for every requirement."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker import PyocoNatsWorker
from tests.conftest import NatsServer, config_for
from tests.http_api.serving import serving
from tests.worker.stage import Flows, one_task, working


class Stage:
    """Flows whose tasks the test holds in its hands."""

    def __init__(self) -> None:
        self.started, self.go_on = threading.Event(), threading.Event()
        self.flows = Flows(
            hello=one_task(lambda: "hello"), fails=one_task(self._fail), waits=one_task(self._wait)
        )

    def _fail(self) -> None:
        raise ValueError("on purpose")

    def _wait(self, ctx: Any) -> str:
        self.started.set()
        while not self.go_on.wait(0.01) and not ctx.is_cancelled:
            pass
        return "went on"


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_for(nats_server, cancel_grace_period_sec=0.5, run_heartbeat_interval_sec=0.05)


@pytest.fixture
async def client(config: NatsBackendConfig) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(config) as ready:
        yield ready


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
async def worker(config: NatsBackendConfig, stage: Stage) -> AsyncIterator[PyocoNatsWorker]:
    async with working(config, stage.flows, worker_id="w", concurrency=2) as started:
        served = asyncio.create_task(started.serve())
        yield started
        stage.go_on.set()
        started.stop()
        await asyncio.wait([served], timeout=10)


async def run_to_end(client: httpx.AsyncClient, flow: str, **members: Any) -> dict[str, Any]:
    answer = await client.post("/runs", json={"flow_name": flow} | members)
    answer.raise_for_status()
    return await ended(client, answer.json()["run_id"])


async def ended(client: httpx.AsyncClient, run_id: str) -> dict[str, Any]:
    answer = await client.get(f"/runs/{run_id}", params={"wait": 20, "include": "records"})
    shown: dict[str, Any] = answer.raise_for_status().json()
    return shown
