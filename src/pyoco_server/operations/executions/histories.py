"""The history of runs for those who read it whole: kept, and read on from where it was, bounded in all.

What is made of a history is the caller's (`Grown`); it is made once and grows commit by commit. Whoever
follows a run is told by the feed that there is more, and then the log is read on: so nothing is missed,
nothing comes twice, and a gateway that was cut off goes on where it was. After a reconnect the leader
is asked whether the log still has the commit it stands on; if not, the history is made again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from pyoco_server.errors import NotFound, Unavailable
from pyoco_server.lifecycle.events import Event
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.live.notify import Notify
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.runs.commits import Commit
from pyoco_server.store.store import Store
from pyoco_server.supervision import Backoff, Loop

KEPT_MAX = 512
KEPT_BYTES_MAX = 64 * 2**20
# A long history is taken in slices: others want to be answered too.
SLICE_COMMITS = 100
SLICE_BYTES = 262_144
# A slice of more than this is taken in a thread: one with many values in it can take a third of a second.
ASIDE_BYTES = 32_768
READ_AGAIN = Backoff(first_sec=0.5, longest_sec=0.5)


class Grown(Protocol):
    """`add` may be called in a thread, one at a time, while others read."""

    @property
    def run(self) -> Run | None: ...

    @property
    def size_bytes(self) -> int: ...

    def add(self, commit: Commit) -> None: ...


G = TypeVar("G", bound=Grown)


class RunHistory(Generic[G]):
    """What was made of one run's commits, and how far."""

    def __init__(self, store: Store, run_id: str, make: Callable[[], G]) -> None:
        self._store = store
        self._run_id = run_id
        self._make = make
        self._turn = asyncio.Lock()
        self._telling: Loop | None = None  # while there are followers
        self.grown = make()
        self.log_seq = 0
        self._commit_id = ""
        self.told_seq = 0
        # How often the broker turned out to have lost commits that were in it.
        self.losses = 0
        self.subscribers: set[Notify] = set()

    async def catch_up(self, *, at_leader: bool = False) -> None:
        """Everything that was committed before this call; without the leader, all that a replica knows."""
        async with self._turn:
            await self._catch_up(at_leader)

    async def verify(self) -> None:
        """The broker was away: begin again if it does not have what we stand on."""
        async with self._turn:
            if self.log_seq and not await self._store.runs.has(self._run_id, self.log_seq, self._commit_id):
                self.grown, self.log_seq, self.told_seq = self._make(), 0, 0
                self.losses += 1
            await self._catch_up(at_leader=True)
        for ring in tuple(self.subscribers):
            ring()

    async def _catch_up(self, at_leader: bool) -> None:
        commits = await self._store.runs.history(self._run_id, self.log_seq, at_leader=at_leader)
        for some in _slices(commits):
            if sum(commit.size for commit in some) > ASIDE_BYTES:
                await _to_the_end(asyncio.get_running_loop().run_in_executor(None, self._take, some))
            else:
                self._take(some)
                await asyncio.sleep(0)

    def on_commit(self, seq: int, _number: int, _events: Sequence[Event]) -> None:
        """The feed says that there is more."""
        self.told_seq = max(self.told_seq, seq)
        if not self.subscribers:
            return
        if self._telling is None:
            self._telling = Loop("a history", self._tell, backoff=READ_AGAIN)
            self._telling.start()
        self._telling.wake()

    def close(self) -> None:
        if self._telling is not None:
            self._telling.stop_at_once()
            self._telling = None

    async def _tell(self) -> None:
        """Until nothing is left that we were told of."""
        at_leader = False
        while self.log_seq < self.told_seq and self.subscribers:
            await self.catch_up(at_leader=at_leader)
            at_leader = True  # what the feed has told, a replica may not have yet
            for ring in tuple(self.subscribers):
                ring()

    def _take(self, commits: Sequence[Commit]) -> None:
        for commit in commits:
            if commit.number == 1 and self.log_seq:
                self.grown = self._make()  # erased, and begun anew
            self.grown.add(commit)
            self.log_seq, self._commit_id = commit.log_seq, commit.commit_id


