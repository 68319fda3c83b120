"""For tests of requests that wait: ended runs, a feed that lags, and how often the broker was asked."""

from __future__ import annotations

from typing import Any

import pytest

from pyoco_server.jetstream.api import StoredMessage
from pyoco_server.lifecycle.events import Event, RunCompleted
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.store.making import START, begun, claimed, committed

DONE = RunCompleted(at=START + 9)


class Reads:
    """Counts what is read from the broker for a run."""

    def __init__(self, patch: pytest.MonkeyPatch, store: Store) -> None:
        self.runs, self.lasts = 0, 0
        load, last_message = store.runs.load, store.runs.last_message

        async def counted_load(run_id: str, **how: bool) -> StoredRun | None:
            self.runs += 1
            return await load(run_id, **how)

        async def counted_last(**how: bool) -> StoredMessage | None:
            self.lasts += 1
            return await last_message(**how)

        patch.setattr(store.runs, "load", counted_load)
        patch.setattr(store.runs, "last_message", counted_last)


class HeldFeed:
    """The feed of a gateway that lags: messages wait until `release`."""

    def __init__(self, patch: pytest.MonkeyPatch, read_model: ReadModel) -> None:
        self._held: list[Any] = []
        self._deliver = read_model.feed._on_message
        self._is_held = True
        patch.setattr(read_model.feed, "_on_message", self._on_message)

    def release(self) -> None:
        self._is_held = False
        for message in self._held:
            self._deliver(*message)

    def _on_message(self, *message: Any) -> None:
        if self._is_held:
            self._held.append(message)
        else:
            self._deliver(*message)


async def fed(read_model: ReadModel, at: StoredRun) -> StoredRun:
    await until(lambda: read_model.feed.position >= at.log_seq)
    return at


async def ended(store: Store, read_model: ReadModel, *events: Event) -> StoredRun:
    at = await committed(store, await begun(store), claimed())
    return await fed(read_model, await committed(store, at, *(events or (DONE,))))
