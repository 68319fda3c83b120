"""A reader of changes as a source of events. It is closed together with its stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from pyoco_server.http_api.streaming.sse import EventBatch, Notify

Change_co = TypeVar("Change_co", covariant=True)
Change = TypeVar("Change")


class ChangeReader(Protocol[Change_co]):
    @property
    def is_over(self) -> bool: ...

    def attach(self, notify: Notify) -> None: ...

    def take(self) -> Change_co | None: ...


class ReaderSource(Generic[Change]):
    def __init__(
        self, reader: ChangeReader[Change], render: Callable[[Change], EventBatch], leave: Callable[[], None]
    ) -> None:
        self._reader = reader
        self._render = render
        self._leave = leave

    def attach(self, notify: Notify) -> None:
        self._reader.attach(notify)

    def detach(self) -> None:
        self._leave()

    @property
    def is_over(self) -> bool:
        return self._reader.is_over

    def take(self) -> EventBatch | None:
        change = self._reader.take()
        return None if change is None else self._render(change)
