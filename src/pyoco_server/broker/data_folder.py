"""A data folder: locked by its owner, and with a record of where its broker listens. Not the store below it.

The lock is a flock on the file `lock`, which also names the owner. The nats-server inherits the open file, so
the folder stays locked until both its owner and its server have ended: a new owner cannot start beside the
server of an owner that was just killed.
"""

import asyncio
import fcntl
import json
import os
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from pyoco_server.broker.errors import DataFolderInUse
from pyoco_server.broker.small_files import now, read_json, write_atomically

RECORD_NAME = "broker.json"
LOCK_NAME = "lock"
STEP_SEC = 0.005
# `is_locked` of another process holds the lock for microseconds.
PATIENCE_SEC = 0.1
# The server of an owner that was killed needs some time to end.
ORPHAN_PATIENCE_SEC = 5.0


class DataFolder:
    """A folder that this process owns until `release`."""

    def __init__(self, path: Path, lock_fd: int) -> None:
        self.path = path
        self.lock_fd = lock_fd

    @classmethod
    async def claim(cls, path: Path) -> Self:
        """Create the folder if it is missing, and lock it. Raises DataFolderInUse with the owner."""
        _create(path)
        return cls(path, await _lock_folder(path))

    def record(self, facts: Mapping[str, str | int]) -> None:
        """Store the address of the broker, for commands that look for it."""
        write_atomically(self.path / RECORD_NAME, json.dumps(dict(facts)) + "\n")

    def forget(self) -> None:
        (self.path / RECORD_NAME).unlink(missing_ok=True)

    def release(self) -> None:
        # An explicit unlock: after a close alone, a forked child with the open file would keep the lock.
        # The file stays: after a removal two processes could lock two different files.
        fcntl.flock(self.lock_fd, fcntl.LOCK_UN)
        os.close(self.lock_fd)


def recorded_broker_url(data_dir: Path) -> str | None:
    """Where the broker of this folder listens; None without a record, or if its broker is gone.

    The lock shows whether it runs: unlike the process id in the record, it cannot match another process
    after a reboot.
    """
    url = read_json(data_dir / RECORD_NAME).get("url")
    return url if isinstance(url, str) and _is_locked(data_dir) else None


def _create(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)  # it will hold the data of runs


async def _lock_folder(path: Path) -> int:
    """The open, locked file. Raises DataFolderInUse with the owner."""
    lock_fd = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    with ExitStack() as undo:
        undo.callback(os.close, lock_fd)  # also after a cancel: no other code has this descriptor
        await _wait_for_lock(path, lock_fd)
        _write_owner(lock_fd)
        undo.pop_all()
    return lock_fd


def _is_locked(path: Path) -> bool:
    try:
        lock_fd = os.open(path / LOCK_NAME, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _try_lock(lock_fd, fcntl.LOCK_SH)
    finally:
        os.close(lock_fd)


async def _wait_for_lock(path: Path, lock_fd: int) -> None:
    begun = time.monotonic()
    while not _try_lock(lock_fd, fcntl.LOCK_EX):
        owner = read_json(path / LOCK_NAME)
        patience_sec = PATIENCE_SEC if _may_live(owner) else ORPHAN_PATIENCE_SEC
        if time.monotonic() - begun > patience_sec:
            raise DataFolderInUse(_in_use(path, owner))
        await asyncio.sleep(STEP_SEC)


def _try_lock(lock_fd: int, kind: int) -> bool:
    try:
        fcntl.flock(lock_fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_owner(lock_fd: int) -> None:
    owner = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "started_at": now(),
        "command": Path(sys.argv[0]).name,  # without arguments: they may contain credentials
    }
    os.ftruncate(lock_fd, 0)
    os.pwrite(lock_fd, json.dumps(owner).encode(), 0)


def _may_live(owner: Mapping[str, object]) -> bool:
    """False only if the owner is gone. The owner of another host, or of an unreadable file, may live."""
    pid = owner.get("pid")
    if not isinstance(pid, int) or owner.get("host") != socket.gethostname():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _in_use(path: Path, owner: Mapping[str, object]) -> str:
    pid, command, host, since = (owner.get(k, "unknown") for k in ("pid", "command", "host", "started_at"))
    if _may_live(owner):
        return (
            f"The data folder {path} is in use by pid {pid} ({command} on {host}) since {since}: "
            f"use that one, stop it first, or choose another data folder."
        )
    return (
        f"The data folder {path} belonged to pid {pid} ({command} on {host}) since {since}, which is gone, "
        f"but a nats-server it started still has it: end that process, then start again."
    )
