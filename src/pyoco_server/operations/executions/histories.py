"""Histories of runs, cached: each is read once and continued from where it was, within a limit in total.

A history is a projection of all commits of a run (`Projection`, made by the caller), extended commit by
commit. The feed announces a new commit of a followed run, and then the log is read from the last position: no
commit is missed or doubled, also after the gateway was disconnected. After a reconnect the leader is asked
whether the log still has the last commit that was read. If not, the projection is made again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Generic, Protocol, TypeVar

from pyoco_server.errors import NotFound, Unavailable
from pyoco_server.lifecycle.events import Event
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.live.notify import Notify
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.runs.codec import Commit
from pyoco_server.store.store import Store
from pyoco_server.supervision import Backoff, Loop

KEPT_MAX = 512
KEPT_BYTES_MAX = 64 * 2**20
# A long history is added in slices, so that other requests are answered meanwhile.
SLICE_COMMITS = 100
SLICE_BYTES = 262_144
# A larger slice is added in a thread: one with many values can take a third of a second.
ASIDE_BYTES = 32_768
READ_AGAIN = Backoff(first_sec=0.5, longest_sec=0.5)


class Projection(Protocol):
    """`add` may be called in a thread, one call at a time, while other tasks read."""

    @property
    def run(self) -> Run | None: ...

    @property
    def size_bytes(self) -> int: ...

    def add(self, commit: Commit) -> None: ...


P = TypeVar("P", bound=Projection)


class RunHistory(Generic[P]):
    """The projection of one run's commits, and the position in the log that it has reached."""

    def __init__(self, store: Store, run_id: str, make: Callable[[], P]) -> None:
        self._store = store
        self._run_id = run_id
        self._make = make
        self._lock = asyncio.Lock()
        self._reading: Loop | None = None  # while there are subscribers
        self.projection = make()
        self.log_seq = 0
        self._commit_id = ""
        self.announced_seq = 0
        # How often the broker has lost commits that were read.
        self.losses = 0
        self.subscribers: set[Notify] = set()

    async def catch_up(self, *, at_leader: bool = False) -> None:
        """Read all commits made before this call; without `at_leader` those that a replica has."""
        async with self._lock:
            await self._catch_up(at_leader)

    async def verify(self) -> None:
        """The broker was away: start again if it does not have the last commit that was read."""
        async with self._lock:
            if self.log_seq and not await self._store.runs.has(self._run_id, self.log_seq, self._commit_id):
                self.projection, self.log_seq, self.announced_seq = self._make(), 0, 0
                self.losses += 1
            await self._catch_up(at_leader=True)
        self._notify()

    async def _catch_up(self, at_leader: bool) -> None:
        commits = await self._store.runs.history(self._run_id, self.log_seq, at_leader=at_leader)
        for some in _slices(commits):
            if sum(commit.size for commit in some) > ASIDE_BYTES:
                await _finish(asyncio.get_running_loop().run_in_executor(None, self._add, some))
            else:
                self._add(some)
                await asyncio.sleep(0)

    def on_commit(self, seq: int, _number: int, _events: Sequence[Event]) -> None:
        """The feed announces a commit."""
        self.announced_seq = max(self.announced_seq, seq)
        if not self.subscribers:
            return
        if self._reading is None:
            self._reading = Loop("a history", self._read_on, backoff=READ_AGAIN)
            self._reading.start()
        self._reading.wake()

    def close(self) -> None:
        if self._reading is not None:
            self._reading.stop_at_once()
            self._reading = None

    async def _read_on(self) -> None:
        """Read until all announced commits are read."""
        at_leader = False
        while self.log_seq < self.announced_seq and self.subscribers:
            await self.catch_up(at_leader=at_leader)
            at_leader = True  # a replica may not have the announced commit yet
            self._notify()

    def _notify(self) -> None:
        for notify in tuple(self.subscribers):
            notify()

    def _add(self, commits: Sequence[Commit]) -> None:
        for commit in commits:
            if commit.number == 1 and self.log_seq:
                self.projection = self._make()  # the run was erased and submitted again
            self.projection.add(commit)
            self.log_seq, self._commit_id = commit.log_seq, commit.commit_id


