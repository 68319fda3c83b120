"""A long history with many values in it is read beside the event loop: others are answered meanwhile."""

from __future__ import annotations

import pytest

from pyoco_server.config import NatsBackendConfig
from tests.http_api.faces.executions.driving import Driver
from tests.http_api.holding import HOLD_SEC_MAX, held
from tests.http_api.live import live

NODES = 12
# In the form that costs most to chain: a fifth of a second for each.
MANY: list[list[int]] = [[]] * 60_000


@pytest.mark.parametrize("below", ["/events", "/state", "/verify"])
async def test_a_history_of_very_many_values_does_not_hold_up_the_gateway(
    config: NatsBackendConfig, below: str
) -> None:
    async with live(config) as first:
        drive = Driver(first.client)
        names = [f"n{number}" for number in range(NODES)]
        execution_id = await drive.started(*names)
        for name in names:
            await drive.take(execution_id, name)
            await drive.ok(execution_id, f"{name}/success", output=MANY)
    # Another gateway, which has nothing of it in memory.
    async with live(config) as other:
        with held() as holds:
            shown = await Driver(other.client).get(execution_id, below)
    assert shown.get("ok", True)
    assert holds.worst_sec < HOLD_SEC_MAX
