"""Which lists have changed, for whoever looks at one: that they should be read again, not what is in them.

A reader's place is how often each list had changed. Whoever comes back is told what has changed since; where
that is not known (another gateway, or this one started again), that all have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from pyoco_server.ids import new_uuid
from pyoco_server.lifecycle.events import Event
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.live.notify import Notify, noop
from pyoco_server.read_model.rechecks import RecheckModel
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.list_changes import StreamChanges
from pyoco_server.store.store import Store

LISTS = ("approvals", "dead_letters", "schedules", "strategies", "wheels")
# Lists that change all the time are read so often and not more.
TELL_INTERVAL_SEC = 0.25


class ListChange(NamedTuple):
    """`place`: reached with these."""

    names: list[str]
    place: str


class ListChanges:
    def __init__(self, store: Store, read_model: ReadModel, rechecks: RecheckModel) -> None:
        self._changes = StreamChanges(store.client, store.jetstream, store.config, self._on_change)
        self._epoch = new_uuid()
        self._numbers = dict.fromkeys(LISTS, 0)
        self._readers: set[ListChangesReader] = set()
        read_model.notifications.on_new_commit(self._on_commit)
        read_model.notifications.on_rebuilt(lambda: self._on_change("approvals"))
        rechecks.on_change(lambda: self._on_change("strategies"))

    async def start(self) -> None:
        await self._changes.start()

    async def stop(self) -> None:
        await self._changes.stop()

    def handle_reconnect(self) -> None:
        self._changes.handle_reconnect()

    def why_not(self) -> str | None:
        return self._changes.why_not()

    def subscribe(self, tenant_id: str | None, place: str | None) -> ListChangesReader:
        reader = ListChangesReader(self, tenant_id, self._changed_since(place))
        self._readers.add(reader)
        return reader

    def unsubscribe(self, reader: ListChangesReader) -> None:
        self._readers.discard(reader)
        reader.close()

    @property
    def place(self) -> str:
        return ".".join([self._epoch, *(str(self._numbers[name]) for name in LISTS)])

    def __len__(self) -> int:
        return len(self._readers)

    def _changed_since(self, place: str | None) -> set[str]:
        if place is None:
            return set()
        epoch, *numbers = place.split(".")
        if epoch != self._epoch or len(numbers) != len(LISTS):
            return set(LISTS)
        return {
            name for name, number in zip(LISTS, numbers, strict=True) if number != str(self._numbers[name])
        }

    def _on_commit(self, before: Run | None, after: Run, _events: Sequence[Event]) -> None:
        if after.waits or (before is not None and before.waits):
            self._on_change("approvals", after.tenant_id)

    def _on_change(self, name: str, tenant_id: str | None = None) -> None:
        self._numbers[name] += 1
        for reader in tuple(self._readers):
            reader.hear(name, tenant_id)


class ListChangesReader:
    def __init__(self, news: ListChanges, tenant_id: str | None, changed: set[str]) -> None:
        self._news = news
        self._tenant = tenant_id
        self._changed = changed
        self._ring: Notify = noop
        self._timer: asyncio.TimerHandle | None = None
        self._told_at = float("-inf")
        self._owes_opening = True
        self.is_over = False

    def attach(self, ring: Notify) -> None:
        self._ring = ring

    def close(self) -> None:
        self.is_over = True
        self._ring = noop
        if self._timer is not None:
            self._timer.cancel()

    def hear(self, name: str, tenant_id: str | None) -> None:
        """`tenant_id`: whose list it is; None where that is not known."""
        if self._tenant is not None and tenant_id not in (None, self._tenant):
            return
        self._changed.add(name)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(max(loop.time(), self._told_at + TELL_INTERVAL_SEC), self._due)

    def take(self) -> ListChange | None:
        """None: nothing, or too early."""
        if not self._owes_opening and (not self._changed or self._timer is not None):
            return None
        self._owes_opening = False
        self._told_at = asyncio.get_running_loop().time()
        changed, self._changed = sorted(self._changed), set()
        return ListChange(changed, self._news.place)

    def _due(self) -> None:
        self._timer = None
        self._ring()
