"""Notices at once when a worker's process on this machine has ended. Takes no runs.

The kernel reports the end of a process on its file descriptor (pidfd, Linux). The descriptor names the
process itself: a later process with the same id is another one, and a process that is only stopped has not
ended. Where there are no such descriptors, a process is looked up by its id whenever that is asked.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable

from pyoco_server.operations.bounded_dict import put_bounded
from pyoco_server.store.fleet.leases import Lease, boot_id

ENDED_MAX = 1_000


class LocalProcesses:
    """By the instance of a worker. An instance is one process, so its end is final."""

    def __init__(self, on_end: Callable[[], None] = lambda: None) -> None:
        self._on_end = on_end
        self._descriptors: dict[str, int] = {}
        self._ended: dict[str, None] = {}

    def on_end(self, act: Callable[[], None]) -> None:
        self._on_end = act

    @property
    def ended(self) -> list[str]:
        return list(self._ended)

    def knows(self, instance: str) -> bool:
        return instance in self._descriptors or instance in self._ended

    def has_ended(self, instance: str, lease: Lease | None) -> bool:
        """Whether its process is certainly gone. False for processes of other machines and containers."""
        if instance in self._ended:
            return True
        if lease is None or not is_local(lease):
            return False
        self.watch(instance, lease)
        return instance in self._ended

    def watch(self, instance: str, lease: Lease) -> None:
        """Callable twice. A process of another machine or container is not watched."""
        if self.knows(instance) or not is_local(lease):
            return
        try:
            descriptor = _open(lease.pid)
        except ProcessLookupError:
            put_bounded(self._ended, instance, None, ENDED_MAX)
            return
        except OSError:  # not supported, or too many open files: the lease decides
            return
        if descriptor is not None:
            self._descriptors[instance] = descriptor
            asyncio.get_running_loop().add_reader(descriptor, self._note_end, instance)

    def close(self) -> None:
        """Callable twice."""
        for instance in tuple(self._descriptors):
            self._forget(instance)

    def _note_end(self, instance: str) -> None:
        self._forget(instance)
        put_bounded(self._ended, instance, None, ENDED_MAX)
        self._on_end()

    def _forget(self, instance: str) -> None:
        descriptor = self._descriptors.pop(instance)
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)


def is_local(lease: Lease) -> bool:
    """Whether its process id is valid here: same machine since its last start, and same process namespace."""
    return lease.host == socket.gethostname() and bool(lease.boot_id) and lease.boot_id == boot_id()


def _open(pid: int) -> int | None:
    """None where there are no such descriptors. Raises ProcessLookupError if the process is gone."""
    if hasattr(os, "pidfd_open"):
        return os.pidfd_open(pid)
    os.kill(pid, 0)
    return None
