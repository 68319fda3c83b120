"""One view for all subscribers of a run: the first one opens it, the last one closes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from typing import Generic, TypeVar

from pyoco_server.operations.live.notify import Notify


class SharedView:
    """What all subscribers share. Opened from memory, or by `open`, before the first of them sees it."""

    def __init__(self) -> None:
        self._subscribers: set[Notify] = set()
        self.users = 0

    def open_from_memory(self) -> bool:
        """Whether the view is open now, without a request to the broker."""
        return False

    async def open(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def attach(self, notify: Notify) -> None:
        """Call this whenever the view has changed."""
        self._subscribers.add(notify)

    def detach(self, notify: Notify) -> None:
        self._subscribers.discard(notify)

    def _notify(self) -> None:
        for notify in tuple(self._subscribers):
            notify()


V = TypeVar("V", bound=SharedView)


class SharedViews(Generic[V]):
    def __init__(self) -> None:
        self._views: dict[str, V] = {}
        self._opening: dict[str, asyncio.Task[None]] = {}

    async def _acquire(self, run_id: str, make: Callable[[], V]) -> V:
        view = self._views.get(run_id)
        if view is None:
            view = self._views[run_id] = make()
            if not view.open_from_memory():
                self._opening[run_id] = asyncio.get_running_loop().create_task(view.open())
        view.users += 1
        with ExitStack() as on_error:
            on_error.callback(self._release, run_id, view)
            if (opening := self._opening.get(run_id)) is not None:
                # Shielded: the first of several subscribers may leave while the others still wait.
                await asyncio.shield(opening)
                self._opening.pop(run_id, None)
            on_error.pop_all()
        return view

    def _release(self, run_id: str, view: V) -> None:
        view.users -= 1
        if view.users == 0 and self._views.get(run_id) is view:
            del self._views[run_id]
            if (opening := self._opening.pop(run_id, None)) is not None:
                opening.cancel()
            view.close()

    def __len__(self) -> int:
        return len(self._views)
