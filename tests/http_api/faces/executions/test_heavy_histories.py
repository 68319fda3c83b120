"""A long history with many values in it is read beside the event loop: others are answered meanwhile."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest

from pyoco_server.config import NatsBackendConfig
from tests.conftest import NatsServer
from tests.http_api.faces.executions.driving import Driver
from tests.http_api.holding import HOLD_SEC_MAX, held
from tests.http_api.live import live
from tests.worker.stage import config_on

NODES = 12
# In the form that costs most to chain: a fifth of a second for each.
MANY: list[list[int]] = [[]] * 60_000


class History(NamedTuple):
    config: NatsBackendConfig
    execution_id: str


@pytest.fixture(scope="module")
def history(nats_server: NatsServer) -> History:
    """Written once: that costs more than to read it."""
    config = config_on(nats_server)
    return History(config, asyncio.run(write(config)))


async def write(config: NatsBackendConfig) -> str:
    async with live(config) as first:
        drive = Driver(first.client)
        names = [f"n{number}" for number in range(NODES)]
        execution_id = await drive.started(*names)
        for name in names:
            await drive.take(execution_id, name)
            await drive.ok(execution_id, f"{name}/success", output=MANY)
    return execution_id


@pytest.mark.parametrize("below", ["/events", "/state", "/verify"])
async def test_a_history_of_very_many_values_does_not_hold_up_the_gateway(
    history: History, below: str
) -> None:
    # Another gateway than the one that wrote it: it has nothing of it in memory.
    async with live(history.config) as other:
        with held() as holds:
            shown = await Driver(other.client).get(history.execution_id, below)
    assert shown.get("ok", True)
    assert holds.worst_sec < HOLD_SEC_MAX
