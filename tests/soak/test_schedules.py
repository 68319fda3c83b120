"""Two minutes of schedules of every second, while gateways, the worker and the broker are killed in turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import NatsServer
from tests.promises.schedules.scheduled import KILLED, check_each_occurrence


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_each_occurrence_has_one_run_or_one_reason(own_nats_server: NatsServer, tmp_path: Path) -> None:
    seen = await check_each_occurrence(own_nats_server, tmp_path, lasting_sec=120.0, seed=190)
    assert all(seen[name] >= 3 for name in KILLED)
    assert all(seen[reason] for reason in ("started", "overlap", "queue_full", "replaced"))
