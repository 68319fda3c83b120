"""Commands of one run into commits: one append is in flight, and commands that wait join the next commit.

If the broker is away, the same commit is retried until it is answered. A commit that is refused (because of a
cancel or a takeover) stops the batcher, and `on_refused` gets the reason.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable

from pyoco_server.engine.tasks.failure import describe
from pyoco_server.errors import Unavailable
from pyoco_server.lifecycle.commands import Command, CompleteRun, ConfirmCancelled, FailRun
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.operations.runs.apply import Applied, Attribution, Reading, apply
from pyoco_server.store.runs.log import StoredRun, new_commit_id
from pyoco_server.store.store import Store
from pyoco_server.supervision import Backoff, contain, start_task
from pyoco_server.worker.recording.facts import Fact

log = logging.getLogger(__name__)

UNAVAILABLE = Backoff(first_sec=0.05, longest_sec=1.0)
# Facts that nothing waits for join the next commit, or are committed after this long.
JOIN_NEXT_COMMIT_SEC = 0.02
LOOP = "recording of a run"
# How much one commit takes.
BATCH_EVENTS_MAX = 500
BATCH_BYTES_MAX = 256 * 1024
FRAME_BYTES = 200  # of an event, without the values of user code


class CommitBatcher:
    """Used from the loop's thread only."""

    def __init__(
        self,
        store: Store,
        stored: StoredRun,
        on_committed: Callable[[StoredRun], None],
        on_refused: Callable[[Reason], None],
    ) -> None:
        self._store = store
        self._on_committed = on_committed
        self._on_refused = on_refused
        # Reports arrive in the context of the slot; log lines of the writer belong to this run.
        self._context = contextvars.copy_context()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._writer: asyncio.Task[None] | None = None
        self._is_writing = False
        self._waiting: list[Fact] = []
        self._refused_batch: list[Fact] = []
        self.stored = stored  # as of the last commit
        self.refused: Reason | None = None
        self.broken: str | None = None  # why the run can no longer be recorded, after a defect

    def add(self, fact: Fact) -> None:
        """A fact to be acknowledged is written at once; others wait a moment for a commit to join."""
        self._waiting.append(fact)
        if fact.acknowledged is not None:
            self._wake()
        elif self._timer is None:
            self._timer = self._loop.call_later(JOIN_NEXT_COMMIT_SEC, self._wake)

    def refuse(self, reason: Reason) -> None:
        """No further commit."""
        self.refused = reason
        self._on_refused(reason)

    async def flush(self) -> Reason | None:
        """Write what is left, in the calling task. Returns the reason if a commit was refused."""
        self._stop_timer()
        while self._writer is not None:
            await asyncio.wait([self._writer])
        await self._write()
        return self.refused

    async def commit_with(self, ending: Command) -> Reason | None:
        """Commit what still waits together with the end."""
        self._waiting.append(Fact(ending))
        return await self.flush()

    async def commit_alone(self, ending: Command) -> Reason | None:
        """Commit the end without what waits, also after a refusal."""
        self._waiting, self.refused = [Fact(ending)], None
        return await self.flush()

    def take_back_ending(self) -> None:
        """The commit was refused because of the end in it: the other facts wait again."""
        self._waiting, self._refused_batch = self._refused_batch[:-1], []
        self.refused = None

    def close(self) -> None:
        """The attempt is over. Without the way back to its owner both are freed at once, and not by the
        garbage collector."""
        self._on_refused = _ignore

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        self._stop_timer()
        idle = self._writer is None and not self._is_writing
        if idle and self._waiting and self.refused is None:
            self._writer = start_task(self._write(), LOOP, context=self._context)

    async def _write(self) -> None:
        self._is_writing = True  # one append in flight, in the writer's task or in `flush`
        try:
            # Tasks wait for the commit, so the run has to end after any error.
            with contain(LOOP, "recording failed", run_id=self.stored.run.run_id) as contained:
                while self._waiting and self.refused is None:
                    batch, self._waiting = _next_batch(self._waiting)
                    await self._commit(batch)
            if contained.error is not None:
                self.broken = f"What the run did cannot be recorded: {describe(contained.error).error}"
                self.refuse(Reason.FENCED)
        finally:
            self._writer, self._is_writing = None, False

    async def _commit(self, batch: list[Fact]) -> None:
        applied = await self._apply([fact.command for fact in batch])
        if applied.refused is not None:
            self._refused_batch = batch
            self.refuse(applied.refused.reason)
            return
        assert applied.after is not None
        self.stored = applied.after
        self._on_committed(applied.after)
        for fact in batch:
            if fact.acknowledged is not None:
                fact.acknowledged()

    async def _apply(self, commands: list[Command]) -> Applied:
        commit_id, run_id, failures = new_commit_id(), self.stored.run.run_id, 0
        attribution = Attribution(commit_id=commit_id)
        while True:
            reading = Reading(held=self.stored)
            try:
                return await apply(
                    self._store, run_id, *commands, reading=reading, attribution=attribution, project=False
                )
            except Unavailable as error:
                failures += 1
                self._log_unavailable(error, commands)
                await asyncio.sleep(UNAVAILABLE.after(failures))

    def _log_unavailable(self, error: Unavailable, commands: list[Command]) -> None:
        # The end may wait behind this commit: it cannot be recorded either.
        last = self._waiting[-1].command if self._waiting else commands[-1]
        is_end = isinstance(last, CompleteRun | FailRun | ConfirmCancelled)
        number = "0008" if is_end else "0003"
        ids = {"err_id": f"ERR-PYOCO-{number}", "msg_id": f"MSG-PYOCO-{number}"}
        fields = {"run_id": self.stored.run.run_id, "reason": error.message} | ids
        log.warning("cannot record yet", exc_info=error, extra=fields)


def _ignore(_reason: Reason) -> None:
    return


def _next_batch(waiting: list[Fact]) -> tuple[list[Fact], list[Fact]]:
    """The facts that go into one commit, and those that are left."""
    size = 0
    for count, fact in enumerate(waiting):
        size += fact.size + FRAME_BYTES
        if count and (size > BATCH_BYTES_MAX or count >= BATCH_EVENTS_MAX):
            return waiting[:count], waiting[count:]
    return waiting, []
