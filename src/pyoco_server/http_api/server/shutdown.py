"""Calls a function when uvicorn receives a signal to stop.

uvicorn waits for open responses before it ends the lifespan of the application, so open streams would delay
the stop for minutes. They are ended here, in front of uvicorn's signal handler.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from types import FrameType

import uvicorn

Handler = Callable[[int, FrameType | None], object]

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def call_before_shutdown(act: Callable[[], None]) -> uvicorn.Server | None:
    """Returns the server; None where uvicorn does not handle the signals. It removes the handlers itself."""
    if threading.current_thread() is not threading.main_thread():
        return None  # other threads receive no signals
    found: uvicorn.Server | None = None
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        handler = signal.getsignal(number)
        server = getattr(handler, "__self__", None)
        if isinstance(server, uvicorn.Server) and callable(handler):
            found = server
            signal.signal(number, _both(lambda: loop.call_soon_threadsafe(act), handler))
    return found


def _both(first: Callable[[], object], then: Handler) -> Handler:
    def handle(number: int, frame: FrameType | None) -> None:
        first()
        then(number, frame)

    return handle
