"""A gateway without a port: its application, driven through its whole life."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from tests.conftest import NatsServer
from tests.http_api.serving import serving
from tests.worker.stage import config_on


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server)


@pytest.fixture
async def client(config: NatsBackendConfig) -> AsyncIterator[httpx.AsyncClient]:
    """Of a gateway that is ready."""
    async with serving(config) as ready:
        yield ready
