"""Which lists have changed, for subscribers. They read a list again; its contents are not sent.

A reader's place is the number of changes of each list. A reader that resumes gets the lists that have
changed since. If that is unknown (another gateway, or this one after a restart), all lists count as changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pyoco_server.ids import new_uuid
from pyoco_server.lifecycle.events import Event
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.live.notify import Changes, Notify, Throttle
from pyoco_server.read_model.rechecks import RecheckModel
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.list_changes import StreamChanges
from pyoco_server.store.store import Store

LISTS = ("approvals", "dead_letters", "schedules", "strategies", "wheels")
# Bounds how often a subscriber reads lists that change all the time.
NOTIFY_INTERVAL_SEC = 0.25


class ListChange(NamedTuple):
    """`place`: where a reader resumes after these."""

    names: list[str]
    place: str


class ListChanges(Changes["ListChangesReader"]):
    def __init__(self, store: Store, read_model: ReadModel, rechecks: RecheckModel) -> None:
        super().__init__()
        self.stream_changes = StreamChanges(store.client, store.jetstream, store.config, self._on_change)
        self._epoch = new_uuid()
        self._numbers = dict.fromkeys(LISTS, 0)
        read_model.notifications.on_new_commit(self._on_commit)
        read_model.notifications.on_rebuilt(lambda: self._on_change("approvals"))
        rechecks.on_change(lambda: self._on_change("strategies"))

    def subscribe(self, tenant_id: str | None, place: str | None) -> ListChangesReader:
        return self._add(ListChangesReader(self, tenant_id, self._changed_since(place)))

    @property
    def place(self) -> str:
        return ".".join([self._epoch, *(str(self._numbers[name]) for name in LISTS)])

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
        for reader in self._each():
            reader.add(name, tenant_id)


class ListChangesReader:
    def __init__(self, changes: ListChanges, tenant_id: str | None, changed: set[str]) -> None:
        self._changes = changes
        self._tenant = tenant_id
        self._changed = changed
        self._throttle = Throttle(NOTIFY_INTERVAL_SEC)
        self._is_first = True
        self.is_over = False

    def attach(self, notify: Notify) -> None:
        self._throttle.notify = notify

    def close(self) -> None:
        self.is_over = True
        self._throttle.close()

    def add(self, name: str, tenant_id: str | None) -> None:
        """`tenant_id`: the tenant whose list has changed; None if that is unknown."""
        if self._tenant is None or tenant_id in (None, self._tenant):
            self._changed.add(name)
            self._throttle.wake()

    def take(self) -> ListChange | None:
        """The first time always a value. None: nothing has changed, or it is too early."""
        if not self._is_first and not (self._changed and self._throttle.is_open):
            return None
        self._is_first = False
        self._throttle.mark()
        changed, self._changed = sorted(self._changed), set()
        return ListChange(changed, self._changes.place)