class Histories(Generic[G]):
    def __init__(self, store: Store, read_model: ReadModel, make: Callable[[], G]) -> None:
        self._store = store
        self._read_model = read_model
        self._make = make
        self._kept: OrderedDict[str, RunHistory[G]] = OrderedDict()
        self._loop = Loop("histories after a reconnect", self._verify)

    async def start(self) -> None:
        self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()

    def handle_reconnect(self) -> None:
        """What has no follower is forgotten; the rest is compared with the log."""
        self.forget()
        self._loop.wake()

    async def read(self, run_id: str, *, tenant_id: str | None = None, known_seq: int = 0) -> G:
        """As of now. NotFound for a run that is not there, or not the tenant's.

        `known_seq`: a place of the log that must be in it, for this gateway has written it.
        """
        return (await self._read(run_id, tenant_id, known_seq)).grown

    async def follow(
        self, run_id: str, ring: Notify, *, tenant_id: str | None = None, known_seq: int = 0
    ) -> RunHistory[G]:
        """The same, kept up to date until `unfollow`; `ring` is called when it has grown."""
        history = self._history(run_id)
        # First to hear of what comes, then to read what is there: nothing falls between.
        self._enter(run_id, history, ring)
        try:
            return await self._read(run_id, tenant_id, known_seq)
        except BaseException:  # also when cancelled: nothing else removes this subscriber
            self.unfollow(run_id, history, ring)
            raise

    def unfollow(self, run_id: str, history: RunHistory[G], ring: Notify) -> None:
        history.subscribers.discard(ring)
        if not history.subscribers:
            self._read_model.notifications.unfollow(run_id, history.on_commit)
            history.close()

    def forget(self) -> None:
        """The broker was away, and may have come back with another log."""
        for run_id in [run_id for run_id, history in self._kept.items() if not history.subscribers]:
            del self._kept[run_id]

    def __len__(self) -> int:
        return len(self._kept)

    async def _verify(self) -> None:
        for history in tuple(self._kept.values()):
            await history.verify()

    def _enter(self, run_id: str, history: RunHistory[G], ring: Notify) -> None:
        if not history.subscribers:
            self._read_model.notifications.follow(run_id, history.on_commit)
        history.subscribers.add(ring)

    async def _read(self, run_id: str, tenant_id: str | None, known_seq: int) -> RunHistory[G]:
        history = self._history(run_id)
        await history.catch_up(at_leader=self._store.has_copies)
        if history.log_seq < max(known_seq, 1):
            await history.catch_up(at_leader=True)
        run = history.grown.run
        if run is None and not await self._store.runs.is_latest(run_id, None):
            raise Unavailable(f"The log of run {run_id} cannot be read now. Try again.")
        if run is None or run.gone or (tenant_id is not None and run.tenant_id != tenant_id):
            if run is None or run.gone:
                self._kept.pop(run_id, None)
            raise NotFound(f"There is no run {run_id}. Check the id, or list runs with GET /runs.")
        self._make_room(run_id)
        return history

    def _history(self, run_id: str) -> RunHistory[G]:
        history = self._kept.get(run_id)
        if history is None:
            history = self._kept[run_id] = RunHistory(self._store, run_id, self._make)
        self._kept.move_to_end(run_id)
        return history

    def _make_room(self, newest: str) -> None:
        """The longest unread go first; those that are followed stay, and so does the one just asked for."""
        size = sum(history.grown.size_bytes for history in self._kept.values())
        for run_id in list(self._kept):
            if len(self._kept) <= KEPT_MAX and size <= KEPT_BYTES_MAX:
                return
            history = self._kept[run_id]
            if run_id != newest and not history.subscribers:
                size -= history.grown.size_bytes
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


async def _to_the_end(work: asyncio.Future[None]) -> None:
    """Also when we are cancelled: while a thread adds to a history, no other task may."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    work.result()
