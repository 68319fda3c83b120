"""Monitors a run in flight: cancels, answers, the delivery, the heartbeat, and the grace of a cancel.

Everything here ends with the `async with`. The subscription begins before the claim is committed, so that no
commit is missed; after a reconnect the run is read again.

Tasks are started only while the worker's lease is current. If it had lapsed, the log is read before the next
task is started: another worker may hold the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Protocol

from pyoco_server import clock
from pyoco_server.engine import WaitAnswer
from pyoco_server.errors import Unavailable
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.lifecycle.events import CancelRequested, RunLost
from pyoco_server.store.queue.job_puller import Delivery
from pyoco_server.store.runs.codec import decode_commit
from pyoco_server.store.store import Store
from pyoco_server.supervision import contain, start_task
from pyoco_server.worker.presence.lease_deadline import LeaseDeadline
from pyoco_server.worker.recording.recorder import Answered, Recorder

log = logging.getLogger(__name__)

# Commits that may answer a wait and arrive before the run is executed. More are not kept: a run cannot be
# parked while an answer is unread, so it is claimed again and finds the answer.
EARLY_COMMITS_MAX = 100
CATCH_UP_EVERY_HEARTBEATS = 10
# Timers and short tasks instead of loops: most runs end before the first heartbeat and need no task.
DELIVERY, HEARTBEAT, CATCH_UP = "keeping a delivery", "heartbeat of a run", "catching up with a run"


class Stoppable(Protocol):
    """Executes the run: `cancel` requests it to stop, `abandon` stops it."""

    def cancel(self, run_id: str) -> None: ...

    def abandon(self, run_id: str) -> None: ...

    def answer(self, run_id: str, task: str, answer: WaitAnswer, /) -> None: ...

    def grant(self, run_id: str, until: float, /) -> None:
        """Tasks may be started until then (`clock.elapsed`)."""


class AttemptMonitor:
    def __init__(self, store: Store, delivery: Delivery, run_id: str, lease: LeaseDeadline) -> None:
        self._store = store
        self._lease = lease
        self._is_confirmed = True
        self._heartbeats = 0
        self._delivery = delivery
        self._run_id = run_id
        self._sid: int | None = None
        self._engine: Stoppable | None = None
        self._recorder: Recorder | None = None
        self._grace: asyncio.TimerHandle | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._early: list[bytes] = []
        self._over = False
        self._context = contextvars.copy_context()
        self.is_cancelled = False
        self.is_abandoned = False
        self.is_taken_over = False
        self.abandoned: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> AttemptMonitor:
        subject = f"{self._store.config.live_subject_prefix}.{self._run_id}"
        self._sid = await self._store.client.listen(subject, self._on_commit)
        self._store.on_reconnect(self._catch_up_soon)
        self._lease.subscribe(self._on_renewed)
        self._every(self._store.config.ack_progress_interval_sec, DELIVERY, self._keep_delivery)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._store.forget_reconnect(self._catch_up_soon)
        self._lease.unsubscribe(self._on_renewed)
        for timer in (*self._timers, *([self._grace] if self._grace else [])):
            timer.cancel()
        # They refer to this monitor: without them it is freed at once, and not by the garbage collector.
        self._timers.clear()
        self._engine = self._recorder = None
        for task in self._tasks:
            task.cancel()
        if self._sid is not None:
            await self._store.client.unlisten(self._sid)

    def begin(self, engine: Stoppable, recorder: Recorder) -> None:
        if self._recorder is None:
            self._every(self._store.config.run_heartbeat_interval_sec, HEARTBEAT, self._on_heartbeat_due)
        self._engine, self._recorder = engine, recorder
        self._grant()
        if self.is_cancelled:
            recorder.is_cancelled = True
            engine.cancel(self._run_id)
        elif recorder.stored.run.cancel is not None:
            # Requested between the claim and the read that found it; its push may have been lost.
            self.cancel()
        early, self._early = self._early, []
        for data in early:
            self._pass_on(recorder.waits.answered_by(decode_commit(data)))

    def may_start(self) -> bool:
        return self._is_confirmed and self._lease.is_current

    def detach_engine(self) -> None:
        """The run's code has returned: its slot may execute another run by now and must not be signalled."""
        self._engine = None

    def on_refused(self, reason: Reason) -> None:
        """A commit was refused: by a cancel, or because the run was taken over."""
        if reason is Reason.CANCEL_REQUESTED:
            self.cancel()
        else:
            self.is_taken_over = True
            self._abandon()

    def cancel(self) -> None:
        if self.is_cancelled:
            return
        self.is_cancelled = True
        if self._recorder is not None:
            self._recorder.is_cancelled = True
        if self._engine is not None:
            self._engine.cancel(self._run_id)
        grace_sec = self._store.config.cancel_grace_period_sec
        self._note(f"cancel requested; the run has {grace_sec:g} s to stop by itself")
        # A cancel may arrive in the context of the connection, which has no run in it.
        loop = asyncio.get_running_loop()
        self._grace = loop.call_later(grace_sec, self._grace_is_over, context=self._context)

    def _on_renewed(self, has_lapsed: bool) -> None:
        if has_lapsed:
            self._is_confirmed = False
        if self._is_confirmed:
            self._grant()
        else:
            self._catch_up_soon()

    def _grant(self) -> None:
        if self._engine is not None and self._is_confirmed:
            self._engine.grant(self._run_id, self._lease.until)

    def _on_commit(self, _subject: bytes, _reply: bytes, _headers: bytes, data: bytes) -> None:
        # Commits of this worker arrive here too: most need no decoding.
        if b"CancelRequested" in data and any(isinstance(e, CancelRequested) for e in decode_commit(data)):
            self.cancel()
        if b"RunLost" in data and self._recorder is not None:
            fence = self._recorder.stored.run.fence
            if any(isinstance(event, RunLost) and event.fence == fence for event in decode_commit(data)):
                self.on_refused(Reason.FENCED)
        if self._recorder is None or self._recorder.waits:
            self._read_answers(data)

    def _read_answers(self, data: bytes) -> None:
        """A commit that ends a wait contains the answer, or the failure at its deadline."""
        if b"TaskSucceeded" not in data and b"TaskFailed" not in data:
            return
        if self._recorder is not None:
            self._pass_on(self._recorder.waits.answered_by(decode_commit(data)))
        elif len(self._early) < EARLY_COMMITS_MAX:
            self._early.append(data)

    def _pass_on(self, answered: list[Answered]) -> None:
        for task, answer in answered:
            if self._engine is not None:
                self._engine.answer(self._run_id, task, answer)

    def _grace_is_over(self) -> None:
        fields = {"run_id": self._run_id, "err_id": "ERR-PYOCO-0021", "msg_id": "MSG-PYOCO-0021"}
        log.error("cancelled, but its code goes on; it is stopped", extra=fields)
        self._note("the run did not stop by itself after its cancel; it is stopped")
        self._abandon()

    def _note(self, text: str) -> None:
        if self._recorder is not None:
            self._recorder.log.warn(text)

    def _abandon(self) -> None:
        if self._engine is not None and not self.is_abandoned:
            self.is_abandoned = True
            if not self.abandoned.done():
                self.abandoned.set_result(None)
            self._engine.abandon(self._run_id)

    def _catch_up_soon(self) -> None:
        self._begin(self._catch_up(), CATCH_UP)

    def _begin(self, work: Coroutine[object, object, None], name: str) -> None:
        task = start_task(work, name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _catch_up(self) -> None:
        """Read what was committed while the worker was cut off, or was not pushed, at the leader.

        A leader that was cut off may have an old state. A read that allows tasks to start is confirmed.
        """
        try:
            whole = self._recorder is not None and bool(self._recorder.waits)
            if self._is_confirmed:
                stored = await self._store.runs.load(self._run_id, at_leader=True, whole=whole)
            else:
                stored = await self._store.runs.load_confirmed(self._run_id, whole=whole)
        except Unavailable:
            return  # the next reconnect, renewal or heartbeat tries again
        if stored is None or self._over or self._recorder is None:
            return
        run, fence = stored.run, self._recorder.stored.run.fence
        if run.fence < fence:
            return  # an old state, from before this claim
        if run.cancel is not None:
            self.cancel()
        if run.claim is None or run.claim.fence != fence:
            self.on_refused(Reason.FENCED)
            return
        self._is_confirmed = True
        self._grant()
        if whole:
            self._pass_on(self._recorder.waits.answered_in(run))

    def _every(self, interval_sec: float, name: str, act: Callable[[], None]) -> None:
        index = len(self._timers)
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(interval_sec, self._again, index, interval_sec, name, act))

    def _again(self, index: int, interval_sec: float, name: str, act: Callable[[], None]) -> None:
        if not self._over:
            with contain(name):
                act()
            loop = asyncio.get_running_loop()
            self._timers[index] = loop.call_later(interval_sec, self._again, index, interval_sec, name, act)

    def _keep_delivery(self) -> None:
        if not self._delivery.in_progress():
            fields = {"run_id": self._run_id, "err_id": "ERR-PYOCO-0009", "msg_id": "MSG-PYOCO-0009"}
            trouble = self._delivery.trouble
            fields |= {"reason": str(trouble)}
            log.warning("cannot say that the run is in progress", exc_info=trouble, extra=fields)

    def _on_heartbeat_due(self) -> None:
        self._begin(self._send_heartbeat(), HEARTBEAT)

    async def _send_heartbeat(self) -> None:
        if self._recorder is None or self._over:
            return
        self._heartbeats += 1
        with contextlib.suppress(Unavailable):  # the next heartbeat is a second away
            has_moved = await self._recorder.snapshot.send_heartbeat(clock.now())
            # A push may be lost. The snapshot shows missed commits; every few heartbeats the log is read.
            if has_moved or self._heartbeats % CATCH_UP_EVERY_HEARTBEATS == 0:
                await self._catch_up()
