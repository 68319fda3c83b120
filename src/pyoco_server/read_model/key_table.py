"""The API keys in memory, updated by the broker, so that a look-up needs no request.

A table that may be out of date is not used: `check` raises while it is being filled, while the connection is
lost, and after the broker was silent for too long. A revocation arrives as fast as any other message.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from pyoco_server.api_keys import ApiKeyRecord, HashedSecret
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.client import BrokerClient
from pyoco_server.jetstream.headers import value_of
from pyoco_server.jetstream.ordered_consumer import OrderedConsumer
from pyoco_server.store.keys import PREFIX, record_in
from pyoco_server.supervision import Backoff, Loop

LOAD_AGAIN = Backoff(first_sec=0.1, longest_sec=0.5)
STOP_WITHIN_SEC = 2.0


class KnownKey(NamedTuple):
    """A record with its secrets and scopes in the form that checks need."""

    record: ApiKeyRecord
    revision: int
    secrets: tuple[HashedSecret, ...]
    scopes: frozenset[str] | None
    has_slow_secret: bool

    def is_good(self, now: float) -> bool:
        return not self.record.is_revoked() and not self.record.is_expired(now)


class KeyTable:
    def __init__(self, client: BrokerClient, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._client = client
        self._jetstream = jetstream
        self._stream = f"KV_{config.auth_kv_bucket}"
        self._feed = OrderedConsumer(
            client,
            jetstream,
            self._stream,
            f"$KV.{config.auth_kv_bucket}",
            self._on_message,
            on_lost=self._on_lost,
        )
        self._known: dict[str, KnownKey] = {}
        self._filled = False
        self._loaded = asyncio.Event()
        self._is_stale = False
        self._loop = Loop("API keys", self._fill, backoff=LOAD_AGAIN)

    def start(self) -> None:
        self._feed.start(0)
        self._fill_again()
        self._loop.start()

    async def stop(self) -> None:
        self._feed.moved.set()
        await self._loop.stop(STOP_WITHIN_SEC)
        await self._feed.stop()

    def handle_reconnect(self) -> None:
        """A key may have been revoked meanwhile: the table is not used until it is filled again."""
        self._filled = False
        self._feed.handle_reconnect()
        self._fill_again()

    @property
    def is_current(self) -> bool:
        is_connected = self._client.is_connected and self._feed.is_receiving
        return self._filled and is_connected and self._feed.is_verified

    def why_not(self) -> str | None:
        return None if self.is_current else "the API keys are not loaded yet"

    async def until_loaded(self) -> None:
        """Wait until the table was filled once."""
        await self._loaded.wait()
        await self._feed.subscribed.wait()

    def check(self) -> None:
        if not self.is_current:
            raise Unavailable("API keys cannot be checked now. Try again when /ready says so.")

    def find(self, key_id: str) -> KnownKey | None:
        return self._known.get(key_id)

    def _fill_again(self) -> None:
        self._is_stale = True
        self._feed.moved.set()
        self._loop.wake()

    async def _fill(self) -> None:
        """Wait until the table has everything that was written before now, and the position is verified."""
        self._is_stale = False
        goal = await self._jetstream.last_seq(self._stream)
        while not (self._feed.is_verified and self._feed.reached >= goal) and not self._has_to_end():
            await self._feed.next_move(goal)
        self._filled = not self._has_to_end()
        if self._filled:
            self._loaded.set()

    def _has_to_end(self) -> bool:
        return self._is_stale or self._loop.is_stopping

    def _on_lost(self, _created: str, _last_seq: int) -> None:
        """The broker has lost messages: the table is filled again from what it has."""
        self._known.clear()
        self._filled = False
        self._fill_again()

    def _on_message(self, key: str, revision: int, headers: bytes, data: bytes) -> None:
        if not key.startswith(PREFIX):
            return
        key_id = key.removeprefix(PREFIX)
        is_deleted = value_of(headers, b"KV-Operation") is not None
        record = record_in(key_id, None if is_deleted else data)
        if record is None:
            self._known.pop(key_id, None)
            return
        scopes = None if record.scopes is None else frozenset(record.scopes)
        secrets = record.hashed_secrets()
        has_slow_secret = any(kept.is_slow for kept in secrets)
        self._known[key_id] = KnownKey(record, revision, secrets, scopes, has_slow_secret)
