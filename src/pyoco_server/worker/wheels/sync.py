"""Keep the wheels of a worker equal to the registry (REQ-0026): list, install new ones, change the edition.

At the start and between two polls, once per interval. If a wheel cannot be installed, the next older
one of its package is used, and it is retried with a growing interval. If the broker is away, or the flows
cannot be loaded with the new edition, the edition in use stays.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from packaging.tags import Tag, sys_tags

from pyoco_server.errors import ConfigError, Internal, NotFound, Unavailable
from pyoco_server.store.fleet.wheels import Wheel, for_tags
from pyoco_server.store.store import Store
from pyoco_server.supervision import capture_error, count_failure
from pyoco_server.worker.performer import NotNow, Performer
from pyoco_server.worker.slots.edition import ResolverBroken, SlotDied
from pyoco_server.worker.wheels.folder import WheelFolder
from pyoco_server.worker.wheels.install import WheelBroken, install
from pyoco_server.worker.wheels.report import SyncReport

log = logging.getLogger(__name__)

SYNC_FAILED = {"err_id": "ERR-PYOCO-0024", "msg_id": "MSG-PYOCO-0024"}
BROKER_AWAY = {"err_id": "ERR-PYOCO-0003", "msg_id": "MSG-PYOCO-0003"}
START_PAUSE_SEC = 1.0
SHORTEST_POLL_SEC = 0.05
NOT_NOW_PAUSE_SEC = 0.2
RETRY_LONGEST_SEC = 600.0


class WheelSync:
    def __init__(
        self,
        store: Store,
        performer: Performer,
        worker_id: str,
        tags: Sequence[str],
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._performer = performer
        self._who = {"worker_id": worker_id}
        self._worker_id = worker_id
        self._tags = tags
        self._on_change = on_change
        self._config = store.config
        self._enabled = store.config.wheel_sync_enabled
        self._supported = frozenset(sys_tags()) if self._enabled else frozenset()
        self._report = SyncReport(self._enabled)
        self._folder: WheelFolder | None = None
        self._editions: list[tuple[Path, list[Wheel]]] = []  # the last two; the last is in use
        self._retries = RetrySchedule(self._config.wheel_sync_interval_sec)
        self._edition_retries = RetrySchedule(self._config.wheel_sync_interval_sec)
        self._syncing = asyncio.Lock()
        self._due_at = 0.0

    def described(self) -> dict[str, Any]:
        """The member `wheel_sync` of the worker's registry entry."""
        return self._report.described()

    async def first_edition(self) -> Path | None:
        """The edition to start with; None if wheels are not synchronised.

        Waits for the broker: flows that need a wheel cannot be loaded without it.
        """
        if not self._enabled:
            return None
        self._folder = await asyncio.to_thread(self._open_folder)
        while True:
            wheels = await self._choose_and_install()
            if wheels is not None:
                path = await asyncio.to_thread(self._folder.edition, wheels)
                await self._note_edition(path, wheels)
                return path
            await asyncio.sleep(min(START_PAUSE_SEC, self._config.wheel_sync_interval_sec))

    async def keep_up(self) -> None:
        """Synchronise if the interval has passed. Called when a slot has no run."""
        if not self._enabled or self._syncing.locked() or asyncio.get_running_loop().time() < self._due_at:
            return
        async with self._syncing:
            # After a defect the worker continues with the wheels it has.
            with capture_error() as step:
                wheels = await self._choose_and_install()
                if wheels is not None and _nuids(wheels) != _nuids(self._editions[-1][1]):
                    await self._change_to(wheels)
            if step.error is not None:
                count_failure("wheel sync")
                self._report.end(error=repr(step.error))
                fields = self._who | SYNC_FAILED | {"reason": repr(step.error)}
                log.error("wheels not synchronised", exc_info=step.error, extra=fields)
        self._on_change()

    def poll_sec(self, longest_sec: float) -> float:
        """How long a slot may wait for a job before the next `keep_up`."""
        if not self._enabled or self._syncing.locked():
            return longest_sec
        left_sec = self._due_at - asyncio.get_running_loop().time()
        return min(max(left_sec, SHORTEST_POLL_SEC), longest_sec)

    def close(self) -> None:
        self._enabled = False
        if self._folder is not None:
            self._folder.close()

    def _open_folder(self) -> WheelFolder:
        sync_dir = self._config.wheel_sync_dir
        try:
            return WheelFolder.open(Path(sync_dir), self._worker_id)
        except OSError as error:
            raise ConfigError(
                f"PYOCO_WHEEL_SYNC_DIR names {sync_dir!r}, which cannot be used ({error}); name another."
            ) from error

    async def _choose_and_install(self) -> list[Wheel] | None:
        """The chosen wheels, all of them installed; None if the broker is away."""
        self._due_at = asyncio.get_running_loop().time() + self._config.wheel_sync_interval_sec
        self._report.begin()
        try:
            choice = choose(await self._store.wheels.list(), self._tags, self._supported)
            wheels = await self._install_choice(choice)
        except Unavailable as error:
            fields = self._who | BROKER_AWAY | {"reason": error.message}
            log.error("wheels not synchronised", exc_info=error, extra=fields)
            self._report.end(error=error.public_message)
            return None
        self._report.selected, self._report.misfits = choice.newest, choice.misfits
        self._report.updated = self._report.removed = ()
        self._report.end(error=self._retries.reasons(*(wheel.nuid for wheel in choice.newest)))
        return wheels

    async def _install_choice(self, choice: Choice) -> list[Wheel]:
        self._retries.forget_others({wheel.nuid for wheels in choice.packages for wheel in wheels})
        found = []
        for wheels in choice.packages:
            for wheel in wheels:
                if await self._ensure_installed(wheel):
                    found.append(wheel)
                    break
        return found

    async def _ensure_installed(self, wheel: Wheel) -> bool:
        assert self._folder is not None
        if self._folder.has(wheel):
            return True
        if self._retries.must_wait(wheel.nuid):
            return False
        try:
            await self._install(wheel)
        except NotFound:  # deleted since it was listed
            return False
        except (WheelBroken, Internal, OSError) as error:
            self._retries.note_failure(wheel.nuid, f"{wheel.name}: {error}")
            fields = {"wheel_name": wheel.name, "nuid": wheel.nuid, "reason": str(error)}
            log.error("wheel not installed", exc_info=error, extra=self._who | SYNC_FAILED | fields)
            return False
        self._retries.note_success(wheel.nuid)
        return True

    async def _install(self, wheel: Wheel) -> None:
        assert self._folder is not None
        place = await asyncio.to_thread(self._folder.new_place)
        try:
            file, tree = place / wheel.name, place / "tree"
            await self._store.wheels.download(wheel, file)
            at_most = self._store.wheels.unpacked_max
            await install(file, tree, at_most, timeout_sec=self._config.wheel_install_timeout_sec)
            await asyncio.to_thread(self._folder.keep, wheel, tree)
        finally:
            await asyncio.to_thread(self._folder.clear, place)
        log.info("wheel installed", extra=self._who | {"wheel_name": wheel.name, "nuid": wheel.nuid})

    async def _change_to(self, wheels: list[Wheel]) -> None:
        """Load the new edition. If it cannot be loaded, the old one stays in use."""
        assert self._folder is not None
        key, retries = ",".join(sorted(_nuids(wheels))), self._edition_retries
        retries.forget_others({key})
        if retries.must_wait(key):
            self._report.end(error=retries.reasons(key))
            return
        try:
            path = await asyncio.to_thread(self._folder.edition, wheels)
            await self._performer.renew(path)
        except NotNow:
            self._due_at = asyncio.get_running_loop().time() + NOT_NOW_PAUSE_SEC
        except (ResolverBroken, SlotDied, TimeoutError, OSError) as error:
            reason = f"the flows cannot be loaded with the new wheels: {error}"
            retries.note_failure(key, reason)
            self._report.end(error=reason)
            fields = self._who | SYNC_FAILED | {"reason": reason}
            log.error("the wheels in use stay in use", exc_info=error, extra=fields)
        else:
            retries.note_success(key)
            await self._note_edition(path, wheels)

    async def _note_edition(self, path: Path, wheels: list[Wheel]) -> None:
        assert self._folder is not None
        before = self._editions[-1][1] if self._editions else []
        known, wanted = _nuids(before), _nuids(wheels)
        self._report.updated = [wheel for wheel in wheels if wheel.nuid not in known]
        self._report.removed = [wheel for wheel in before if wheel.nuid not in wanted]
        self._report.note_installed(wheels)
        self._editions = [*self._editions[-1:], (path, wheels)]
        log.info("wheels in use", extra=self._who | {"wheels": [wheel.name for wheel in wheels]})
        await asyncio.to_thread(
            self._folder.sweep,
            editions={*(path for path, _ in self._editions), *self._performer.paths_in_use},
            wheels=[wheel for _, edition in self._editions for wheel in edition],
        )


