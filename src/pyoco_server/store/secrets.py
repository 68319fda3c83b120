"""The secret that all gateways share: created once, by the first that needs it, in the auth bucket."""

from __future__ import annotations

import asyncio
import secrets

from pyoco_server.config import NatsBackendConfig
from pyoco_server.cursors import SECRET_BYTES
from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.jetstream.kv import Bucket

# API keys lie in the same bucket, below `api_keys.`.
TOKENS_KEY = "secret.tokens"
MAKE_TRIES_MAX = 5


class Secrets:
    def __init__(self, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._bucket = Bucket(jetstream, config.auth_kv_bucket)
        self._tokens: bytes | None = None
        self._one_at_a_time = asyncio.Lock()

    async def for_tokens(self) -> bytes:
        """The secret that signs tokens, shared by all gateways of one environment."""
        if self._tokens is not None:
            return self._tokens
        async with self._one_at_a_time:
            if self._tokens is None:
                self._tokens = await self._read_or_make(TOKENS_KEY)
            return self._tokens

    def forget(self) -> None:
        """Drop the cached secret: the broker may have returned with an empty disk."""
        self._tokens = None

    async def _read_or_make(self, key: str) -> bytes:
        for _ in range(MAKE_TRIES_MAX):
            entry = await self._bucket.get_at_leader(key)
            if entry.value:
                return entry.value
            made = secrets.token_bytes(SECRET_BYTES)
            try:
                await self._bucket.put(key, made, revision=entry.revision)
            except WrongSequence:
                continue  # another gateway was first: use its secret
            return made
        raise Unavailable("The secret for tokens cannot be read. Try again.")
