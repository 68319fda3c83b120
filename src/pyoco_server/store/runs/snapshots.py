"""The bucket of the snapshots: created again when it is found missing, for it is only a copy of the log.

An operator may delete it, or a tool may. The process that finds it missing creates it and repeats its
request. That is safe: a request that was refused because nothing was there has not happened. The process
that created it is told, to fill it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pyoco_server.config import NatsBackendConfig
from pyoco_server.jetstream.api import STREAM_NOT_FOUND, JetStream
from pyoco_server.jetstream.errors import BrokerRefused
from pyoco_server.jetstream.kv import Bucket, KvEntry
from pyoco_server.jetstream.requests import NO_RESPONDERS
from pyoco_server.store import resources

log = logging.getLogger(__name__)

T = TypeVar("T")


def may_be_missing(refused: BrokerRefused) -> bool:
    """Nothing answers for the bucket. The answer is the same while JetStream itself is away."""
    return refused.code in (NO_RESPONDERS, STREAM_NOT_FOUND)


class SnapshotBucket(Bucket):
    def __init__(self, jetstream: JetStream, config: NatsBackendConfig, on_made: Callable[[], None]) -> None:
        super().__init__(jetstream, config.runs_kv_bucket)
        self._config = config
        self._on_made = on_made
        self._making: asyncio.Task[None] | None = None

    async def get(self, key: str) -> KvEntry:
        return await self._there(lambda: super(SnapshotBucket, self).get(key))

    async def get_at_leader(self, key: str) -> KvEntry:
        return await self._there(lambda: super(SnapshotBucket, self).get_at_leader(key))

    async def put(self, key: str, value: bytes, *, revision: int | None = None, ttl: str = "") -> int:
        put = super().put
        return await self._there(lambda: put(key, value, revision=revision, ttl=ttl))

    async def delete(self, key: str, *, revision: int | None = None, ttl: str = "") -> int:
        """Followers of the bucket see the deletion. Then nothing is left, so the key is at no revision."""
        mark = await self._there(lambda: super(SnapshotBucket, self).delete(key, revision=revision, ttl=ttl))
        await self.remove(key, upto=mark)
        return 0

    async def _there(self, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            return await ask()
        except BrokerRefused as refused:
            if not may_be_missing(refused):
                raise
        await self._make()
        return await ask()

    async def _make(self) -> None:
        """Once for all waiters. Raises Unavailable while the broker does not know whether it exists."""
        if self._making is None or self._making.done():
            self._making = asyncio.get_running_loop().create_task(self._make_if_missing())
            self._making.add_done_callback(_retrieve_exception)
        await asyncio.shield(self._making)

    async def _make_if_missing(self) -> None:
        if await resources.ensure_snapshots(self._jetstream, self._config):
            log.warning("the bucket of the snapshots was missing", extra={"stream": self.stream})
            self._on_made()


def _retrieve_exception(making: asyncio.Task[None]) -> None:
    """All waiters may have been cancelled, and asyncio logs errors that were never retrieved."""
    if not making.cancelled():
        making.exception()
