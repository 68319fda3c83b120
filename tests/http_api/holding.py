"""How long a gateway's event loop is busy with one thing at a time: for so long others are not answered.

Counted in processor time of the loop's thread, which other processes of the machine do not change. Without
the garbage collector: in the process of the tests it also goes through what the test and its client hold,
which took half a second once.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

HOLD_SEC_MAX = 0.5


class Holds:
    worst_sec = 0.0


@contextmanager
def held() -> Iterator[Holds]:
    """The gateway has to be served by the loop of the test."""
    seen = Holds()
    whole = asyncio.Handle._run

    def run(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        whole(handle)
        seen.worst_sec = max(seen.worst_sec, time.thread_time() - began)

    gc.disable()
    try:
        with patch.object(asyncio.Handle, "_run", run):
            yield seen
    finally:
        gc.enable()
