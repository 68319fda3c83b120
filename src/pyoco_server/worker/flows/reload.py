"""`pyoco-worker --reload`: watch an author's files and let the slots load them again. For development.

Files are checked once a second, by time and size. A library for file events would be half a second faster.
But a folder of flows is small, no further package is needed, and polling also works on network and container
mounts, where the kernel reports no changes. Nothing is imported here: only slots load user code.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from importlib.machinery import PathFinder
from importlib.util import cache_from_source
from pathlib import Path

from pyoco_server.supervision import Loop
from pyoco_server.worker.slots.edition import ResolverBroken, SlotDied

log = logging.getLogger(__name__)

LOOK_EVERY_SEC = 1.0
# Editors write in several steps: changes are loaded when the files no longer change.
SETTLE_SEC = 0.1
# A process that is being started and is not ready by then ends with the worker.
STOP_WITHIN_SEC = 2.0
FILES_MAX = 5_000
FILES_NAMED_MAX = 10

WATCHED = (".py", ".yaml", ".yml")
SKIPPED = ("__pycache__", "node_modules")
VENV_MARK = "pyvenv.cfg"

Files = dict[Path, tuple[int, int]]
Renew = Callable[[], Awaitable[None]]


class Reload:
    """Reads the files when it is made: make it before the flows are loaded, and start it afterwards."""

    def __init__(self, spec: str) -> None:
        self._folder = folder_of(spec)
        self._loaded = files_below(self._folder)
        self._renew: Renew = _nothing_to_renew
        self._watching = Loop(
            "reload of flows", self._load_changes, interval_sec=LOOK_EVERY_SEC, waits_first=True
        )

    def start(self, renew: Renew) -> None:
        log.info("watching for changes", extra={"folder": str(self._folder), "files": len(self._loaded)})
        self._renew = renew
        self._watching.start()

    async def stop(self) -> None:
        """Waits a moment for a process that is just being started. Callable twice, and before start."""
        await self._watching.stop(STOP_WITHIN_SEC)

    async def _load_changes(self) -> None:
        found = await self._scan()
        if found == self._loaded:
            return
        found = await self._wait_until_settled(found)
        changed = _differing(self._loaded, found)
        self._loaded = found  # also if it cannot be loaded: the next change may repair it
        await _load(self._renew, changed, self._folder)

    async def _wait_until_settled(self, found: Files) -> Files:
        while not self._watching.is_stopping:
            await self._watching.pause_until_stopped(SETTLE_SEC)
            before, found = found, await self._scan()
            if before == found:
                break
        return found

    async def _scan(self) -> Files:
        return await asyncio.to_thread(files_below, self._folder)


async def _nothing_to_renew() -> None:
    return


def folder_of(spec: str) -> Path:
    """The folder of a resolver's code: that of its file, or of the top-level package of its module."""
    place = spec.strip().rpartition(":")[0]
    if place.endswith(".py") or os.sep in place:
        return Path(place).resolve().parent
    # As in slots: the folder in which the worker was started comes first.
    found = PathFinder.find_spec(place.partition(".")[0], [str(Path.cwd()), *sys.path])
    if found is None:
        return Path.cwd()
    if found.submodule_search_locations:
        return Path(next(iter(found.submodule_search_locations))).resolve()
    return Path(found.origin).resolve().parent if found.origin else Path.cwd()


def files_below(folder: Path) -> Files:
    """The watched files with time and size, up to FILES_MAX."""
    found: Files = {}
    for path in _watched(folder):
        if len(found) >= FILES_MAX:
            log.warning("too many files to watch", extra={"folder": str(folder), "files_max": FILES_MAX})
            break
        with contextlib.suppress(OSError):  # removed since it was listed
            stat = path.stat()
            found[path] = (stat.st_mtime_ns, stat.st_size)
    return found


def _watched(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not _is_skipped(Path(parent, name)))
        yield from (Path(parent, name) for name in sorted(files) if name.endswith(WATCHED))


def _is_skipped(folder: Path) -> bool:
    return folder.name.startswith(".") or folder.name in SKIPPED or (folder / VENV_MARK).exists()


def _differing(before: Files, now: Files) -> list[Path]:
    return sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))


async def _load(renew: Renew, changed: list[Path], folder: Path) -> None:
    names = [str(path.relative_to(folder)) for path in changed[:FILES_NAMED_MAX]]
    await asyncio.to_thread(_forget_compiled, changed)
    try:
        await renew()
    except (ResolverBroken, SlotDied, TimeoutError, OSError) as error:
        fields = {"files": names, "error": str(error) or type(error).__name__}
        log.error("changed flows cannot be loaded; those of before stay in use", extra=fields)
    else:
        log.info("changed flows are loaded", extra={"files": names})


def _forget_compiled(changed: list[Path]) -> None:
    """Python compares second and size of a file: a quick edit of equal length would not be noticed."""
    for path in changed:
        if path.suffix == ".py":
            with contextlib.suppress(OSError):
                Path(cache_from_source(str(path))).unlink()
