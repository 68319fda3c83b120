"""Watches the free storage of the broker, and refuses new work when only a reserve is left.

Erasing, cancels and the ends of runs need writes too, so on a full disk nothing could free space. New work is
refused below PYOCO_DISK_RESERVE_BYTES and accepted again when there is more space.

The disk is watched if the broker is embedded. For every broker the limits of the account and of the streams
that every run needs are watched, if there are limits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import NamedTuple

from pyoco_server.broker import Disk, EmbeddedBroker
from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.descriptions import AccountInfo, StreamInfo
from pyoco_server.store.store import Store
from pyoco_server.supervision import Loop

log = logging.getLogger(__name__)

LOOK_EVERY_SEC = 1.0
ASK_EVERY_SEC = 5.0
# The reserve is at most this part (one fourth) of the disk or of the limit.
RESERVE_SHARE = 4
# New work is accepted again above this multiple of the reserve, so that the state does not flap.
RESUME_SHARE = 1.25
MIB = 2**20


class Left(NamedTuple):
    """The free space somewhere, and the reserve that is kept there."""

    where: str
    free_bytes: int
    reserve_bytes: int

    def is_low(self, *, was_low: bool) -> bool:
        return self.free_bytes < self.reserve_bytes * (RESUME_SHARE if was_low else 1.0)


class StorageWatch:
    def __init__(self, store: Store, broker: EmbeddedBroker | None) -> None:
        self._store = store
        self._broker = broker
        self._reserve_bytes = store.config.disk_reserve_bytes
        self._limits: list[Left] = []
        self._asked_at = float("-inf")
        self._lowest: Left | None = None
        self._loop = Loop("watch of the storage", self._look, interval_sec=LOOK_EVERY_SEC)
        self.used_bytes: int | None = None

    async def start(self) -> None:
        """The state is read once before the first request."""
        with contextlib.suppress(Unavailable):
            await self._look()
        self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()

    @property
    def disk(self) -> Disk | None:
        return None if self._broker is None else self._broker.disk

    @property
    def is_low(self) -> bool:
        return self._store.room.is_low

    def why_not(self) -> str | None:
        lowest = self._lowest
        if lowest is not None:
            return (
                f"new runs are refused: {lowest.where} has {_mib(lowest.free_bytes)} left, and "
                f"{_mib(lowest.reserve_bytes)} are kept for runs under way and for erasing"
            )
        if self._store.room.is_low:
            return "new runs are refused: the broker is running out of storage"
        return None

    async def _look(self) -> None:
        """The disk first: it can be read while the broker is away, too."""
        known = [*self._disk_left(), *self._limits]
        try:
            if asyncio.get_running_loop().time() - self._asked_at >= ASK_EVERY_SEC:
                self._limits = await self._ask()
                self._asked_at = asyncio.get_running_loop().time()
                known = [*self._disk_left(), *self._limits]
        finally:
            self._judge(known)

    def _judge(self, known: list[Left]) -> None:
        was_low = self._lowest is not None
        low = [left for left in known if left.is_low(was_low=was_low)]
        self._lowest = min(low, key=lambda left: left.free_bytes, default=None)
        if was_low != bool(low):
            fields = {left.where: left.free_bytes for left in known}
            if low:
                log.warning("the broker runs out of storage; new work is refused", extra={"free": fields})
            else:
                log.warning("the broker has storage again; new work is accepted", extra={"free": fields})
        self._store.room.report(is_low=bool(low))

    def _disk_left(self) -> list[Left]:
        disk = self.disk
        if disk is None:
            return []
        return [self._left("the broker's disk", disk.free_bytes, disk.total_bytes)]

    async def _ask(self) -> list[Left]:
        config, jetstream = self._store.config, self._store.jetstream
        needed = (config.events_stream, config.work_stream, f"KV_{config.runs_kv_bucket}")
        account, streams = await asyncio.gather(
            jetstream.account_info(), asyncio.gather(*(jetstream.stream_info(name) for name in needed))
        )
        self.used_bytes = account.storage
        of_streams = (self._stream_left(name, info) for name, info in zip(needed, streams, strict=True))
        return [*self._account_left(self.used_bytes, account), *(left for left in of_streams if left)]

    def _account_left(self, used_bytes: int, account: AccountInfo) -> list[Left]:
        most = account.limits.max_storage if account.limits else -1
        if most > 0:
            return [self._left("the account at the broker", most - used_bytes, most)]
        disk = self.disk
        # The limit of the embedded broker is the size of its disk, compared with uncompressed bytes.
        return (
            [] if disk is None else [self._left("its store", disk.total_bytes - used_bytes, disk.total_bytes)]
        )

    def _stream_left(self, name: str, info: StreamInfo) -> Left | None:
        most = info.config.get("max_bytes", -1)
        return self._left(f"stream {name}", most - info.state.bytes, most) if most > 0 else None

    def _left(self, where: str, free_bytes: int, total_bytes: int) -> Left:
        return Left(where, max(0, free_bytes), min(self._reserve_bytes, total_bytes // RESERVE_SHARE))


def _mib(size: int) -> str:
    return f"{size / MIB:.0f} MiB"
