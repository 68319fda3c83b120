"""From the engine's thread to the log: callbacks become commands, and whatever waits joins one commit.

One append is in flight per run. A cancel or a takeover that a commit runs into comes back from here as a
signal to the attempt. The snapshot follows behind, always the latest, one write in flight.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from pyoco_server.engine import NullListener
from pyoco_server.engine.failure import describe
from pyoco_server.errors import Unavailable
from pyoco_server.lifecycle.commands import (
    Command,
    FailTask,
    PlanTasks,
    SkipTask,
    StartTask,
    SucceedTask,
)
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import OutputKept
from pyoco_server.operations.apply import Applied, apply
from pyoco_server.store.runs import StoredRun, new_commit_id
from pyoco_server.store.store import Store
from pyoco_server.worker.values import inputs_kept, output_kept

log = logging.getLogger(__name__)

BROKER_PAUSE_SEC = (0.05, 1.0)
# Facts that nothing waits for travel with the next commit, or by themselves after this long.
JOIN_NEXT_COMMIT_SEC = 0.02
BATCH_EVENTS_MAX = 500
BATCH_BYTES_MAX = 256 * 1024
PLAN_NAMES_MAX = 1_000

Acknowledge = Callable[[], None]


class Recorder(NullListener):
    """Listener of one run. Its callbacks come from any thread, everything else from the loop's."""

    def __init__(self, store: Store, stored: StoredRun, on_refused: Callable[[Reason], None]) -> None:
        self._store = store
        self.loops = False  # a task may come again, so that the last one is not known as such
        self._timer: asyncio.TimerHandle | None = None
        self._stored = stored
        self._fence = stored.run.fence
        self._attempts = _attempts_before(stored.run)
        self._on_refused = on_refused
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._waiting: list[tuple[Command, int, Acknowledge | None]] = []
        self._writer: asyncio.Task[None] | None = None
        self._projector: asyncio.Task[None] | None = None
        self._projected = -1
        self._revision = stored.revision
        self._unfinished: set[str] = set()
        self.refused: Reason | None = None
        self.broken: str | None = None  # what happened cannot be written down, today or ever

    @property
    def stored(self) -> StoredRun:
        return self._stored

    @property
    def losses_max(self) -> int:
        return self._store.config.consumer_max_deliver

    @property
    def crashes_max(self) -> int:
        return self._store.config.max_crashes

    # Callbacks of the engine, from its thread

    def planned(self, names: Sequence[str]) -> None:
        self._unfinished = set(names)
        for some in _portions(names):
            self._say(PlanTasks(fence=self._fence, tasks=some), sum(map(len, some)))

    def task_started(self, name: str, attempt: int, inputs: Mapping[str, Any]) -> None:
        kept, size = inputs_kept(inputs)
        self.started(name, attempt, kept, size)

    def task_succeeded(
        self,
        name: str,
        attempt: int,
        output: Any,
        started_at: float,
        ended_at: float,
        acknowledged: Acknowledge,
    ) -> None:
        value, kept, size = output_kept(output)
        self.succeeded(name, attempt, (value, kept, size), (started_at, ended_at), acknowledged)

    # The same with values as they are written down, for those that come from another process

    def started(self, name: str, attempt: int, kept: dict[str, Any], size: int) -> None:
        started = StartTask(fence=self._fence, task=name, attempt=self._attempt(name, attempt), inputs=kept)
        self._unfinished.add(name)
        self._say(started, size)

    def succeeded(
        self,
        name: str,
        attempt: int,
        output: tuple[Any, OutputKept, int],
        times: tuple[float, float],
        acknowledged: Acknowledge,
    ) -> None:
        value, kept, size = output
        succeeded = SucceedTask(
            fence=self._fence,
            task=name,
            attempt=self._attempt(name, attempt),
            started_at=times[0],
            ended_at=times[1],
            output=value,
            kept=kept,
        )
        self._unfinished.discard(name)
        self._say(succeeded, size, acknowledged)

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
        failed = FailTask(
            fence=self._fence,
            task=name,
            attempt=self._attempt(name, attempt),
            started_at=started_at,
            ended_at=ended_at,
            error=error,
            traceback=traceback or None,
            will_retry=will_retry,
        )
        self._say(failed, len(error) + len(traceback))

    def task_cancelled(self, name: str) -> None:
        self._say(SkipTask(fence=self._fence, task=name), 0)

    # From the loop

    async def conclude(self, ending: Command) -> Reason | None:
        """Commit what still waits together with the end. Gives the reason if it was refused."""
        self._waiting.append((ending, 0, None))
        return await self._written()

    async def conclude_alone(self, ending: Command) -> Reason | None:
        """Commit the end without what waits: after a cancel there is no more progress to record."""
        await self._written()
        self._waiting = [(ending, 0, None)]
        self.refused = None
        return await self._written()

    async def projected(self) -> None:
        """Wait until the snapshot shows the last commit; tries for as long as the broker is away."""
        while self._projected < self._stored.commits:
            self._project()
            if self._projector is not None:
                await self._projector

    async def beat(self, at: float) -> None:
        """Renew the heartbeat, unless the snapshot is being written anyway."""
        if self._projector is None and self._projected == self._stored.commits:
            now = replace(self._stored, revision=self._revision)
            self._revision = (await self._store.runs.beat(now, at)).revision

    def _attempt(self, task: str, attempt: int) -> int:
        """The engine counts from 1 in each of its lives; the log counts on."""
        return self._attempts.get(task, 0) + attempt if attempt else 0

    def _say(self, command: Command, size: int, acknowledged: Acknowledge | None = None) -> None:
        # Nothing depends on the last task: its events travel with the end, which follows at once.
        is_urgent = acknowledged is not None and bool(self._unfinished or self.loops)
        if threading.get_ident() == self._thread:
            self._hear(command, size, acknowledged, is_urgent)
        else:
            self._loop.call_soon_threadsafe(self._hear, command, size, acknowledged, is_urgent)

    def _hear(self, command: Command, size: int, acknowledged: Acknowledge | None, is_urgent: bool) -> None:
        self._waiting.append((command, size, acknowledged))
        if is_urgent:
            self._wake()
        elif self._timer is None:
            self._timer = self._loop.call_later(JOIN_NEXT_COMMIT_SEC, self._wake)

    def _wake(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._writer is None and self._waiting and self.refused is None:
            self._writer = self._loop.create_task(self._write())

    async def _written(self) -> Reason | None:
        self._wake()
        while self._writer is not None:
            await asyncio.wait([self._writer])
        return self.refused

    async def _write(self) -> None:
        try:
            while self._waiting and self.refused is None:
                await self._commit(self._next_batch())
        except Exception as error:  # the engine waits for us: whatever it is, it must not be left waiting
            log.exception("recording failed", extra={"run_id": self._stored.run.run_id})
            self.broken = f"What the run did cannot be recorded: {describe(error).error}"
            self._refuse(Reason.FENCED)
        finally:
            self._writer = None

    def _refuse(self, reason: Reason) -> None:
        self.refused = reason
        self._on_refused(reason)

    def _next_batch(self) -> list[tuple[Command, int, Acknowledge | None]]:
        size = 0
        for count, (_, weight, _) in enumerate(self._waiting):
            size += weight + 200
            if count and (size > BATCH_BYTES_MAX or count >= BATCH_EVENTS_MAX):
                batch, self._waiting = self._waiting[:count], self._waiting[count:]
                return batch
        batch, self._waiting = self._waiting, []
        return batch

    async def _commit(self, batch: list[tuple[Command, int, Acknowledge | None]]) -> None:
        applied = await self._apply_patiently([command for command, _, _ in batch])
        if applied.refused is not None:
            self._refuse(applied.refused.reason)
            return
        assert applied.after is not None
        self._stored = applied.after
        self._project()
        for _, _, acknowledged in batch:
            if acknowledged is not None:
                acknowledged()

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
                log.warning("cannot record yet", extra={"run_id": run_id, "error": error.message})
                await asyncio.sleep(pause)
                pause = min(pause * 2, BROKER_PAUSE_SEC[1])

    def _project(self) -> None:
        if self._projector is None:
            self._projector = self._loop.create_task(self._follow())

    async def _follow(self) -> None:
        try:
            while self._projected < self._stored.commits:
                target = replace(self._stored, revision=self._revision)
                self._revision = (await self._store.runs.project(target)).revision
                self._projected = target.commits
        except Unavailable as error:
            extra = {"run_id": self._stored.run.run_id, "error": error.message}
            log.warning("snapshot not written yet", extra=extra)
            await asyncio.sleep(BROKER_PAUSE_SEC[0])
        finally:
            self._projector = None


def _portions(names: Sequence[str]) -> Iterator[list[str]]:
    """The plan of a large flow is too long for one message."""
    for start in range(0, max(len(names), 1), PLAN_NAMES_MAX):
        yield list(names[start : start + PLAN_NAMES_MAX])


def _attempts_before(run: Run) -> dict[str, int]:
    return {name: record.attempt for name, record in run.tasks.items() if record.attempt}


def recorded_results(run: Run) -> dict[str, Any]:
    """What earlier claims of this run have finished and can be taken over as it is."""
    return {name: record.output for name, record in run.tasks.items() if record.kept is OutputKept.STORED}
