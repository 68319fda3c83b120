"""A list of services: started in order, each with retries, none twice; stopped in reverse order.

A start that fails because something is away is repeated with a backoff and said in `why_not_started`. A start
that fails by `ConfigError` cannot get better by itself: it is reported at once, and repeated slowly.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pyoco_server.errors import ConfigError, PyocoError
from pyoco_server.supervision.backoff import Backoff
from pyoco_server.supervision.loop import contain, count_failure

log = logging.getLogger(__name__)

STOP_WITHIN_SEC = 10.0
CONFIG_RETRY_SEC = 5.0
START_BACKOFF = Backoff(first_sec=0.1, longest_sec=2.0)


async def _noop() -> None:
    return


def _never() -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Service:
    """`start` may be called again after it raised: it must not leave half of itself running.

    `stop` may be called before `start`. `why_not` is asked while the service runs: one sentence about what
    does not work, or None.
    """

    name: str
    start: Callable[[], Awaitable[None]] = _noop
    stop: Callable[[], Awaitable[None]] = _noop
    reconnected: Callable[[], None] | None = None
    why_not: Callable[[], str | None] = _never


@dataclass(slots=True)
class Services:
    services: Sequence[Service]
    _started: list[Service] = field(default_factory=list)
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None
    # Why the service that is being started has failed.
    _failing: str | None = None

    def start(self) -> None:
        """In the background; `reasons` shows the progress. Callable twice."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._start_all(), name="start services")
            self._task.add_done_callback(_report_end)

    async def start_or_raise(self, is_passing: Callable[[Exception], bool]) -> None:
        """For an owner that waits for it. A step is repeated after a failure that `is_passing`; any other one
        is raised, and what was started is stopped."""
        try:
            for service in self.services:
                await self._start_one(service, is_passing)
        except BaseException:  # cancelled too: what was started must not be left behind
            await self.stop()
            raise

    @property
    def all_started(self) -> bool:
        return len(self._started) == len(self.services)

    def reasons(self) -> Iterator[str]:
        """What keeps this process from being ready; nothing when all is well."""
        for service in tuple(self._started):
            if (reason := service.why_not()) is not None:
                yield reason
        if not self.all_started:
            name = self.services[len(self._started)].name
            yield f"{name}: {self._failing}" if self._failing else f"{name} is being started"

    def reconnected(self) -> None:
        """One service that cannot react must not keep the others from doing so."""
        for service in tuple(self._started):
            if service.reconnected is None:
                continue
            name = service.name
            with contain(f"reconnect of {name}", "a service failed to handle the reconnect", service=name):
                service.reconnected()

    async def stop(self) -> None:
        """All of them, also what never started: it may hold files. Callable twice."""
        is_first = not self._stopping.is_set()
        self._stopping.set()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=STOP_WITHIN_SEC)
        for service in reversed(self.services) if is_first else ():
            await self._stop_one(service)

    async def _start_all(self) -> None:
        for service in self.services:
            await self._start_one(service)
            if self._stopping.is_set():
                return
        log.debug("all services are started", extra={"services": [one.name for one in self.services]})

    async def _start_one(
        self, service: Service, is_passing: Callable[[Exception], bool] = lambda _: True
    ) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                await service.start()
            except Exception as error:  # supervision: after a defect too the start is retried or reported
                if not is_passing(error):
                    raise
                failures += 1
                await self._wait_after(service, error, failures)
            else:
                self._started.append(service)
                self._failing = None
                return

    async def _wait_after(self, service: Service, error: Exception, failures: int) -> None:
        message = error.public_message if isinstance(error, PyocoError) else type(error).__name__
        inside = error.message if isinstance(error, PyocoError) else message  # for the log alone
        fields = {"service": service.name, "error": inside, "failures": failures}
        if self._failing == message:
            log.debug("a service cannot be started yet", extra=fields)
        elif isinstance(error, ConfigError):
            log.error("a service cannot be started with these settings", exc_info=error, extra=fields)
        elif isinstance(error, PyocoError):
            log.warning("a service cannot be started yet", exc_info=error, extra=fields)
        else:
            log.exception("a service failed to start", extra=fields)
        self._failing = message
        count_failure(f"start of {service.name}")
        wait_sec = CONFIG_RETRY_SEC if isinstance(error, ConfigError) else START_BACKOFF.after(failures)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_sec):
                await self._stopping.wait()

    async def _stop_one(self, service: Service) -> None:
        with contain(f"stop of {service.name}", "a service failed to stop", service=service.name):
            try:
                async with asyncio.timeout(STOP_WITHIN_SEC):
                    await service.stop()
            except TimeoutError:
                log.warning("a service did not stop in time", extra={"service": service.name})


def _report_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("the start of services ended", exc_info=error)
