"""A named body that is executed again and again until it is stopped. Nothing else ends it.

With an interval the body is executed at once (or after the first interval, with `waits_first`) and then each
time the interval has passed; `wake` makes the next time come sooner. Without an interval it is executed only
when it was woken. A wake-up while the body is being executed is not lost: it is executed once more.

A body that raises is executed again after a backoff. `Unavailable` is expected while the broker is away: it
is logged at DEBUG first and at WARNING when it lasts. Any other error is a defect and is logged with its
traceback. Both are counted by the loop's name (`/metrics`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from pyoco_server.errors import Unavailable
from pyoco_server.supervision.backoff import Backoff

log = logging.getLogger(__name__)

STOP_WITHIN_SEC = 5.0
# So many failures in a row are no longer a blink of the broker.
WARN_AFTER_FAILURES = 5

T = TypeVar("T")

_failures: Counter[str] = Counter()


def failures_by_loop() -> Mapping[str, int]:
    """How often the body of each loop of this process has failed."""
    return dict(_failures)


def count_failure(name: str) -> None:
    """For a part of a loop's body that fails and is survived by the rest of the body."""
    _failures[name] += 1


def noticed(task: asyncio.Task[T], name: str) -> asyncio.Task[T]:
    """For a task that is executed once: an error is logged and counted, also if nothing waits for it."""

    def on_end(ended: asyncio.Task[T]) -> None:
        if not ended.cancelled() and (error := ended.exception()) is not None:
            _failures[name] += 1
            log.error("a background task failed", exc_info=error, extra={"task": name})

    task.add_done_callback(on_end)
    return task


@dataclass(slots=True)
class Contained:
    """`error`: what the step raised, to be read after it."""

    error: Exception | None = None


@contextmanager
def contain(name: str, message: str = "a background step failed", **fields: object) -> Iterator[Contained]:
    """For a step whose defect must not end what follows: an error is logged and counted by `name`."""
    contained = Contained()
    try:
        yield contained
    except Exception as error:  # supervision: the one place that survives any defect of a step
        contained.error = error
        _failures[name] += 1
        log.exception(message, extra={"loop": name} | fields)


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
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopped.wait()

    async def _run(self) -> None:
        if self._waits_first:
            await self._next_time()
        while not self.is_stopping:
            self._woken.clear()
            await self._execute()
            if self.failures_in_a_row:
                await self._back_off()
            else:
                await self._next_time()

    async def _next_time(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._interval_sec):  # None: for as long as it takes
                await self._woken.wait()

    async def _execute(self) -> None:
        try:
            await self._body()
        except Unavailable as error:
            self._note_failure(error.message)
            level = logging.WARNING if self.failures_in_a_row == WARN_AFTER_FAILURES else logging.DEBUG
            fields = {"loop": self.name, "failures": self.failures_in_a_row, "error": error.message}
            log.log(level, "a background loop cannot do its work", exc_info=error, extra=fields)
        except (Exception, asyncio.CancelledError) as error:  # a defect of one body must not end its loop
            if _is_cancelled():
                raise
            self._note_failure(f"{type(error).__name__}: {error}")
            fields = {"loop": self.name, "failures": self.failures_in_a_row}
            log.exception("a background loop failed", extra=fields)
        else:
            if self.failures_in_a_row >= WARN_AFTER_FAILURES:
                fields = {"loop": self.name, "failures": self.failures_in_a_row}
                log.info("a background loop works again", extra=fields)
            self.failures_in_a_row, self.last_error = 0, None

    def _note_failure(self, error: str) -> None:
        _failures[self.name] += 1
        self.failures_in_a_row += 1
        self.last_error = error

    async def _back_off(self) -> None:
        """A wake-up does not shorten this wait: a body that fails is not executed in a tight loop."""
        await self.pause_until_stopped(self._backoff.after(self.failures_in_a_row))

    def _on_end(self, _task: asyncio.Task[None]) -> None:
        if not self.is_stopping:
            _failures[self.name] += 1
            log.warning("a background loop was cancelled without being stopped", extra={"loop": self.name})


def _is_cancelled() -> bool:
    """The task itself is cancelled, not only a future that its body waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
