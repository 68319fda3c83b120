"""What these tests stand on: a configuration small enough that all of them fit on one broker."""

from __future__ import annotations

import pytest

from pyoco_server.config import NatsBackendConfig
from tests.conftest import NatsServer
from tests.worker.stage import config_on


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server)
