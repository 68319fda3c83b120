"""From reports to the log: their commands are batched, and what waits joins one commit.

One append is in flight per run. A cancel or a takeover that a commit runs into comes back from here as a
signal to the attempt.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from pyoco_server.engine.tasks.failure import describe
from pyoco_server.errors import Unavailable
from pyoco_server.lifecycle.commands import (
    Command,
    CompleteRun,
    ConfirmCancelled,
    FailRun,
    PutTaskWaiting,
    ReportLoss,
    SucceedTask,
)
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.lifecycle.status import LossCause, OutputKept
from pyoco_server.operations.runs.apply import Applied, apply
from pyoco_server.store.logs.writer import LogLine
from pyoco_server.store.runs.log import StoredRun, new_commit_id
from pyoco_server.store.store import Store
from pyoco_server.supervision import count_failure, noticed
from pyoco_server.worker.recording.facts import Fact, TaskReport, fact_of, next_batch
from pyoco_server.worker.recording.notices import notices_of
from pyoco_server.worker.recording.open_waits import OpenWaits
from pyoco_server.worker.recording.run_log import RunLog
from pyoco_server.worker.recording.snapshot_writer import SnapshotWriter
from pyoco_server.worker.recording.uploads import Uploads
from pyoco_server.worker.recording.values import StoredResult

log = logging.getLogger(__name__)

BROKER_PAUSE_SEC = (0.05, 1.0)
# Facts that nothing waits for travel with the next commit, or by themselves after this long.
JOIN_NEXT_COMMIT_SEC = 0.02
LOOP = "recording of a run"


class Recorder:
    """Of one claim of a run. Reports and lines come from any thread, everything else from the loop's."""

    def __init__(self, store: Store, stored: StoredRun, on_refused: Callable[[Reason], None]) -> None:
        self._store = store
        self.snapshot = SnapshotWriter(store, stored)
        self.log = RunLog(store, stored.run.run_id, stored.run.fence)
        self.waits = OpenWaits(stored.run)
        self._timer: asyncio.TimerHandle | None = None
        self._stored = stored
        self._fence = stored.run.fence
        self._on_refused = on_refused
        self._loop = asyncio.get_running_loop()
        # What comes from a slot comes in the slot's context; lines of ours are about this run.
        self._context = contextvars.copy_context()
        self._thread = threading.get_ident()
        self._waiting: list[Fact] = []
        self._refused_batch: list[Fact] = []
        self.uploads = Uploads(store, stored.run.run_id, self._fence, lambda: self._refuse(Reason.FENCED))
        self._writer: asyncio.Task[None] | None = None
        self._is_writing = False
        self.refused: Reason | None = None
        self.cause: dict[str, Any] | None = None  # the exception that it failed with, as a log line names it
        self.broken: str | None = None  # what happened cannot be written down, today or ever

    @property
    def stored(self) -> StoredRun:
        return self._stored

    def loss(self, cause: LossCause, detail: str) -> ReportLoss:
        """Our hold on the run ends although the run does not."""
        config = self._store.config
        return ReportLoss(
            fence=self._fence,
            cause=cause,
            losses_max=config.consumer_max_deliver,
            crashes_max=config.max_crashes,
            detail=detail,
        )

    # From any thread

    def report(self, report: TaskReport) -> None:
        if threading.get_ident() == self._thread:
            self._hear(report)
        else:
            self._loop.call_soon_threadsafe(self._hear, report)

    def printed(
        self,
        at: float,
        stream: str,
        task: str | None,
        attempt: int | None,
        lines: list[str],
        level: str | None,
    ) -> None:
        """Whole lines."""
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self.printed, at, stream, task, attempt, lines, level)
            return
        for text in lines:
            self.log.add(LogLine(at, stream, text, task, attempt, level))

    # From the loop

    async def conclude(self, ending: Command) -> Reason | None:
        """Commit what still waits together with the end. Gives the reason if it was refused."""
        await self.uploads.finished()
        if self.refused is not None:  # meanwhile, so that some of them were not put
            return self.refused
        self._note(ending)
        await self.log.flushed()  # whoever sees the end finds the log complete
        self._waiting.append(Fact(ending))
        refused = await self._written()
        return await self._hand_back() if refused is Reason.NOT_WAITING else refused

    async def _hand_back(self) -> Reason | None:
        """A wait was answered when we were about to park: the rest is recorded, and who claims next knows."""
        self._waiting, self._refused_batch = self._refused_batch[:-1], []
        self.refused = None
        return await self.conclude(
            self.loss(LossCause.HANDED_BACK, "a wait was answered before it was parked")
        )

    async def conclude_alone(self, ending: Command) -> Reason | None:
        """Commit the end without what waits: after a cancel there is no more progress to record."""
        await self._written()
        self.uploads.stop(remove=self.broken is None)
        self._note(ending)
        await self.log.flushed()
        self._waiting = [Fact(ending)]
        self.refused = None
        return await self._written()

    def _note(self, command: Command) -> None:
        for notice in notices_of(command):
            self.log.notice(
                notice.text, task=notice.task, attempt=notice.attempt, level=notice.level, at=notice.at
            )

    def _hear(self, report: TaskReport) -> None:
        command = report.command
        if isinstance(command, PutTaskWaiting):
            self.waits.add(command.task)
        if isinstance(command, SucceedTask) and command.kept is OutputKept.REFERENCED:
            self._upload(command, report)
        else:
            self._take(fact_of(report))

    def _upload(self, command: SucceedTask, report: TaskReport) -> None:
        """A large result is stored before the log says that there is one."""

        def take(put: StoredResult) -> None:
            stored = replace(command, kept=put.kept, types=put.types)
            self._take(fact_of(report._replace(command=stored, values=put.json)))

        result = StoredResult(report.values, command.kept, command.types)
        self.uploads.begin(command.task, command.attempt, result, take)

    def _take(self, fact: Fact) -> None:
        self._note(fact.command)
        self._waiting.append(fact)
        if fact.acknowledged is not None:
            self._wake()
        elif self._timer is None:
            self._timer = self._loop.call_later(JOIN_NEXT_COMMIT_SEC, self._wake)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        self._stop_timer()
        idle = self._writer is None and not self._is_writing
        if idle and self._waiting and self.refused is None:
            writer = self._loop.create_task(self._write(), context=self._context)
            self._writer = noticed(writer, LOOP)

    async def _written(self) -> Reason | None:
        """Whoever waits for it writes what is left: that needs no task of its own."""
        self._stop_timer()
        while self._writer is not None:
            await asyncio.wait([self._writer])
        await self._write()
        return self.refused

    async def _write(self) -> None:
        self._is_writing = True  # one append in flight, whoever awaits it
        try:
            while self._waiting and self.refused is None:
                batch, self._waiting = next_batch(self._waiting)
                await self._commit(batch)
        except Exception as error:  # the engine waits for us: whatever it is, it must not be left waiting
            count_failure(LOOP)
            log.exception("recording failed", extra={"run_id": self._stored.run.run_id})
            self.broken = f"What the run did cannot be recorded: {describe(error).error}"
            self._refuse(Reason.FENCED)
        finally:
            self._writer, self._is_writing = None, False

    def _refuse(self, reason: Reason) -> None:
        self.refused = reason
        if reason is not Reason.NOT_WAITING:  # after that one the rest is recorded
            self.uploads.stop(remove=self.broken is None)
        self._on_refused(reason)

    async def _commit(self, batch: list[Fact]) -> None:
        applied = await self._apply_patiently([fact.command for fact in batch])
        if applied.refused is not None:
            self._refused_batch = batch
            self._refuse(applied.refused.reason)
            return
        assert applied.after is not None
        self._stored = applied.after
        self.snapshot.follow(applied.after)
        for fact in batch:
            if fact.acknowledged is not None:
                fact.acknowledged()

    async def _apply_patiently(self, commands: list[Command]) -> Applied:
        """A broker that is away does not end a run: the same commit is tried until it answers."""
        pause = BROKER_PAUSE_SEC[0]
        commit_id = new_commit_id()
        run_id = self._stored.run.run_id
        while True:
            try:
                return await apply(
                    self._store, run_id, *commands, held=self._stored, commit_id=commit_id, project=False
                )
            except Unavailable as error:
                # The end may wait behind this commit: it cannot be recorded either.
                last = self._waiting[-1].command if self._waiting else commands[-1]
                is_end = isinstance(last, CompleteRun | FailRun | ConfirmCancelled)
                number = "0008" if is_end else "0003"
                ids = {"err_id": f"ERR-PYOCO-{number}", "msg_id": f"MSG-PYOCO-{number}"}
                fields = {"run_id": run_id, "reason": error.message} | ids
                log.warning("cannot record yet", exc_info=error, extra=fields)
                await asyncio.sleep(pause)
                pause = min(pause * 2, BROKER_PAUSE_SEC[1])
