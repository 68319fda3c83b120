"""Leases: one key per instance, which the instance rewrites each second as a heartbeat.

A reader sees only whether the revision has changed. How long a lease may stay unchanged, and by which clock,
is decided in `housekeeping`. `silent_sec` is for explanations.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from pyoco_server.config import NatsBackendConfig
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.jetstream.kv import Bucket

# The key of an instance that has ended expires.
LEASE_KEPT = "1h"


_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Two containers of one host have the same boot id, and pids of their own.
_PID_NAMESPACE = Path("/proc/self/ns/pid")


class Lease(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    holder: str
    worker_id: str = ""
    host: str = ""
    boot_id: str = ""
    pid: int = 0
    tags: list[str] = []
    free_slots: int = 0
    # Of a worker: the runs that it has, with their fences. None: an earlier version wrote the lease.
    holds: dict[str, int] | None = None
    # Of the housekeeper: the chores that fail. Another gateway may take over.
    failing: list[str] = []


# A lease that another version or program wrote: only its revision is used.
UNREADABLE = Lease(holder="")


class Leases:
    def __init__(self, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._bucket = Bucket(jetstream, config.leases_kv_bucket)

    async def write(self, key: str, lease: Lease, *, revision: int) -> int:
        """Take or renew. Raises WrongSequence if another process has it."""
        return await self._bucket.put(key, msgspec.json.encode(lease), revision=revision, ttl=LEASE_KEPT)

    async def renew(self, key: str, lease: Lease, *, revision: int) -> int:
        """Renew a key that only this process writes, at any revision."""
        try:
            return await self.write(key, lease, revision=revision)
        except WrongSequence:
            return await self.write(key, lease, revision=(await self.read(key))[1])

    async def read(self, key: str) -> tuple[Lease | None, int]:
        """Through the leader: on a replica that lags, a live worker would look lost."""
        entry = await self._bucket.get_at_leader(key)
        if not entry.value:
            return None, entry.revision
        try:
            return msgspec.json.decode(entry.value, type=Lease), entry.revision
        except msgspec.MsgspecError:
            return UNREADABLE, entry.revision

    async def silent_sec(self, key: str) -> float | None:
        """Seconds since the last renewal, by the broker's clock; None if there is no holder."""
        message = await self._bucket.message(key)
        if message is None or not message.data or message.stored_at is None:
            return None
        return await self._bucket.now() - message.stored_at

    async def release(self, key: str, *, revision: int) -> None:
        await self._bucket.delete(key, revision=revision, ttl=LEASE_KEPT)


def boot_id() -> str:
    """Identifies the boot and the process namespace in which a pid is valid; empty if unknown."""
    try:
        return f"{_BOOT_ID.read_text().strip()} {_PID_NAMESPACE.readlink()}"
    except OSError:
        return ""
