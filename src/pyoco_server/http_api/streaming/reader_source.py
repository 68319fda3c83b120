"""A reader of news as a source of events: what it takes is put into words; it is let go with its stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from pyoco_server.http_api.streaming.sse import Notify

News_co = TypeVar("News_co", covariant=True)
News = TypeVar("News")


class ChangeReader(Protocol[News_co]):
    @property
    def is_over(self) -> bool: ...

    def attach(self, ring: Notify) -> None: ...

    def take(self) -> News_co | None: ...


class ReaderSource(Generic[News]):
    def __init__(
        self, reader: ChangeReader[News], say: Callable[[News], bytes], leave: Callable[[], None]
    ) -> None:
        self._reader = reader
        self._say = say
        self._leave = leave

    def attach(self, ring: Notify) -> None:
        self._reader.attach(ring)

    def detach(self) -> None:
        self._leave()

    @property
    def is_over(self) -> bool:
        return self._reader.is_over

    def take(self) -> bytes | None:
        news = self._reader.take()
        return None if news is None else self._say(news)
