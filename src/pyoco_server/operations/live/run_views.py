"""One run as it changes, for all its subscribers: read once, then folded from the feed.

However many watch a run, it is read from the broker once, kept once, and what is shown of it is made once.
After a reconnect it is read again: the broker may have lost commits that were shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar, cast

from msgspec.structs import replace

from pyoco_server.lifecycle.events import Event
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.operations.live.notify import Notify
from pyoco_server.operations.runs.query import get_run, visible
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store
from pyoco_server.supervision import Backoff, Loop

# A run of many short tasks changes hundreds of times a second; nobody looks that fast.
TELL_INTERVAL_SEC = 0.05
READ_AGAIN = Backoff(first_sec=0.5, longest_sec=0.5)
# After a reconnect, of the runs that are watched.
READ_AT_ONCE_MAX = 16

T = TypeVar("T")


class RunView:
    """`stored` is the run with all its tasks, as far as the log has been heard; its end is told at once."""

    def __init__(self, store: Store, read_model: ReadModel, run_id: str) -> None:
        self._store = store
        self._read_model = read_model
        self._run_id = run_id
        self._stored: StoredRun | None = None
        self._early: list[tuple[int, int, Sequence[Event]]] = []
        self._shown: dict[Hashable, object] = {}
        self._subscribers: set[Notify] = set()
        self._reader: Loop | None = None  # made for the few views that have to be read again
        self._is_closed = False
        self._is_read = asyncio.Event()
        self._is_read.set()
        self._timer: asyncio.TimerHandle | None = None
        self._told_at = 0.0
        self.entered = 0
        # How often the broker turned out to have lost what was shown.
        self.losses = 0
        # The broker has lost all of it: there is no such run.
        self.is_lost = False

    @property
    def stored(self) -> StoredRun:
        assert self._stored is not None, "nobody has a view that was not opened"
        return self._stored

    async def open(self) -> None:
        """Hear of what comes, then read what is there: nothing falls between. NotFound if there is no run."""
        self._read_model.notifications.follow(self._run_id, self._on_commit)
        # Not from a copy that lags: what the feed has told already must be in it, for it is not told again.
        self._stored = await get_run(self._store, self._run_id, whole=True)
        self._take_early()

    def close(self) -> None:
        self._is_closed = True
        self._read_model.notifications.unfollow(self._run_id, self._on_commit)
        if self._timer is not None:
            self._timer.cancel()
        if self._reader is not None:
            self._reader.stop_at_once()
        self._is_read.set()

    async def read_again(self) -> None:
        """The broker was away. What it tells meanwhile waits until the run is read."""
        if self._stored is not None and self._is_read.is_set() and not self._is_closed:
            self._start_reading()
        await self._is_read.wait()

    def attach(self, ring: Notify) -> None:
        """Call this whenever there is something new to see."""
        self._subscribers.add(ring)

    def detach(self, ring: Notify) -> None:
        self._subscribers.discard(ring)

    def shown(self, form: Hashable, make: Callable[[StoredRun], T]) -> T:
        """What this form of the present state looks like; made for the first who asks."""
        if form not in self._shown:
            self._shown[form] = make(self.stored)
        return cast("T", self._shown[form])

    def _on_commit(self, seq: int, number: int, events: Sequence[Event]) -> None:
        if self._stored is None or not self._is_read.is_set():
            self._early.append((seq, number, events))
        else:
            self._take(self._stored, seq, number, events)

    def _take_early(self) -> None:
        early, self._early = self._early, []
        for commit in early:
            self._on_commit(*commit)

    def _take(self, stored: StoredRun, seq: int, number: int, events: Sequence[Event]) -> None:
        if seq <= stored.log_seq:
            return
        if number and number != stored.commits + 1:
            # Erased and begun anew, or told out of order: what we have is no ground to fold on.
            self._early.append((seq, number, events))
            self._start_reading()
            return
        run = fold(stored.run, events)
        assert run is not None
        self._change(replace(stored, run=run, commits=stored.commits + 1, log_seq=seq))

    def _start_reading(self) -> None:
        self._is_read.clear()
        if self._reader is None:
            self._reader = Loop("a watched run", self._read_again, backoff=READ_AGAIN)
        self._reader.start()
        self._reader.wake()

    async def _read_again(self) -> None:
        read = await self._store.runs.load(self._run_id, at_leader=True, whole=True)
        self._is_read.set()
        known = self.stored
        if read is None:
            self._early.clear()  # nothing is left of it, and so nothing to show
            self.is_lost = True
            self._tell()
            return
        if read.log_seq <= known.log_seq and read.run != known.run:
            self.losses += 1
        if read.log_seq != known.log_seq or read.run != known.run:
            self._change(read)
        self._take_early()

    def _change(self, stored: StoredRun) -> None:
        self._stored = stored
        self._shown.clear()
        now = asyncio.get_running_loop().time()
        wait_sec = 0.0 if stored.run.is_terminal else self._told_at + TELL_INTERVAL_SEC - now
        if wait_sec <= 0:
            self._tell()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(wait_sec, self._tell)

    def _tell(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._told_at = asyncio.get_running_loop().time()
        for ring in tuple(self._subscribers):
            ring()


class RunViews:
    """The views that have subscribers."""

    def __init__(self, store: Store, read_model: ReadModel) -> None:
        self._store = store
        self._read_model = read_model
        self._views: dict[str, RunView] = {}
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._loop = Loop("watched runs after a reconnect", self._read_all_again)

    async def start(self) -> None:
        self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()

    def handle_reconnect(self) -> None:
        self._loop.wake()

    async def subscribe(self, run_id: str, *, tenant_id: str | None = None) -> RunView:
        """End it with `unsubscribe`. NotFound for a run that is not there, or not the tenant's."""
        view = self._views.get(run_id)
        if view is None:
            view = self._views[run_id] = RunView(self._store, self._read_model, run_id)
            self._opening[run_id] = asyncio.get_running_loop().create_task(view.open())
        view.entered += 1
        try:
            opening = self._opening.get(run_id)
            if opening is not None:
                # Shielded: the first of several may hang up while the others still wait.
                await asyncio.shield(opening)
                self._opening.pop(run_id, None)
            visible(None if view.is_lost else view.stored, run_id, tenant_id)
        except BaseException:  # also when cancelled: nothing else counts this subscriber out
            self.unsubscribe(run_id, view)
            raise
        return view

    def unsubscribe(self, run_id: str, view: RunView) -> None:
        view.entered -= 1
        if view.entered == 0 and self._views.get(run_id) is view:
            del self._views[run_id]
            opening = self._opening.pop(run_id, None)
            if opening is not None:
                opening.cancel()
            view.close()

    def __len__(self) -> int:
        return len(self._views)

    async def _read_all_again(self) -> None:
        places = asyncio.Semaphore(READ_AT_ONCE_MAX)

        async def one(view: RunView) -> None:
            async with places:
                await view.read_again()

        await asyncio.gather(*map(one, tuple(self._views.values())))
