"""The recording of one claim: reports become commits, notices and uploads, until the run is concluded.

`batcher` commits, `uploads` stores large results, `log` stores what the run prints. A notice is a system line
in that log, for an event of a task or of the run.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from pyoco_server.engine import WaitAnswer
from pyoco_server.lifecycle.commands import (
    CompleteRun,
    ConfirmCancelled,
    FailRun,
    ParkRun,
    PutTaskWaiting,
    ReportLoss,
    SucceedTask,
)
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.lifecycle.events import Event, TaskFailed, TaskSucceeded
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import LossCause, OutputKept, TaskStatus
from pyoco_server.operations.logs.notice_lines import FORMAT
from pyoco_server.store.logs.writer import LogLine
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store
from pyoco_server.worker.recording.batcher import CommitBatcher
from pyoco_server.worker.recording.facts import Fact, fact_of
from pyoco_server.worker.recording.listener import Acknowledge, TaskCommand, Urgency
from pyoco_server.worker.recording.run_log import RunLog
from pyoco_server.worker.recording.snapshot_writer import SnapshotWriter
from pyoco_server.worker.recording.uploads import Uploads
from pyoco_server.worker.recording.values import StoredResult

Answered = tuple[str, WaitAnswer]

# Refused for these reasons, a run has not ended. For other reasons it may have, by this very commit.
_NOT_ENDED = (Reason.CANCEL_REQUESTED, Reason.FENCED)


class Recorder:
    """Reports and printed lines come from any thread, everything else from the loop's."""

    def __init__(self, store: Store, stored: StoredRun, on_refused: Callable[[Reason], None]) -> None:
        run_id, self._fence = stored.run.run_id, stored.run.fence
        self._config = store.config
        self._on_refused = on_refused
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.snapshot = SnapshotWriter(store, stored)
        self.log = RunLog(store, run_id, self._fence)
        self.waits = OpenWaits(stored.run)
        self._batcher = batcher = CommitBatcher(store, stored, self.snapshot.follow, self._stop_after)
        self.uploads = Uploads(store, run_id, self._fence, lambda: batcher.refuse(Reason.FENCED))
        self.is_cancelled = False  # a cancel was requested: no further result is recorded
        # The exception that it failed with, as fields of a log line.
        self.cause: dict[str, object] | None = None

    @property
    def stored(self) -> StoredRun:
        return self._batcher.stored

    @property
    def refused(self) -> Reason | None:
        return self._batcher.refused

    @property
    def broken(self) -> str | None:
        return self._batcher.broken

    def loss(self, cause: LossCause, detail: str) -> ReportLoss:
        """The claim ends although the run does not."""
        return ReportLoss(
            fence=self._fence,
            cause=cause,
            losses_max=self._config.consumer_max_deliver,
            crashes_max=self._config.max_crashes,
            detail=detail,
        )

    # From any thread

    def report(
        self,
        command: TaskCommand,
        values: bytes | None = None,
        acknowledged: Acknowledge | None = None,
        urgency: Urgency = Urgency.WITH_NEXT,
    ) -> None:
        """The urgency matters only for reports that are sent to another process."""
        if threading.get_ident() == self._thread:
            self._receive(command, values, acknowledged)
        else:
            self._loop.call_soon_threadsafe(self._receive, command, values, acknowledged)

    def add_lines(
        self,
        at: float,
        stream: str,
        task: str | None,
        attempt: int | None,
        lines: list[str],
        level: str | None,
    ) -> None:
        """Whole lines that the run has printed."""
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self.add_lines, at, stream, task, attempt, lines, level)
            return
        for text in lines:
            self.log.add(LogLine(at, stream, text, task, attempt, level))

    # From the loop

    def begin(self) -> None:
        assert self.stored.run.claim is not None
        self.log.note(self.stored.run.claim)

    async def conclude(self, ending: CompleteRun | FailRun | ParkRun | ReportLoss) -> Reason | None:
        """Commit what still waits together with the end. Returns the reason if it was refused."""
        await self.uploads.wait_until_finished()
        if self.refused is not None:  # refused meanwhile, so that some results were not stored
            return self.refused
        if isinstance(ending, CompleteRun | FailRun) and self.log.hold_end():
            return await self._conclude_unwritten(ending)
        self.log.note(ending)
        await self.log.flush()  # a reader that sees the end finds the log complete
        refused = await self._batcher.commit_with(ending)
        return await self._hand_back() if refused is Reason.NOT_WAITING else refused

    async def _conclude_unwritten(self, ending: CompleteRun | FailRun) -> Reason | None:
        """Nothing of the log is written, and the end says so: readers make its lines from the events."""
        refused = await self._batcher.commit_with(replace(ending, notices=FORMAT))
        if refused is None:
            assert self.stored.run.ended_at is not None
            self.log.end_unwritten(ending, self.stored.run.ended_at)
        elif refused in _NOT_ENDED and self.broken is None:
            self.log.end_refused()
        return refused

    async def _hand_back(self) -> Reason | None:
        """A wait was answered before the run was parked: record the rest; the next claim finds the answer."""
        self._batcher.take_back_ending()
        return await self.conclude(
            self.loss(LossCause.HANDED_BACK, "a wait was answered before it was parked")
        )

    async def conclude_alone(self, ending: FailRun | ConfirmCancelled) -> Reason | None:
        """Commit the end without what waits: after a cancel there is no more progress to record."""
        await self._batcher.flush()
        self.uploads.stop(remove=self.broken is None)
        self.log.note(ending)
        await self.log.flush()
        return await self._batcher.commit_alone(ending)

    async def close(self) -> None:
        """The attempt is over. What the run has printed is still stored, if the broker answers soon."""
        self.snapshot.stop()
        await self.log.close()
        self._batcher.close()

    def _receive(self, command: TaskCommand, values: bytes | None, acknowledged: Acknowledge | None) -> None:
        if isinstance(command, SucceedTask):
            if command.kept is OutputKept.REFERENCED:
                self._upload(command, values, acknowledged)
                return
        elif isinstance(command, PutTaskWaiting):
            self.waits.add(command.task)
        self._add(command, fact_of(command, values, acknowledged))

    def _upload(self, command: SucceedTask, values: bytes | None, acknowledged: Acknowledge | None) -> None:
        """A large result is stored before the log refers to it."""

        def add(put: StoredResult) -> None:
            stored = replace(command, kept=put.kept, types=put.types)
            self._add(stored, fact_of(stored, put.json, acknowledged))

        result = StoredResult(values, command.kept, command.types)
        self.uploads.begin(command.task, command.attempt, result, add)

    def _add(self, command: TaskCommand, fact: Fact) -> None:
        if self.is_cancelled and isinstance(command, SucceedTask):
            refused = "returned after the cancel request; its result is not recorded"
            self.log.warn(f"task {command.task} {refused}")
        else:
            self.log.note(command, fact.size)
        self._batcher.add(fact)

    def _stop_after(self, reason: Reason) -> None:
        if reason is not Reason.NOT_WAITING:  # after that reason the rest is still recorded
            self.uploads.stop(remove=self.broken is None)
        self._on_refused(reason)


