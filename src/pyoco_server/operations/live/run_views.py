"""One run as it changes, shared by all its subscribers: read once, then folded from the feed.

Whatever the number of subscribers, the run is read from the broker once, stored once and rendered once. After
a reconnect it is read again: the broker may have lost commits that were shown. A request that waits for the
end of a run that began a short time ago does not read it at all: the feed has delivered all its commits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack, closing
from typing import TypeVar, cast

from msgspec.structs import replace

from pyoco_server.lifecycle.events import Event
from pyoco_server.lifecycle.reduce import fold_unmeasured
from pyoco_server.lifecycle.run import without_sizes
from pyoco_server.operations.live.end_waits import EndWaits
from pyoco_server.operations.live.freshness import FreshnessCheck
from pyoco_server.operations.live.log_end import EventLogEnd
from pyoco_server.operations.live.notify import Throttle
from pyoco_server.operations.live.shared_views import SharedView, SharedViews
from pyoco_server.operations.runs.query import check_visible, get_run, visible
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.runs.stored_run import StoredRun
from pyoco_server.store.store import Store
from pyoco_server.supervision import Backoff, Loop

# A run of many short tasks changes hundreds of times a second, faster than a person reads.
NOTIFY_INTERVAL_SEC = 0.05
READ_AGAIN = Backoff(first_sec=0.5, longest_sec=0.5)
# Watched runs that are read at the same time after a reconnect.
READ_AT_ONCE_MAX = 16

T = TypeVar("T")


class RunView(SharedView):
    """`stored`: the run with all its tasks, as of the last commit received. Its end is notified at once.

    The sizes of its snapshot are not kept: the run is only shown.
    """

    def __init__(self, store: Store, read_model: ReadModel, run_id: str, *, may_be_old: bool = False) -> None:
        """`may_be_old`: the first state may be the one that the feed has delivered."""
        super().__init__()
        self._store = store
        self._read_model = read_model
        self._run_id = run_id
        self._may_be_old = may_be_old
        # The state, or one before it, was read from the broker.
        self.was_read = False
        self._stored: StoredRun | None = None
        self._early: list[tuple[int, int, Sequence[Event]]] = []  # commits that came before the run was read
        self._shown: dict[Hashable, object] = {}
        self._reader: Loop | None = None  # only for a view that has to be read again
        self._is_closed = False
        self._is_read = asyncio.Event()
        self._is_read.set()
        self._throttle = Throttle(NOTIFY_INTERVAL_SEC, self._notify_now)
        # How often the broker has lost commits that were shown.
        self.losses = 0
        # The broker has lost the whole run.
        self.is_lost = False

    @property
    def stored(self) -> StoredRun:
        assert self._stored is not None, "a view is opened before it is used"
        return self._stored

    @property
    def has_ended(self) -> bool:
        return self.stored.run.is_terminal and not self.is_lost

    @property
    def follows_feed(self) -> bool:
        """Whether every commit of the run that the feed has delivered is in the state."""
        return self._is_read.is_set() and not self._early and not self._is_closed

    def open_from_memory(self) -> bool:
        if self._may_be_old and self._read_model.is_current:
            self._stored = self._read_model.recent.find(self._run_id)
        if self._stored is None:
            return False
        self._read_model.notifications.follow(self._run_id, self._on_commit)
        return True

    async def open(self) -> None:
        """Subscribe to commits, then read the run, so that none is missed. NotFound if there is no run."""
        self._read_model.notifications.follow(self._run_id, self._on_commit)
        # Not from a replica that lags: a commit that the feed has sent already is not sent again.
        self._stored = await get_run(self._store, self._run_id, whole=True)
        self.was_read = True
        self._take_early()

    async def read_now(self) -> None:
        """The first state came from the feed; a subscriber needs one that was read. NotFound, Unavailable."""
        read = await get_run(self._store, self._run_id, whole=True)
        self.was_read = True
        if read.log_seq > self.stored.log_seq:  # commits that were received meanwhile may be newer
            self._change(read)

    def close(self) -> None:
        self._is_closed = True
        self._read_model.notifications.unfollow(self._run_id, self._on_commit)
        self._throttle.close()
        if self._reader is not None:
            self._reader.stop_at_once()
        self._is_read.set()

    async def read_again(self) -> None:
        """The broker was away. Commits that arrive meanwhile wait until the run is read."""
        if self._stored is not None and self._is_read.is_set() and not self._is_closed:
            self._start_reading()
        await self._is_read.wait()

    def shown(self, form: Hashable, make: Callable[[StoredRun], T]) -> T:
        """The present state in this form; rendered for the first subscriber that asks."""
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
            # Erased and submitted again, or out of order: the commit cannot be folded on this state.
            self._early.append((seq, number, events))
            self._start_reading()
            return
        run = fold_unmeasured(stored.run, events)
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
        self.was_read = True
        known = self.stored
        if read is None:
            self._early.clear()
            self.is_lost = True
            self._notify_now()
            return
        is_same = without_sizes(read.run) == without_sizes(known.run)
        if read.log_seq <= known.log_seq and not is_same:
            self.losses += 1
        if read.log_seq != known.log_seq or not is_same:
            self._change(read)
        self._take_early()

    def _change(self, stored: StoredRun) -> None:
        self._stored = stored
        self._shown.clear()
        self._throttle.wake(at_once=stored.run.is_terminal)

    def _notify_now(self) -> None:
        self._throttle.mark()
        self._notify()


class RunViews(SharedViews[RunView]):
    """The runs that have subscribers."""

    def __init__(self, store: Store, read_model: ReadModel) -> None:
        super().__init__()
        self._store = store
        self._read_model = read_model
        self._waits = EndWaits(read_model)
        self._log_end = EventLogEnd(store, read_model)
        self._loop = Loop("watched runs after a reconnect", self._read_all_again)

    def __len__(self) -> int:
        """Runs that have subscribers, and requests that wait for an end."""
        return super().__len__() + len(self._waits)

    async def start(self) -> None:
        self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()

    def handle_reconnect(self) -> None:
        self._waits.interrupt()
        self._loop.wake()

    async def subscribe(self, run_id: str, *, tenant_id: str | None = None) -> RunView:
        """End it with `unsubscribe`. NotFound if there is no such run for this tenant."""
        view = await self._acquire(run_id, lambda: RunView(self._store, self._read_model, run_id))
        with ExitStack() as on_error:
            on_error.callback(self.unsubscribe, run_id, view)
            if not view.was_read:  # opened by a request that waits
                await view.read_now()
            visible(None if view.is_lost else view.stored, run_id, tenant_id)
            on_error.pop_all()
        return view

    def unsubscribe(self, run_id: str, view: RunView) -> None:
        self._release(run_id, view)

    async def wait_for_end(self, run_id: str, timeout_sec: float, tenant_id: str | None) -> StoredRun:
        if run_id in self._views or not self._read_model.is_current:
            return await self._wait_with_view(run_id, timeout_sec, tenant_id)
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_sec
        recent = self._read_model.recent
        with closing(self._freshness()) as check:
            going_on = self._read_model.find_going_on(run_id)
            if going_on is not None:
                check_visible(going_on, run_id, tenant_id)
                if not self._waits:
                    check.prepare_soon()
                if not await self._waits.has_ended(run_id, timeout_sec):
                    return await self._wait_with_view(run_id, max(0.0, until - loop.time()), tenant_id)
            if not recent.has_ended(run_id):
                return await self._wait_with_view(run_id, max(0.0, until - loop.time()), tenant_id)
            if await check.passes() and (stored := recent.find(run_id)) is not None:
                return visible(stored, run_id, tenant_id)
        return await get_run(self._store, run_id, tenant_id=tenant_id, whole=True)

    async def _wait_with_view(self, run_id: str, timeout_sec: float, tenant_id: str | None) -> StoredRun:
        """For a run that is watched, or that was not received from its first commit on."""
        check, was_open = self._freshness(), run_id in self._views
        view = await self._acquire(
            run_id, lambda: RunView(self._store, self._read_model, run_id, may_be_old=True)
        )
        try:
            visible(None if view.is_lost else view.stored, run_id, tenant_id)
            if view.was_read and not was_open:  # read after the request began
                await _until_ended(view, timeout_sec)
                return visible(None if view.is_lost else view.stored, run_id, tenant_id)
            with closing(check):
                check.prepare_soon()
                return await self._wait_and_check(view, check, timeout_sec, tenant_id)
        finally:
            self.unsubscribe(run_id, view)

    async def _wait_and_check(
        self, view: RunView, check: FreshnessCheck, timeout_sec: float, tenant_id: str | None
    ) -> StoredRun:
        run_id = view.stored.run.run_id
        await _until_ended(view, timeout_sec)
        # A run that has not ended has a heartbeat, which is not in the log.
        if view.has_ended and await check.passes() and view.has_ended and view.follows_feed:
            return visible(view.stored, run_id, tenant_id)
        return await get_run(self._store, run_id, tenant_id=tenant_id, whole=True)

    def _freshness(self) -> FreshnessCheck:
        """For a request that begins now."""
        sent = self._store.runs.sent_commits
        return FreshnessCheck(self._log_end, self._read_model, sent, sent.mark())

    async def _read_all_again(self) -> None:
        places = asyncio.Semaphore(READ_AT_ONCE_MAX)

        async def one(view: RunView) -> None:
            async with places:
                await view.read_again()

        await asyncio.gather(*map(one, tuple(self._views.values())))


async def wait_for_end(
    views: RunViews, run_id: str, *, timeout_sec: float, tenant_id: str | None = None
) -> StoredRun:
    """The run with all its tasks, as soon as it has ended, or in its state at the timeout.

    Never a state that is older than one from before this call, whatever gateway has shown it or caused it.
    """
    return await views.wait_for_end(run_id, timeout_sec, tenant_id)


async def _until_ended(view: RunView, timeout_sec: float) -> None:
    if view.stored.run.is_terminal or view.is_lost:
        return
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()

    def end() -> None:
        if not over.done():
            over.set_result(None)

    def on_change() -> None:
        if view.stored.run.is_terminal or view.is_lost:
            end()

    timer = loop.call_later(timeout_sec, end)
    view.attach(on_change)
    try:
        await over
    finally:
        timer.cancel()
        view.detach(on_change)
