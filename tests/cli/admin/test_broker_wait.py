"""A command waits for its broker for a limited time, whatever the attempt to connect does."""

from __future__ import annotations

import asyncio

import pytest

from pyoco_server.cli.admin import broker
from pyoco_server.cli.entry import CliRefusal
from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.store import Store


def test_an_attempt_that_loses_a_cancel_ends_with_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "CONNECT_TIMEOUT_SEC", 0.01)
    cancels = 0

    async def connect(_store: Store) -> None:
        nonlocal cancels
        while cancels < 2:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancels += 1

    async def attempt() -> None:
        store = Store(NatsBackendConfig(nats_url="nats://127.0.0.1:1"), name="test")
        await broker._open(store, connect)

    with pytest.raises(CliRefusal, match="is not available"):
        asyncio.run(attempt())
    assert cancels == 2
