"""A named body that is executed again and again until it is stopped. Nothing else ends it.

With an interval the body is executed at once (or after the first interval, with `waits_first`) and then each
time the interval has passed; `wake` makes the next time come sooner. Without an interval it is executed only
when it was woken. A wake-up while the body is being executed is not lost: it is executed once more.

A body that raises is executed again after a backoff. `Unavailable` is expected while the broker is away: it
is logged at DEBUG first and at WARNING when it lasts. object other error is a defect and is logged with its
traceback. Both are counted by the loop's name (`/metrics`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from typing import TypeVar

from pyoco_server.errors import Unavailable
from pyoco_server.supervision.backoff import Backoff
from pyoco_server.supervision.steps import capture_error, count_failure

log = logging.getLogger(__name__)

STOP_WITHIN_SEC = 5.0
# So many failures in a row are more than a short outage of the broker.
WARN_AFTER_FAILURES = 5

T = TypeVar("T")


def start_task(
    work: Coroutine[object, None, T], name: str, *, context: Context | None = None
) -> asyncio.Task[T]:
    """Start a task that is executed once. An error is logged and counted, also if nothing awaits the task."""

    def on_end(ended: asyncio.Task[T]) -> None:
        if not ended.cancelled() and (error := ended.exception()) is not None:
            count_failure(name)
            log.error("a background task failed", exc_info=error, extra={"task": name})

    task = asyncio.get_running_loop().create_task(work, name=name, context=context)
    task.add_done_callback(on_end)
    return task


async def wait_for_event(event: asyncio.Event, within_sec: float | None) -> bool:
    """Whether the event is set within this time; None: for as long as it takes."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_sec):
            return await event.wait()
    return event.is_set()  # it may have been set at the very moment of the timeout


class Loop:
    def __init__(
        self,
        name: str,
        body: Callable[[], Awaitable[None]],
        *,
        interval_sec: float | None = None,
        backoff: Backoff | None = None,
        waits_first: bool = False,
    ) -> None:
        self.name = name
        self._body = body
        self._interval_sec = interval_sec
        self._backoff = backoff or Backoff()
        self._waits_first = waits_first or interval_sec is None
        self._woken = asyncio.Event()
        self._stopped = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.failures_in_a_row = 0
        self.last_error: str | None = None

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def is_stopping(self) -> bool:
        return self._stopped.is_set()

    def start(self) -> None:
        """Callable twice: a loop that is running stays the only one."""
        if not self.is_running and not self.is_stopping:
            self._task = asyncio.get_running_loop().create_task(self._run(), name=self.name)
            self._task.add_done_callback(self._on_end)

    def wake(self) -> None:
        """Execute the body soon. Callable at any time, also from inside the body."""
        self._woken.set()

    async def stop(self, within_sec: float | None = STOP_WITHIN_SEC) -> None:
        """Let a body that is being executed come to its end; cancel it after `within_sec`. Callable twice.

        None: wait for the body for as long as it takes.
        """
        self._stopped.set()
        self._woken.set()
        task = self._task
        if task is None or task is asyncio.current_task():
            return
        _, late = await asyncio.wait([task], timeout=within_sec)
        if late:
            task.cancel()
            await asyncio.wait([task], timeout=within_sec)

    def stop_at_once(self) -> None:
        """For an owner that cannot wait: a body that is being executed is cancelled."""
        self._stopped.set()
        if self._task is not None:
            self._task.cancel()

    async def pause_until_stopped(self, seconds: float) -> None:
        """For a body that has to wait: ends early when the loop is stopped."""
        await wait_for_event(self._stopped, seconds)

    async def _run(self) -> None:
        if self._waits_first:
            await wait_for_event(self._woken, self._interval_sec)
        while not self.is_stopping:
            self._woken.clear()
            error = await self._execute()
            if error is None:
                self._note_success()
                await wait_for_event(self._woken, self._interval_sec)
            else:
                self._note_failure(error)
                # A wake-up does not shorten this wait: a body that fails is not executed in a tight loop.
                await self.pause_until_stopped(self._backoff.after(self.failures_in_a_row))

    async def _execute(self) -> BaseException | None:
        """The error of the body. A cancel of this loop is raised, also if the body turns it into a defect."""
        try:
            with capture_error() as body:
                await self._body()
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            return error
        if body.error is not None and not isinstance(body.error, Unavailable) and _is_cancelled():
            raise body.error
        return body.error

    def _note_success(self) -> None:
        if self.failures_in_a_row >= WARN_AFTER_FAILURES:
            fields = {"loop": self.name, "failures": self.failures_in_a_row}
            log.info("a background loop works again", extra=fields)
        self.failures_in_a_row, self.last_error = 0, None

    def _note_failure(self, error: BaseException) -> None:
        count_failure(self.name)
        self.failures_in_a_row += 1
        fields: dict[str, object] = {"loop": self.name, "failures": self.failures_in_a_row}
        if isinstance(error, Unavailable):
            self.last_error = error.message
            level = logging.WARNING if self.failures_in_a_row == WARN_AFTER_FAILURES else logging.DEBUG
            fields |= {"error": error.message}
            log.log(level, "a background loop cannot do its work", exc_info=error, extra=fields)
        else:
            self.last_error = f"{type(error).__name__}: {error}"
            log.error("a background loop failed", exc_info=error, extra=fields)

    def _on_end(self, _task: asyncio.Task[None]) -> None:
        if not self.is_stopping:
            count_failure(self.name)
            log.warning("a background loop was cancelled without being stopped", extra={"loop": self.name})


def _is_cancelled() -> bool:
    """Whether the task itself is cancelled, and not only a future that its body awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
