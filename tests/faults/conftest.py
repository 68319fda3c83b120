"""A store whose client loses and delays messages by rules, beside the fault-free `store`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.store import Store
from tests.conftest import NatsServer
from tests.faults.faulty_client import Faults, faulty
from tests.worker.stage import config_on


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    """A broker that does not answer is noticed soon; everything else is as in production."""
    return config_on(nats_server, broker_timeout_sec=1.0)


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
async def faulty_store(config: NatsBackendConfig, faults: Faults) -> AsyncIterator[Store]:
    opened = await Store.connect(config, name="faulty", make_client=faulty(faults))
    yield opened
    faults.is_on = False
    await opened.close()
