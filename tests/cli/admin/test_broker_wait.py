"""A command waits for its broker for a limited time, whatever the attempt to connect does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pyoco_server.cli.admin import broker
from pyoco_server.cli.admin.examination import Finding, FindingLevel, at_broker
from pyoco_server.cli.entry import CliRefusal
from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.store import Store
from tests.cli.programs import Programs
from tests.conftest import free_port
from tests.promises.cluster.nodes import Member


class Stubborn:
    """An attempt to connect that loses its first cancel, as `asyncio.wait_for` can before Python 3.12."""

    def __init__(self) -> None:
        self.cancels = 0

    async def connect(self, _store: Store | None = None) -> None:
        while self.cancels < 2:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancels += 1


@pytest.fixture
def stubborn(monkeypatch: pytest.MonkeyPatch) -> Stubborn:
    monkeypatch.setattr(broker, "CONNECT_TIMEOUT_SEC", 0.01)
    stubborn = Stubborn()
    monkeypatch.setattr(Store, "reach", stubborn.connect)
    return stubborn


def test_a_command_is_refused_in_time(stubborn: Stubborn) -> None:
    with pytest.raises(CliRefusal, match="is not available"):
        broker.ask_broker("nats://127.0.0.1:1", None, stubborn.connect, as_it_is=True)
    assert stubborn.cancels == 2


def test_doctor_reports_it_in_time(stubborn: Stubborn) -> None:
    async def look() -> list[Finding]:
        config = NatsBackendConfig(nats_url="nats://127.0.0.1:1")
        return [finding async for finding in at_broker(config)]

    found = asyncio.run(look())
    assert [finding.level for finding in found if finding.name == "broker"] == [FindingLevel.FAIL]
    assert stubborn.cancels == 2


def test_a_cluster_without_a_leader_is_reported_in_two_lines(programs: Programs, tmp_path: Path) -> None:
    alone = Member("n1", tmp_path, free_port())
    alone.configure(f"listen: 127.0.0.1:{free_port()}, routes: [nats://127.0.0.1:{free_port()}]")
    alone.start()
    try:
        listing = programs.start("pyoco-server-admin", "api-key", "list", "--nats-url", alone.url)
        assert listing.ended() == 1
    finally:
        alone.stop()
    assert listing.errors == (
        f"error: The broker at {alone.url} is not available: The broker did not answer in time. Try again. "
        "(ERR-PYOCO-0003)\ntry:   pyoco-server-admin doctor\n"
    )