class Histories(Generic[P]):
    def __init__(self, store: Store, read_model: ReadModel, make: Callable[[], P]) -> None:
        self._store = store
        self._read_model = read_model
        self._make = make
        self._kept: OrderedDict[str, RunHistory[P]] = OrderedDict()
        self._loop = Loop("histories after a reconnect", self._verify)

    async def start(self) -> None:
        self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()

    def handle_reconnect(self) -> None:
        """Histories without a subscriber are dropped; the others are compared with the log."""
        self.forget()
        self._loop.wake()

    async def read(self, run_id: str, *, tenant_id: str | None = None, known_seq: int = 0) -> P:
        """As of now. NotFound if there is no such run for this tenant.

        `known_seq`: a sequence that this gateway has written, which the history must contain.
        """
        return (await self._read(run_id, tenant_id, known_seq)).projection

    async def follow(
        self, run_id: str, notify: Notify, *, tenant_id: str | None = None, known_seq: int = 0
    ) -> RunHistory[P]:
        """The same, kept up to date until `unfollow`. `notify` is called when commits were added."""
        history = self._history(run_id)
        # Subscribe first, then read, so that no commit is missed.
        if not history.subscribers:
            self._read_model.notifications.follow(run_id, history.on_commit)
        history.subscribers.add(notify)
        with ExitStack() as on_error:
            on_error.callback(self.unfollow, run_id, history, notify)
            await self._read(run_id, tenant_id, known_seq)
            on_error.pop_all()
        return history

    def unfollow(self, run_id: str, history: RunHistory[P], notify: Notify) -> None:
        history.subscribers.discard(notify)
        if not history.subscribers:
            self._read_model.notifications.unfollow(run_id, history.on_commit)
            history.close()

    def forget(self) -> None:
        """The broker was away and may have another log now."""
        for run_id in [run_id for run_id, history in self._kept.items() if not history.subscribers]:
            del self._kept[run_id]

    def __len__(self) -> int:
        return len(self._kept)

    async def _verify(self) -> None:
        for history in tuple(self._kept.values()):
            await history.verify()

    async def _read(self, run_id: str, tenant_id: str | None, known_seq: int) -> RunHistory[P]:
        history = self._history(run_id)
        await history.catch_up(at_leader=self._store.has_copies)
        if history.log_seq < max(known_seq, 1):
            await history.catch_up(at_leader=True)
        run = history.projection.run
        if run is None and not await self._store.runs.is_latest(run_id, None):
            raise Unavailable(f"The log of run {run_id} cannot be read now. Try again.")
        if run is None or run.gone or (tenant_id is not None and run.tenant_id != tenant_id):
            if run is None or run.gone:
                self._kept.pop(run_id, None)
            raise NotFound(f"There is no run {run_id}. Check the id, or list runs with GET /runs.")
        self._make_room(run_id)
        return history

    def _history(self, run_id: str) -> RunHistory[P]:
        history = self._kept.get(run_id)
        if history is None:
            history = self._kept[run_id] = RunHistory(self._store, run_id, self._make)
        self._kept.move_to_end(run_id)
        return history

    def _make_room(self, newest: str) -> None:
        """Drop the least recently read, except those with subscribers and the newest."""
        size = sum(history.projection.size_bytes for history in self._kept.values())
        for run_id in list(self._kept):
            if len(self._kept) <= KEPT_MAX and size <= KEPT_BYTES_MAX:
                return
            history = self._kept[run_id]
            if run_id != newest and not history.subscribers:
                size -= history.projection.size_bytes
                del self._kept[run_id]


def _slices(commits: Sequence[Commit]) -> Iterator[list[Commit]]:
    some: list[Commit] = []
    size = 0
    for commit in commits:
        if some and (len(some) >= SLICE_COMMITS or size + commit.size > SLICE_BYTES):
            yield some
            some, size = [], 0
        some.append(commit)
        size += commit.size
    if some:
        yield some


async def _finish(work: asyncio.Future[None]) -> None:
    """Wait also when this task is cancelled: while a thread adds to a history, no other task may."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    work.result()
