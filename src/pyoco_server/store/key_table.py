"""The API keys in memory, kept up to date by the broker's push, so that a look-up asks nobody.

A table that may be out of date is not used: while it is being filled, the connection is lost or the broker
has been silent for too long, `check` refuses. A revocation is here as fast as any other message.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import NamedTuple

from pyoco_server.api_keys import ApiKeyRecord, HashedSecret
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.store.client import BrokerClient
from pyoco_server.store.feed import Feed
from pyoco_server.store.headers import value_of
from pyoco_server.store.jetstream import JetStream
from pyoco_server.store.keys import PREFIX, record_in

log = logging.getLogger(__name__)

LOAD_AGAIN_SEC = 0.5
# When the position stands still this long before its goal, the messages up to it may be gone.
CONFIRM_AFTER_SEC = 0.25


class KnownKey(NamedTuple):
    """A record with its secrets and scopes in the form in which they are looked at."""

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
        self._feed = Feed(client, jetstream, self._stream, f"$KV.{config.auth_kv_bucket}", self._on_message)
        self._known: dict[str, KnownKey] = {}
        self._created = ""
        self._filled = False
        self._moved = asyncio.Event()
        self._fill_again = asyncio.Event()
        self._stopping = False
        self._keeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._feed.start(0)
        self._fill_again.set()
        self._keeper = asyncio.get_running_loop().create_task(self._keep())

    async def stop(self) -> None:
        self._stopping = True
        self._fill_again.set()
        self._moved.set()
        if self._keeper is not None:
            await asyncio.wait([self._keeper], timeout=2.0)
        await self._feed.stop()

    def reconnected(self) -> None:
        """What happened meanwhile is not known yet, and may have been a revocation."""
        self._filled = False
        self._feed.reconnected()
        self._fill_again.set()

    @property
    def is_current(self) -> bool:
        return self._filled and self._client.is_connected and self._feed.is_heard

    def check(self) -> None:
        if not self.is_current:
            raise Unavailable("API keys cannot be checked now. Try again when /ready says so.")

    def find(self, key_id: str) -> KnownKey | None:
        return self._known.get(key_id)

    async def _keep(self) -> None:
        while not self._stopping:
            await self._fill_again.wait()
            self._fill_again.clear()
            try:
                await self._fill()
            except Unavailable as error:
                log.debug("API keys are not loaded yet", extra={"error": error.message})
                await self._moves(LOAD_AGAIN_SEC)
                self._fill_again.set()

    async def _fill(self) -> None:
        """Wait until everything written before now is here; anew, if the broker has another bucket."""
        info = await self._jetstream.api(f"STREAM.INFO.{self._stream}")
        if self._created not in ("", str(info["created"])):
            self._known.clear()
            self._feed.rewind()
        self._created, goal = str(info["created"]), int(info["state"]["last_seq"])
        while self._feed.position < goal and not self._fill_again.is_set():
            if not await self._moves(CONFIRM_AFTER_SEC):
                await self._feed.confirm(goal)
        self._filled = not self._fill_again.is_set()

    async def _moves(self, within_sec: float) -> bool:
        self._moved.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_sec):
                return await self._moved.wait()
        return False

    def _on_message(self, key: str, revision: int, headers: bytes, data: bytes) -> None:
        self._moved.set()
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
