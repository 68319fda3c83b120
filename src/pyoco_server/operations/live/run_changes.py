"""The list of runs as it changes, for subscribers: sent in batches, resumable, with bounded memory.

A reader's place is a place in the log. A reader that comes back is told the runs that have changed or were
erased since; where those are too many, or the place is not in the log any more, to read the list again. For
a slow reader only the latest state of each run is kept, and beyond a bound the reader is let go: it comes
back with its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pyoco_server import clock
from pyoco_server.lifecycle.events import Event
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.live.notify import Notify, noop
from pyoco_server.read_model.run_tally import Minute
from pyoco_server.read_model.runs import ReadModel

# Nobody reads a list faster than this.
TELL_INTERVAL_SEC = 0.1
BATCH_RUNS_MAX = 200
WAITING_RUNS_MAX = 5_000
# Of how many a reader that comes back is told one by one; reading the list anew is cheaper than more.
RESUME_RUNS_MAX = 500


class At(NamedTuple):
    """A place in the log, and when the broker stored the commit that stands there."""

    seq: int = 0
    stored_at: str = ""


class ChangeBatch(NamedTuple):
    """`anew`: what the reader has is of no use, it should read the list again. `place`: reached with this.

    `gone`: ids of runs that were erased while the reader was away.
    """

    runs: list[Run]
    gone: list[str]
    counts: Mapping[str, int]
    minute: Minute
    place: At
    anew: bool
    standing: dict[str, Any] | None


class RunChanges:
    """Whoever follows the list of this gateway. `standing`: whether the gateway can be relied on."""

    def __init__(self, read_model: ReadModel, standing: Callable[[], dict[str, Any]]) -> None:
        self._read_model = read_model
        self._standing = standing
        self._readers: set[RunChangesReader] = set()
        read_model.notifications.on_new_commit(self._on_news)
        read_model.notifications.on_rebuilt(self._on_rebuilt)

    async def holds(self, place: At) -> bool:
        """Whether a reader can go on from there."""
        return await self._read_model.holds(place.seq, place.stored_at)

    def subscribe(self, tenant: str | None, place: At | None, *, anew: bool = False) -> RunChangesReader:
        """`anew`: its place is of no use."""
        reader = RunChangesReader(self._read_model, self._standing, tenant, place)
        if anew:
            reader.begin_again()
        self._readers.add(reader)
        return reader

    def unsubscribe(self, reader: RunChangesReader) -> None:
        self._readers.discard(reader)
        reader.close()

    def stands_otherwise(self) -> None:
        """The broker was lost, or is back."""
        for reader in tuple(self._readers):
            reader.wake()

    def __len__(self) -> int:
        return len(self._readers)

    def _on_rebuilt(self) -> None:
        """The broker has lost what readers were told."""
        for reader in tuple(self._readers):
            reader.begin_again()

    def _on_news(self, before: Run | None, after: Run, events: Sequence[Event]) -> None:
        for reader in tuple(self._readers):
            reader.hear(after)


class RunChangesReader:
    def __init__(
        self,
        read_model: ReadModel,
        standing: Callable[[], dict[str, Any]],
        tenant: str | None,
        place: At | None,
    ) -> None:
        self._read_model = read_model
        self._standing = standing
        self._tenant = tenant
        self._waiting: dict[str, Run] = {}
        self._gone: list[str] = []
        self._place = self._reached() if place is None else place
        self._ring: Notify = noop
        self._timer: asyncio.TimerHandle | None = None
        self._told_at = float("-inf")
        self._stood: dict[str, Any] | None = None
        self._anew = False
        self._owes_opening = True
        self.is_over = False
        if place is not None:
            self._catch_up(place.seq)

    def attach(self, ring: Notify) -> None:
        self._ring = ring

    def close(self) -> None:
        self.is_over = True
        self._ring = noop
        if self._timer is not None:
            self._timer.cancel()

    def hear(self, run: Run) -> None:
        if self.is_over or (self._tenant is not None and run.tenant_id != self._tenant):
            return
        self._waiting.pop(run.run_id, None)  # the latest change comes last
        self._waiting[run.run_id] = run
        if len(self._waiting) > WAITING_RUNS_MAX:
            self.is_over = True
        self.wake()

    def begin_again(self) -> None:
        """What was told is not so: the reader has to read the list again."""
        self._waiting.clear()
        self._gone.clear()
        self._anew = True
        self.wake()

    def wake(self) -> None:
        """Rings when it is time: at once, or when the last batch is long enough ago."""
        wait_sec = self._told_at + TELL_INTERVAL_SEC - asyncio.get_running_loop().time()
        if wait_sec <= 0 or self.is_over:
            self._ring()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(wait_sec, self._due)

    def take(self) -> ChangeBatch | None:
        """What to tell now; None when there is nothing, or it is too early."""
        now = asyncio.get_running_loop().time()
        standing = self._changed_standing()
        if self._read_model.is_rebuilding and standing is None:
            return None  # sums and places of a list that is half filled are of no use
        is_due = self._waiting and now >= self._told_at + TELL_INTERVAL_SEC
        if not (is_due or self._owes_opening or self._anew or standing is not None):
            return None
        self._told_at = now
        runs = [self._waiting.pop(run_id) for run_id in tuple(self._waiting)[:BATCH_RUNS_MAX]]
        anew, self._anew, self._owes_opening = self._anew, False, False
        if self._waiting:
            self.wake()  # and the place stays: whoever resumes from it is told the rest, and nothing is lost
        else:
            self._place = self._reached()
        gone, self._gone = self._gone, []
        counts, minute = self._read_model.tally.of(self._tenant), self._minute()
        return ChangeBatch(runs, gone, counts, minute, self._place, anew, standing)

    def _reached(self) -> At:
        stream_position = self._read_model.feed.stream_position
        return At(stream_position.position, stream_position.stored_at)

    def _catch_up(self, place: int) -> None:
        missed = self._read_model.runs.changed_after(place, self._tenant, RESUME_RUNS_MAX + 1)
        gone = self._read_model.runs.gone_after(place, RESUME_RUNS_MAX + 1)
        # Whose it was is not known of a run of which only the mark of its erasure was read.
        is_unclear = self._tenant is not None and not all(one.has_owner for one in gone)
        is_too_much = len(missed) + len(gone) > RESUME_RUNS_MAX
        if place > self._read_model.feed.position or is_too_much or is_unclear:
            self._anew = True
            return
        self._waiting = {run.run_id: run for run in missed}
        theirs = (one for one in gone if self._tenant in (None, one.tenant))
        self._gone = [one.run_id for one in theirs if one.run_id not in self._waiting]

    def _changed_standing(self) -> dict[str, Any] | None:
        stands = self._standing()
        if stands == self._stood:
            return None
        self._stood = stands
        return stands

    def _minute(self) -> Minute:
        return self._read_model.tally.minute(self._tenant, clock.now())

    def _due(self) -> None:
        self._timer = None
        # Timers may be a moment early, and nobody would ring again: it is time because it rang.
        self._told_at = float("-inf")
        self._ring()