def _nuids(wheels: Sequence[Wheel]) -> set[str]:
    return {wheel.nuid for wheel in wheels}


class Choice(NamedTuple):
    """All matching wheels of each package, the newest first: an older one is used if that one fails."""

    packages: list[list[Wheel]]
    misfits: list[Wheel]  # with our tags, but for another interpreter or platform

    @property
    def newest(self) -> list[Wheel]:
        return [wheels[0] for wheels in self.packages]


def choose(wheels: Iterable[Wheel], tags: Iterable[str], supported: Iterable[Tag]) -> Choice:
    ours = sorted(for_tags(wheels, tags), key=lambda wheel: wheel.age, reverse=True)
    here = frozenset(supported)
    packages: dict[str, list[Wheel]] = {}
    misfits = []
    for wheel in ours:
        if here.isdisjoint(wheel.fits):
            misfits.append(wheel)
        else:
            packages.setdefault(wheel.package, []).append(wheel)
    return Choice([packages[name] for name in sorted(packages)], misfits)


@dataclass(slots=True)
class _Failure:
    times: int
    retry_at: float
    reason: str


class RetrySchedule:
    """What has failed and when to retry it: with a growing interval, up to a limit."""

    def __init__(self, first_sec: float) -> None:
        self._first_sec = first_sec
        self._failures: dict[str, _Failure] = {}

    def note_failure(self, what: str, reason: str) -> None:
        before = self._failures.get(what)
        times = before.times + 1 if before else 1
        # The next sync comes after the first interval: after the first failure one is skipped.
        pause_sec = min(self._first_sec * 2.0 ** min(times, 16), max(RETRY_LONGEST_SEC, self._first_sec))
        self._failures[what] = _Failure(times, time.monotonic() + pause_sec, reason)

    def must_wait(self, what: str) -> bool:
        failure = self._failures.get(what)
        return failure is not None and time.monotonic() < failure.retry_at

    def reasons(self, *what: str) -> str | None:
        """Why these have failed; None if they have not."""
        return "; ".join(self._failures[one].reason for one in what if one in self._failures) or None

    def note_success(self, what: str) -> None:
        self._failures.pop(what, None)

    def forget_others(self, known: Collection[str]) -> None:
        self._failures = {what: failure for what, failure in self._failures.items() if what in known}
