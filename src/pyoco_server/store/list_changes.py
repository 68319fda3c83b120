"""Detect changes of lists: follow their streams without payloads.

The broker sends a message after it has stored it, so readers of the list find it. After a reconnect all lists
count as changed, because messages may have been missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pyoco_server.config import NatsBackendConfig
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.client import BrokerClient
from pyoco_server.jetstream.ordered_consumer import OrderedConsumer
from pyoco_server.supervision import Loop

OnChange = Callable[[str], None]

# Streams that are part of another list than the one of their name.
_LIST_OF = {"dismissals": "dead_letters"}


class StreamChanges:
    def __init__(
        self, client: BrokerClient, jetstream: JetStream, config: NatsBackendConfig, on_change: OnChange
    ) -> None:
        self._jetstream = jetstream
        self._on_change = on_change
        self._streams = {
            "dead_letters": config.dlq_stream,
            "dismissals": f"KV_{config.dismissals_kv_bucket}",
            "schedules": f"KV_{config.schedules_kv_bucket}",
            "wheels": f"KV_{config.wheel_history_kv_bucket}",
        }
        self._feeds = {
            name: OrderedConsumer(client, jetstream, stream, "", self._handler_of(name), headers_only=True)
            for name, stream in self._streams.items()
        }
        self._reconnects = Loop("changes of lists after a reconnect", self._move_to_the_ends)

    async def start(self) -> None:
        ends = await self._ends()  # before the first start: a failed start must leave nothing running
        for name, feed in self._feeds.items():
            feed.start(ends[name])
        self._reconnects.start()

    async def stop(self) -> None:
        await self._reconnects.stop()
        await asyncio.gather(*(feed.stop() for feed in self._feeds.values()))

    def handle_reconnect(self) -> None:
        """The broker may have returned with other streams: read their ends again."""
        self._reconnects.wake()

    def why_not(self) -> str | None:
        silent = [name for name, feed in self._feeds.items() if not feed.is_receiving]
        return f"changes are not being followed: {', '.join(silent)}" if silent else None

    async def _ends(self) -> dict[str, int]:
        ends = await asyncio.gather(*map(self._jetstream.last_seq, self._streams.values()))
        return dict(zip(self._streams, ends, strict=True))

    async def _move_to_the_ends(self) -> None:
        ends = await self._ends()
        for name, feed in self._feeds.items():
            feed.continue_after(ends[name])
            self._on_change(_LIST_OF.get(name, name))

    def _handler_of(self, name: str) -> Callable[[str, int, bytes, bytes], None]:
        changed = _LIST_OF.get(name, name)
        return lambda _subject, _seq, _headers, _data: self._on_change(changed)
