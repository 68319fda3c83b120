"""From the engine's thread to the log: callbacks become commands, and whatever waits joins one commit.

One append is in flight per run. A cancel or a takeover that a commit runs into comes back from here as a
signal to the attempt.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyoco_server import clock
from pyoco_server.engine import NullListener, WaitPrompt
from pyoco_server.engine.tasks.current_attempt import CurrentAttempt
from pyoco_server.engine.tasks.failure import describe
from pyoco_server.errors import Unavailable
from pyoco_server.lifecycle.commands import (
    Command,
    CompleteRun,
    ConfirmCancelled,
    FailRun,
    FailTask,
    PutTaskWaiting,
    ReportLoss,
    SkipTask,
    StartTask,
    SucceedTask,
)
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.lifecycle.graph import OnTimeout
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import LossCause, OutputKept
from pyoco_server.operations.runs.apply import Applied, Attribution, Reading, apply
from pyoco_server.store.logs.writer import LogLine
from pyoco_server.store.runs.log import StoredRun, new_commit_id
from pyoco_server.store.store import Store
from pyoco_server.supervision import count_failure, noticed
from pyoco_server.worker.recording.facts import Acknowledge, Fact, next_batch
from pyoco_server.worker.recording.notices import notices_of
from pyoco_server.worker.recording.open_waits import OpenWaits
from pyoco_server.worker.recording.planning import Edges, plan
from pyoco_server.worker.recording.run_log import RunLog
from pyoco_server.worker.recording.snapshot_writer import SnapshotWriter
from pyoco_server.worker.recording.uploads import Uploads
from pyoco_server.worker.recording.values import StoredResult, inputs_kept, result_of
from pyoco_server.worker.stdout_tee import end_of

log = logging.getLogger(__name__)

BROKER_PAUSE_SEC = (0.05, 1.0)
# Facts that nothing waits for travel with the next commit, or by themselves after this long.
JOIN_NEXT_COMMIT_SEC = 0.02
LOOP = "recording of a run"


class Recorder(NullListener):
    """Listener of one run. Its callbacks come from any thread, everything else from the loop's."""

    def __init__(self, store: Store, stored: StoredRun, on_refused: Callable[[Reason], None]) -> None:
        self._store = store
        self.snapshot = SnapshotWriter(store, stored)
        self.log = RunLog(store, stored.run.run_id, stored.run.fence)
        self.waits = OpenWaits(stored.run)
        self.loops = False  # a task may come again, so that the last one is not known as such
        self._timer: asyncio.TimerHandle | None = None
        self._stored = stored
        self._fence = stored.run.fence
        self._attempts = _attempts_before(stored.run)
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
        self._unfinished: set[str] = set()
        self._edges = Edges()
        self.refused: Reason | None = None
        self.cause: dict[str, Any] | None = None  # the exception that it failed with, as a log line names it
        self.broken: str | None = None  # what happened cannot be written down, today or ever

    @property
    def stored(self) -> StoredRun:
        return self._stored

    @property
    def result_bytes_max(self) -> int:
        return self._store.config.result_max_bytes

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

    # Callbacks of the engine, from its thread

    def wired(self, needs: Mapping[str, Sequence[str]], any_of: Sequence[str]) -> None:
        self._edges = Edges(needs, any_of)

    def planned(self, names: Sequence[str], last: Sequence[str]) -> None:
        self.plan(names, last, at=clock.now())

    def task_started(self, name: str, attempt: int, inputs: Mapping[str, Any]) -> None:
        kept, size = inputs_kept(inputs)
        self.started(name, attempt, kept, size, at=clock.now())

    def task_succeeded(
        self,
        name: str,
        attempt: int,
        output: Any,
        started_at: float,
        ended_at: float,
        acknowledged: Acknowledge,
    ) -> None:
        end_of(self._stored.run.run_id, name)
        result = result_of(output, self.result_bytes_max)
        self.succeeded(name, attempt, result, (started_at, ended_at), acknowledged)

    # The same with values as they are written down, for those that come from another process

    def plan(self, names: Sequence[str], last: Sequence[str], *, at: float) -> None:
        self._unfinished = set(names)
        for command, size in plan(self._fence, names, last, self._edges, at):
            self._say(command, size)

    def started(self, name: str, attempt: int, kept: dict[str, Any], size: int, *, at: float) -> None:
        """`at`: when, and not when it came to be written down, which may be after its end."""
        number = self.attempt_no(name, attempt)
        started = StartTask(fence=self._fence, task=name, attempt=number, inputs=kept, started_at=at)
        self._unfinished.add(name)
        self._say(started, size)

    def succeeded(
        self,
        name: str,
        attempt: int,
        result: StoredResult,
        times: tuple[float, float],
        acknowledged: Acknowledge | None,
    ) -> None:
        """Without `acknowledged` nothing waits for it, and it may join the next commit."""
        succeeded = SucceedTask(
            fence=self._fence,
            task=name,
            attempt=self.attempt_no(name, attempt),
            started_at=times[0],
            ended_at=times[1],
        )
        self._unfinished.discard(name)
        self._say(succeeded, len(result.json or b""), acknowledged, result)

    def task_failed(
        self,
        name: str,
        attempt: int,
        error: str,
        traceback: str,
        started_at: float,
        ended_at: float,
        will_retry: bool,
    ) -> None:
        end_of(self._stored.run.run_id, name)
        failed = FailTask(
            fence=self._fence,
            task=name,
            attempt=self.attempt_no(name, attempt),
            started_at=started_at,
            ended_at=ended_at,
            error=error,
            traceback=traceback or None,
            will_retry=will_retry,
        )
        self._say(failed, len(error) + len(traceback))

    def task_cancelled(self, name: str) -> None:
        self.cancelled(name, at=clock.now())

    def cancelled(self, name: str, *, at: float) -> None:
        self._say(SkipTask(fence=self._fence, task=name, skipped_at=at), 0)

    def task_waiting(self, name: str, attempt: int, asked: WaitPrompt) -> None:
        kept, size = inputs_kept(asked.prompt)
        on_timeout = OnTimeout(asked.on_timeout)
        self.waiting(name, attempt, asked.key, kept, size, asked.timeout_sec, on_timeout, at=clock.now())

    def waiting(
        self,
        name: str,
        attempt: int,
        key: str,
        prompt: dict[str, Any],
        size: int,
        timeout_sec: float | None,
        on_timeout: OnTimeout,
        *,
        at: float,
    ) -> None:
        waiting = PutTaskWaiting(
            fence=self._fence,
            task=name,
            attempt=self.attempt_no(name, attempt),
            wait_key=key,
            prompt=prompt or None,
            deadline_at=None if timeout_sec is None else at + timeout_sec,
            on_timeout=on_timeout,
            waiting_since=at,
        )
        self.waits.add(name)
        self._say(waiting, size)

    def heard(self, at: float, stream: str, who: CurrentAttempt, lines: list[str], level: str | None) -> None:
        self.printed(at, stream, who.task, who.attempt, lines, level)

    def printed(
        self, at: float, stream: str, task: str | None, attempt: int, lines: list[str], level: str | None
    ) -> None:
        """Whole lines, from any thread."""
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self.printed, at, stream, task, attempt, lines, level)
            return
        number = self.attempt_no(task, attempt) if task else None
        for text in lines:
            self.log.add(LogLine(at, stream, text, task, number, level))

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

    def attempt_no(self, task: str, attempt: int) -> int:
        """The engine counts from 1 in each of its lives; the log counts on."""
        return self._attempts.get(task, 0) + attempt if attempt else 0

    def _say(
        self,
        command: Command,
        size: int,
        acknowledged: Acknowledge | None = None,
        result: StoredResult | None = None,
    ) -> None:
        # Nothing depends on the last task: its events travel with the end, which follows at once.
        is_urgent = acknowledged is not None and bool(self._unfinished or self.loops)
        fact = Fact(command, size, acknowledged, is_urgent)
        if threading.get_ident() == self._thread:
            self._hear(fact, result)
        else:
            self._loop.call_soon_threadsafe(self._hear, fact, result)

    def _hear(self, fact: Fact, result: StoredResult | None) -> None:
        if result is None:
            self._take(fact)
        elif result.kept is OutputKept.REFERENCED:
            self._upload(fact, result)
        else:
            self._take(fact.with_result(result))

    def _upload(self, fact: Fact, result: StoredResult) -> None:
        """A large result is stored before the log says that there is one."""
        command = fact.command
        assert isinstance(command, SucceedTask)

        def take(put: StoredResult) -> None:
            self._take(fact._replace(size=0).with_result(put))

        self.uploads.begin(command.task, command.attempt, result, take)

    def _take(self, fact: Fact) -> None:
        self._note(fact.command)
        self._waiting.append(fact)
        if fact.is_urgent:
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
                reading, ours = Reading(held=self._stored), Attribution(commit_id=commit_id)
                return await apply(
                    self._store, run_id, *commands, reading=reading, attribution=ours, project=False
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


def _attempts_before(run: Run) -> dict[str, int]:
    return {name: record.attempt for name, record in run.tasks.items() if record.attempt}
