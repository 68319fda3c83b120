"""Each occurrence of a schedule has one run or one recorded reason, whatever is killed when."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import NatsServer
from tests.promises.schedules.scheduled import KILLED, check_each_occurrence


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_each_occurrence_has_one_run_or_one_reason(own_nats_server: NatsServer, tmp_path: Path) -> None:
    seen = await check_each_occurrence(own_nats_server, tmp_path, lasting_sec=8.0, seed=19)
    assert all(seen[name] for name in (*KILLED, "started", "overlap"))
