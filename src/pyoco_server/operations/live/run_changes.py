"""The list of runs as it changes, for subscribers: sent in batches, resumable, with bounded memory.

A reader's place is a place in the log. A reader that resumes is sent the runs that have changed since and the
ids of those that were erased. If there are too many, or the place is no longer in the log, it has to read the
list again. For a slow reader only the latest state of each run is kept. Beyond a limit the reader is ended;
it resumes from its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pyoco_server import clock
from pyoco_server.lifecycle.events import Event
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.live.notify import Changes, Notify, Throttle
from pyoco_server.read_model.run_tally import Minute
from pyoco_server.read_model.runs import ReadModel

# Faster than a person reads a list.
NOTIFY_INTERVAL_SEC = 0.1
BATCH_RUNS_MAX = 200
WAITING_RUNS_MAX = 5_000
# The most changes that a resuming reader is sent one by one. To read the list again is cheaper than more.
RESUME_RUNS_MAX = 500


class At(NamedTuple):
    """A place in the log, and the instant at which the broker stored the commit there."""

    seq: int = 0
    stored_at: str = ""


class ChangeBatch(NamedTuple):
    """`is_reset`: the reader has to read the list again. `place`: where a reader resumes after this batch.

    `gone`: ids of runs that were erased while the reader was away.
    """

    runs: list[Run]
    gone: list[str]
    counts: Mapping[str, int]
    minute: Minute
    place: At
    is_reset: bool
    standing: Mapping[str, object] | None


class RunChanges(Changes["RunChangesReader"]):
    """`standing`: the state of the gateway and its connection to the broker."""

    def __init__(self, read_model: ReadModel, standing: Callable[[], Mapping[str, object]]) -> None:
        super().__init__()
        self._read_model = read_model
        self._standing = standing
        read_model.notifications.on_new_commit(self._on_commit)
        read_model.notifications.on_rebuilt(self._on_rebuilt)

    async def holds(self, place: At) -> bool:
        """Whether a reader can resume from there."""
        return await self._read_model.holds(place.seq, place.stored_at)

    def subscribe(self, tenant: str | None, place: At | None, *, reset: bool = False) -> RunChangesReader:
        """`reset`: the reader had a place that is no longer in the log."""
        reader = self._add(RunChangesReader(self._read_model, self._standing, tenant, place))
        if reset:
            reader.reset()
        return reader

    def on_standing(self) -> None:
        """The connection to the broker was lost or restored."""
        for reader in self._each():
            reader.wake()

    def _on_rebuilt(self) -> None:
        """The broker has lost commits that were sent to readers."""
        for reader in self._each():
            reader.reset()

    def _on_commit(self, before: Run | None, after: Run, events: Sequence[Event]) -> None:
        for reader in self._each():
            reader.add(after)


class RunChangesReader:
    def __init__(
        self,
        read_model: ReadModel,
        standing: Callable[[], Mapping[str, object]],
        tenant: str | None,
        place: At | None,
    ) -> None:
        self._read_model = read_model
        self._standing = standing
        self._tenant = tenant
        self._waiting: dict[str, Run] = {}
        self._gone: list[str] = []
        self._place = self._reached() if place is None else place
        self._throttle = Throttle(NOTIFY_INTERVAL_SEC)
        self._sent_standing: Mapping[str, object] | None = None
        self._is_reset = False
        self._is_first = True
        self.is_over = False
        if place is not None:
            self._catch_up(place.seq)

    def attach(self, notify: Notify) -> None:
        self._throttle.notify = notify

    def close(self) -> None:
        self.is_over = True
        self._throttle.close()

    def add(self, run: Run) -> None:
        if self.is_over or (self._tenant is not None and run.tenant_id != self._tenant):
            return
        self._waiting.pop(run.run_id, None)  # the latest change comes last
        self._waiting[run.run_id] = run
        if len(self._waiting) > WAITING_RUNS_MAX:
            self.is_over = True
        self.wake()

    def reset(self) -> None:
        """What was sent is not valid any more: the reader has to read the list again."""
        self._waiting.clear()
        self._gone.clear()
        self._is_reset = True
        self.wake()

    def wake(self) -> None:
        self._throttle.wake(at_once=self.is_over)

    def take(self) -> ChangeBatch | None:
        """The next batch. None: nothing has changed, or it is too early."""
        standing = self._changed_standing()
        if self._read_model.is_rebuilding and standing is None:
            return None  # counts and places of a list that is half filled are wrong
        is_due = self._waiting and self._throttle.is_open
        if not (is_due or self._is_first or self._is_reset or standing is not None):
            return None
        self._throttle.mark()
        runs = [self._waiting.pop(run_id) for run_id in tuple(self._waiting)[:BATCH_RUNS_MAX]]
        is_reset, self._is_reset, self._is_first = self._is_reset, False, False
        if self._waiting:
            self.wake()  # the place stays: a reader that resumes from it is sent the rest too
        else:
            self._place = self._reached()
        gone, self._gone = self._gone, []
        tally = self._read_model.tally
        counts, minute = tally.of(self._tenant), tally.minute(self._tenant, clock.now())
        return ChangeBatch(runs, gone, counts, minute, self._place, is_reset, standing)

    def _reached(self) -> At:
        stream_position = self._read_model.feed.stream_position
        return At(stream_position.position, stream_position.stored_at)

    def _catch_up(self, place: int) -> None:
        missed = self._read_model.runs.changed_after(place, self._tenant, RESUME_RUNS_MAX + 1)
        gone = self._read_model.runs.erased_after(place, RESUME_RUNS_MAX + 1)
        # The tenant of an erased run is unknown if only the mark of its erasure was read.
        is_unclear = self._tenant is not None and not all(one.has_owner for one in gone)
        is_too_much = len(missed) + len(gone) > RESUME_RUNS_MAX
        if place > self._read_model.feed.position or is_too_much or is_unclear:
            self._is_reset = True
            return
        self._waiting = {run.run_id: run for run in missed}
        theirs = (one for one in gone if self._tenant in (None, one.tenant))
        self._gone = [one.run_id for one in theirs if one.run_id not in self._waiting]

    def _changed_standing(self) -> Mapping[str, object] | None:
        standing = self._standing()
        if standing == self._sent_standing:
            return None
        self._sent_standing = standing
        return standing
