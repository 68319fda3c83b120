"""A list of services: started in order, each with retries, none twice; stopped in reverse order.

A start that fails is repeated with a backoff, and `reasons` reports the error. A start that fails with
`ConfigError` needs a change of the settings: it is logged as an error and repeated slowly.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from pyoco_server.errors import ConfigError, PyocoError
from pyoco_server.supervision.backoff import Backoff
from pyoco_server.supervision.loop import start_task, wait_for_event
from pyoco_server.supervision.steps import capture_error, contain, count_failure

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
    """`start` may be called again after it raised: it must not leave a part of the service running.

    `stop` may be called before `start`. `why_not` is called while the service runs: one sentence about what
    does not work, or None.
    """

    name: str
    start: Callable[[], Awaitable[None]] = _noop
    stop: Callable[[], Awaitable[None]] = _noop
    handle_reconnect: Callable[[], None] | None = None
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
            self._task = start_task(self._start_all(), "start of services")

    async def start_or_raise(self, is_passing: Callable[[Exception], bool]) -> None:
        """Start all and wait for it. A start is repeated after an error that `is_passing`; any other error is
        raised, and everything is stopped, also after a cancel."""
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.stop)
            for service in self.services:
                await self._start_one(service, is_passing)
            undo.pop_all()

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

    def handle_reconnect(self) -> None:
        """Notify every service that was started. An error of one does not affect the others."""
        for service in tuple(self._started):
            if service.handle_reconnect is None:
                continue
            name = service.name
            with contain(f"reconnect of {name}", "a service failed to handle the reconnect", service=name):
                service.handle_reconnect()

    async def stop(self) -> None:
        """Stop all services, also those that never started: they may hold files. Callable twice."""
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
            with capture_error() as start:
                await service.start()
            if start.error is None:
                self._started.append(service)
                self._failing = None
                return
            if not is_passing(start.error):
                raise start.error
            failures += 1
            await self._wait_after(service, start.error, failures)

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
            log.error("a service failed to start", exc_info=error, extra=fields)
        self._failing = message
        count_failure(f"start of {service.name}")
        wait_sec = CONFIG_RETRY_SEC if isinstance(error, ConfigError) else START_BACKOFF.after(failures)
        await wait_for_event(self._stopping, wait_sec)

    async def _stop_one(self, service: Service) -> None:
        with contain(f"stop of {service.name}", "a service failed to stop", service=service.name):
            try:
                async with asyncio.timeout(STOP_WITHIN_SEC):
                    await service.stop()
            except TimeoutError:
                log.warning("a service did not stop in time", extra={"service": service.name})
