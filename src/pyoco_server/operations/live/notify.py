"""How subscribers learn of changes: by a call without arguments, after which they read what has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from pyoco_server.clock import elapsed

Notify = Callable[[], None]


def noop() -> None:
    """For places without a subscriber."""


class Throttle:
    """Coalesces notifications: `wake` notifies at once, or when the interval since `mark` has passed."""

    def __init__(self, interval_sec: float, notify: Notify = noop) -> None:
        self._interval_sec = interval_sec
        self._timer: asyncio.TimerHandle | None = None
        self._marked_at = float("-inf")
        self.notify = notify

    @property
    def is_open(self) -> bool:
        return elapsed() >= self._marked_at + self._interval_sec

    def wake(self, *, at_once: bool = False) -> None:
        if at_once or self.is_open:
            self.notify()
        elif self._timer is None:
            due_in_sec = self._marked_at + self._interval_sec - elapsed()
            self._timer = asyncio.get_running_loop().call_later(max(0.0, due_in_sec), self._fire)

    def mark(self) -> None:
        """The subscriber has the latest changes: the interval starts again."""
        self._cancel()
        self._marked_at = elapsed()

    def close(self) -> None:
        self.notify = noop
        self._cancel()

    def _fire(self) -> None:
        self._timer = None
        self._marked_at = float("-inf")  # timers may be a moment early, and nothing notifies again
        self.notify()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Closable(Protocol):
    def close(self) -> None: ...


R = TypeVar("R", bound=Closable)


class Changes(Generic[R]):
    """The readers of one kind of changes. A reader may leave while the others are notified."""

    def __init__(self) -> None:
        self._readers: set[R] = set()

    def unsubscribe(self, reader: R) -> None:
        self._readers.discard(reader)
        reader.close()

    def __len__(self) -> int:
        return len(self._readers)

    def _add(self, reader: R) -> R:
        self._readers.add(reader)
        return reader

    def _each(self) -> tuple[R, ...]:
        return tuple(self._readers)