class OpenWaits:
    """The waits of a run in flight: which are open, and how they have ended according to the log.

    Commits of other processes that end a wait are pushed to the worker. Those that it missed while it was cut
    off are found in the run itself. Used in the loop's thread only. A name is added before its wait is
    committed.
    """

    def __init__(self, run: Run) -> None:
        # Those of earlier claims too: they may be answered before the engine has reached them again.
        self._open = {name for name, record in run.tasks.items() if record.state is TaskStatus.WAITING}

    def __bool__(self) -> bool:
        return bool(self._open)

    def add(self, name: str) -> None:
        self._open.add(name)

    def answered_by(self, events: Iterable[Event]) -> list[Answered]:
        """The waits that these events have ended; each is returned once."""
        found: list[Answered] = []
        for event in events:
            if isinstance(event, TaskSucceeded) and self._closes(event.task):
                found.append((event.task, WaitAnswer(event.output)))
            elif isinstance(event, TaskFailed) and self._closes(event.task):
                found.append((event.task, WaitAnswer(error=event.error)))
        return found

    def answered_in(self, run: Run) -> list[Answered]:
        """The same, from a run that was read whole."""
        found: list[Answered] = []
        for name in sorted(self._open & run.tasks.keys()):
            record = run.tasks[name]
            if record.state is TaskStatus.SUCCEEDED and self._closes(name):
                found.append((name, WaitAnswer(record.output)))
            elif record.state is TaskStatus.FAILED and self._closes(name):
                found.append((name, WaitAnswer(error=record.error or "")))
        return found

    def _closes(self, name: str) -> bool:
        is_open = name in self._open
        self._open.discard(name)
        return is_open
