"""How long a gateway leaves its cheapest request unanswered while it does something else."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

# What a request that needs nothing may wait for the event loop, on a machine that does other things, too.
HOLD_SEC_MAX = 0.5


class Holds:
    worst_sec = 0.0
    answers = 0


@asynccontextmanager
async def polled(port: int) -> AsyncIterator[Holds]:
    """From a thread of its own: the test's loop is the gateway's."""
    seen, stop = Holds(), threading.Event()

    def poll() -> None:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            while not stop.is_set():
                began = time.monotonic()
                assert client.get("/health").status_code == 200
                seen.worst_sec = max(seen.worst_sec, time.monotonic() - began)
                seen.answers += 1

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        await asyncio.to_thread(thread.join)  # its last request needs our loop to be answered
