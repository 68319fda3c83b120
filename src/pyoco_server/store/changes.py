"""Which lists have changed: their streams, followed without what is written to them.

Heard from the broker when a message is stored, so whoever reads the list then finds it there. A connection
that was lost may have missed something: all of them count as changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.store.client import BrokerClient
from pyoco_server.store.feed import Feed
from pyoco_server.store.jetstream import JetStream

log = logging.getLogger(__name__)

OnChange = Callable[[str], None]


class Changes:
    def __init__(
        self, client: BrokerClient, jetstream: JetStream, config: NatsBackendConfig, on_change: OnChange
    ) -> None:
        self._jetstream = jetstream
        self._on_change = on_change
        self._streams = {
            "dead_letters": config.dlq_stream,
            "schedules": f"KV_{config.schedules_kv_bucket}",
            "wheels": f"KV_{config.wheel_history_kv_bucket}",
        }
        self._feeds = {
            name: Feed(client, jetstream, stream, "", self._heard(name), headers_only=True)
            for name, stream in self._streams.items()
        }
        self._moving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        for name, feed in self._feeds.items():
            feed.start(await self._jetstream.last_seq(self._streams[name]))

    async def stop(self) -> None:
        if self._moving is not None:
            self._moving.cancel()
        await asyncio.gather(*(feed.stop() for feed in self._feeds.values()))

    def reconnected(self) -> None:
        """Perhaps to a broker whose streams were made anew: their ends are looked for again."""
        self._moving = asyncio.get_running_loop().create_task(self._move_to_the_ends())

    async def _move_to_the_ends(self) -> None:
        try:
            for name, feed in self._feeds.items():
                feed.position = await self._jetstream.last_seq(self._streams[name])
                feed.reconnected()
                self._on_change(name)
        except Unavailable as error:
            log.debug("lists cannot be followed yet", extra={"error": str(error)})

    def _heard(self, name: str) -> Callable[[str, int, bytes, bytes], None]:
        return lambda _subject, _seq, _headers, _data: self._on_change(name)
