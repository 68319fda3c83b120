"""API keys with the slow hash of the upstream product: it takes 0.1 s, so it is computed in a thread, once.

After the first success the record is rewritten with a fast hash. Until the new record arrives, and for wrong
secrets, answers are cached. One thread with a short queue computes them: guesses must not slow other callers.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from concurrent.futures import ThreadPoolExecutor

from pyoco_server.api_keys import HashedSecret, matches, rehash
from pyoco_server.errors import Limited, Unavailable
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.operations.bounded_dict import put_bounded
from pyoco_server.read_model.key_table import KnownKey
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

WAITING_MAX = 16
CACHED_MAX = 256

_Question = tuple[bytes, bytes]


class SlowKeys:
    def __init__(self, store: Store) -> None:
        self._keys = store.keys
        self._pepper = store.config.auth_pepper
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="slow-keys")
        self._waiting: dict[_Question, asyncio.Task[bool]] = {}
        self._answers: dict[_Question, bool] = {}

    def stop(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def fits(self, secret: str, kept: HashedSecret, known: KnownKey) -> bool:
        """The cache contains the digest of the secret and the hash it was compared with, never the secret."""
        question = (kept.hash, hashlib.sha256(secret.encode()).digest())
        answer = self._answers.get(question)
        if answer is not None:
            return answer
        task = self._waiting.get(question)
        if task is None:
            if len(self._waiting) >= WAITING_MAX:
                raise Limited("Too many API keys of the old kind are being checked.", retry_after_sec=1.0)
            task = asyncio.get_running_loop().create_task(self._find_out(question, secret, kept, known))
            self._waiting[question] = task
        return await asyncio.shield(task)  # a client that disconnects must not end the check for others

    async def _find_out(self, question: _Question, secret: str, kept: HashedSecret, known: KnownKey) -> bool:
        try:
            loop = asyncio.get_running_loop()
            answer = await loop.run_in_executor(self._thread, matches, secret, kept, self._pepper)
            if answer:
                await self._rewrite(secret, kept, known)
            put_bounded(self._answers, question, answer, CACHED_MAX)
            return answer
        finally:
            del self._waiting[question]

    async def _rewrite(self, secret: str, kept: HashedSecret, known: KnownKey) -> None:
        record = rehash(known.record, kept, secret, self._pepper)
        fields = {"api_key_id": record.key_id}
        try:
            await self._keys.replace(record, revision=known.revision)
            log.info("an API key got a fast hash", extra=fields)
        except WrongSequence:
            pass  # the record has changed, or was revoked: the next success tries again
        except Unavailable as error:
            log.warning("an API key keeps its slow hash for now", extra=fields | {"error": error.message})
