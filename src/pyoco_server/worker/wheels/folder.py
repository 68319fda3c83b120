"""A worker's folder of wheels: each installed once, and editions made of them.

    <sync dir>/<worker id>/lock             held for as long as the worker lives
                           wheels/<nuid>/   one wheel, installed; kept over a restart
                           editions/<key>/  on the import path of slots: links to the files of its wheels;
                                            those of a tenant below @tenants, for its own runs only
                           tmp/             folders that are not complete yet

A folder with its final name is complete: it was made in `tmp` and renamed. Workers share no folder: if the
folder of its id is locked (the same id twice on a machine), a worker uses `<worker id>.2`. All functions
block, so they are called in threads.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import logging
import os
import secrets
import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from pyoco_server.store.fleet.wheels import Wheel

log = logging.getLogger(__name__)

SAME_ID_MAX = 100
# Of a worker that is gone. It may return, but a worker named after a process id never will.
ABANDONED_AFTER_SEC = 7 * 24 * 3600.0
TENANTS = "@tenants"  # not a possible name of a module
NO_LINKS = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EACCES}


class WheelFolder:
    def __init__(self, root: Path, lock_fd: int) -> None:
        self.root = root
        self._lock_fd = lock_fd
        self._wheels = root / "wheels"
        self._editions = root / "editions"
        self._tmp = root / "tmp"
        shutil.rmtree(self._tmp, ignore_errors=True)
        for folder in (self._wheels, self._editions, self._tmp):
            folder.mkdir(exist_ok=True)

    @classmethod
    def open(cls, sync_dir: Path, worker_id: str) -> WheelFolder:
        """Locked until `close`, or until the process ends. Removes folders of workers that are gone."""
        sync_dir = sync_dir.absolute()  # user code may change the working directory
        for number in range(1, SAME_ID_MAX + 1):
            root = sync_dir / (worker_id if number == 1 else f"{worker_id}.{number}")
            root.mkdir(parents=True, exist_ok=True)
            lock_fd = _try_lock(root)
            if lock_fd is not None:
                os.utime(lock_fd)
                _remove_abandoned(sync_dir)
                return cls(root, lock_fd)
        raise OSError(f"{SAME_ID_MAX} workers called {worker_id} have folders in {sync_dir}")

    def close(self) -> None:
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def has(self, wheel: Wheel) -> bool:
        return (self._wheels / wheel.nuid).is_dir()

    def new_place(self) -> Path:
        """A new temporary folder."""
        place = self._tmp / secrets.token_hex(8)
        place.mkdir()
        return place

    def clear(self, place: Path) -> None:
        shutil.rmtree(place, ignore_errors=True)

    def keep(self, wheel: Wheel, installed: Path) -> None:
        for file in _files(installed):
            # Editions share the files: a package that writes into its own folder gets an error.
            file.chmod(file.stat().st_mode & ~0o222)
        installed.rename(self._wheels / wheel.nuid)

    def edition(self, wheels: Sequence[Wheel]) -> Path:
        """The folder of these wheels, made if it does not exist."""
        key = hashlib.sha256("\n".join(sorted(wheel.nuid for wheel in wheels)).encode()).hexdigest()[:16]
        path = self._editions / key
        if path.is_dir():
            return path
        made = self.new_place()
        try:
            for wheel in wheels:
                self._add(wheel, made)
            made.rename(path)
        finally:
            self.clear(made)
        return path

    def sweep(self, *, editions: Collection[Path], wheels: Collection[Wheel]) -> None:
        """Remove all others. Files that an edition links to stay: a file is removed with its last link."""
        kept = {*editions, *(self._wheels / wheel.nuid for wheel in wheels)}
        for folder in [*self._editions.iterdir(), *self._wheels.iterdir()]:
            if folder not in kept:
                place = self._tmp / secrets.token_hex(8)
                with contextlib.suppress(OSError):
                    folder.rename(place)  # an incomplete folder must not have a final name
                self.clear(place)

    def _add(self, wheel: Wheel, edition: Path) -> None:
        installed = self._wheels / wheel.nuid
        root = edition if wheel.tenant_id is None else tenant_place(edition, wheel.tenant_id)
        for file in _files(installed):
            place = root / file.relative_to(installed)
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                _link(file, place)
            except (FileExistsError, NotADirectoryError):
                # Two wheels with the same file, as in namespace packages: the first one stays.
                fields = {"wheel_name": wheel.name, "file": str(file.relative_to(installed))}
                log.debug("a file of a wheel is there already", extra=fields)


def tenant_place(edition: Path, tenant_id: str) -> Path:
    """The folder of a tenant's wheels: its code must not run for other tenants."""
    return edition / TENANTS / hashlib.sha256(tenant_id.encode()).hexdigest()[:16]


def _link(file: Path, place: Path) -> None:
    try:
        place.hardlink_to(file)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        shutil.copy2(file, place)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _try_lock(root: Path) -> int | None:
    """The open file that holds the lock, or None if another process holds it."""
    path = root / "lock"
    try:
        lock_fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except FileNotFoundError:  # the folder was abandoned and is being removed
        return None
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.stat().st_ino == os.fstat(lock_fd).st_ino:
            return lock_fd
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(lock_fd)
    return None


def _remove_abandoned(sync_dir: Path) -> None:
    for root in sync_dir.iterdir():
        lock = root / "lock"
        with contextlib.suppress(OSError):
            if time.time() - lock.stat().st_mtime < ABANDONED_AFTER_SEC:
                continue
            lock_fd = _try_lock(root)
            if lock_fd is not None:
                shutil.rmtree(root, ignore_errors=True)
                os.close(lock_fd)
                log.info("the wheels of a worker long gone were removed", extra={"folder": str(root)})
