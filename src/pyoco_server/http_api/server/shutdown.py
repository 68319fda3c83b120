"""Hear of the end when the server does: it waits for open answers before it tells the application.

A stream that is open for minutes would keep a server that was told to stop, and the server tells nobody but
itself. So whatever it does on a signal, we do something before.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def call_before_shutdown(act: Callable[[], None]) -> uvicorn.Server | None:
    """Only where uvicorn itself hears the signals; it takes its handlers, and so ours, away when it ends.

    Gives the server that was found."""
    if threading.current_thread() is not threading.main_thread():
        return None  # signals are not heard here
    found: uvicorn.Server | None = None
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        handler = signal.getsignal(number)
        server = getattr(handler, "__self__", None)
        if isinstance(server, uvicorn.Server):
            found = server
            signal.signal(number, _both(lambda: loop.call_soon_threadsafe(act), handler))
    return found


def _both(first: Callable[[], Any], then: Any) -> Callable[[int, FrameType | None], None]:
    def handle(number: int, frame: FrameType | None) -> None:
        first()
        then(number, frame)

    return handle
