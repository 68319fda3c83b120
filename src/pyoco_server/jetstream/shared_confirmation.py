"""One confirmation at a time per key, shared by all callers that wait for it.

A caller cannot use the answer of a request that was in flight when it called: the answer may be older than
the call. But all callers that wait meanwhile share the next request, so that a crowd costs two requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pyoco_server.errors import Unavailable

Ask = Callable[[], Awaitable[bool]]


class SharedConfirmation:
    def __init__(self) -> None:
        self._questions: dict[str, _Question] = {}

    async def ask(self, what: str, ask: Ask) -> bool:
        """The answer of an `ask` that began after this call, ours or another caller's. Raises Unavailable."""
        question = self._questions.setdefault(what, _Question())
        question.waiters += 1
        try:
            return await question.ask(ask)
        finally:
            question.waiters -= 1
            if not question.waiters:
                del self._questions[what]

    def __len__(self) -> int:
        return len(self._questions)


class _Question:
    def __init__(self) -> None:
        self.waiters = 0
        self._lock = asyncio.Lock()
        self._asked = 0
        self._answer: bool | Unavailable | None = None

    async def ask(self, ask: Ask) -> bool:
        wanted = self._asked + 1
        async with self._lock:
            # None: the caller that asked was cancelled before the answer came.
            if self._asked < wanted or self._answer is None:
                self._asked += 1
                self._answer = None
                self._answer = await _answer(ask)
            if isinstance(self._answer, Unavailable):
                raise self._answer
            return self._answer


async def _answer(ask: Ask) -> bool | Unavailable:
    try:
        return await ask()
    except Unavailable as error:
        return error
