"""What the verbs are tried with: a second gateway beside the first."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.store import Store
from tests.conftest import NatsServer
from tests.store.making import config_on


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server)


@pytest.fixture
async def other_store(store: Store) -> AsyncIterator[Store]:
    opened = await Store.connect(store.config, name="other")
    yield opened
    await opened.close()
